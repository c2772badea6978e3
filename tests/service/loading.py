"""Delivers webhooks until a line comes in; says when the first were answered, and all.

It runs beside the machine, in its network.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter

from support.delivering import Load
from support.waiting import until

PORT = 8750
WARM = 50


async def main(secret: str, store: str) -> None:
    load = Load(PORT, secret, store)
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        await until(lambda: load.has_more_than(WARM), "it receives")
        sys.stdout.write("answered\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        load.going = False
    statuses = Counter(task.result()[0] for task in load.sent)
    sys.stdout.write(json.dumps({"sent": len(load.sent), "statuses": statuses}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1].split()[0], sys.argv[2]))
