"""Delivers 500 webhooks a second, or as many as the machine can, until a line comes in.

It says when the first were answered, and all.
It runs beside the machine, in its network.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter

import uvloop

from scenes.restarts import MOST_WAITING, many_files
from scenes.waiting import until
from scenes.webhook_load import Load

PORT = 8750
WARM = 50
PER_SECOND = 500


async def main(secret: str, store: str) -> None:
    load = Load(PORT, secret, store, PER_SECOND, MOST_WAITING)
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        await until(lambda: load.has_more_than(WARM), "it receives")
        sys.stdout.write("answered\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        load.going = False
        seconds = time.monotonic() - began
    statuses = Counter(task.result()[0] for task in load.sent)
    told = {"sent": len(load.sent), "seconds": seconds, "statuses": statuses}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    with many_files():
        uvloop.run(main(sys.argv[1].split()[0], sys.argv[2]))
