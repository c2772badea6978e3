"""Sends webhooks without a pause, each on its own connection."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

from scenes.payloads import envelope, order, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

PAUSE_SECONDS = 0.004


async def deliver(
    ports: Sequence[int], number: int, secret: str, store: str
) -> tuple[int, bytes]:
    """Send one webhook; return the status (0: no response) and the body.

    Several ports are used in turn. If a port is closed or does not answer, the next
    port gets the webhook, as with a load balancer.
    """
    body = envelope("orders/create", order(f"ord_load_{number}"), storeId=store)
    told = signed(body, secret.encode()) | {"Host": "x", "Connection": "close"}
    lines = [f"{name}: {value}" for name, value in told.items()]
    head = "\r\n".join(["POST /webhooks/main HTTP/1.1", *lines])
    request = f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    for place in range(len(ports)):
        answer = await _answer(ports[(number + place) % len(ports)], request)
        if answer:
            return int(answer.split()[1]), body
    return 0, body


async def _answer(port: int, request: bytes) -> bytes:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return b""
    try:
        writer.write(request)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


class Load:
    """Sends webhooks until `going` is false.

    The rate is `per_second` if the machine can keep it; never more than `most_waiting`
    webhooks wait for a response.
    """

    def __init__(
        self,
        port: int | Sequence[int],
        secret: str,
        store: str,
        per_second: float | None = None,
        most_waiting: float = inf,
    ) -> None:
        self._ports = [port] if isinstance(port, int) else port
        self._per_second = per_second
        self._most_waiting = most_waiting
        self._secret = secret
        self._store = store
        self._answered = 0
        self.sent: list[asyncio.Task[tuple[int, bytes]]] = []
        self.going = True

    async def run(self) -> None:
        began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            while self.going:
                if not self._is_held():
                    self._send(group)
                await asyncio.sleep(self._pause_seconds(began))

    def _send(self, group: asyncio.TaskGroup) -> None:
        number = len(self.sent)
        sending = deliver(self._ports, number, self._secret, self._store)
        self.sent.append(group.create_task(sending))
        self.sent[-1].add_done_callback(self._count)

    def _is_held(self) -> bool:
        return len(self.sent) - self._answered >= self._most_waiting

    def _count(self, _: object) -> None:
        self._answered += 1

    def _pause_seconds(self, began: float) -> float:
        if self._per_second is None or self._is_held():
            return PAUSE_SECONDS
        due = began + len(self.sent) / self._per_second
        return max(0.0, due - asyncio.get_running_loop().time())

    def answered(self) -> int:
        return self._answered

    def has_more_than(self, number: int) -> bool:
        return self.answered() > number

    def is_answered(self) -> bool:
        return self.answered() == len(self.sent)
