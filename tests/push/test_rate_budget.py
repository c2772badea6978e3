"""Commands use the whole rate budget of the platform and never exceed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenes.pushing import applied_response
from scenes.scripted_platform import Connection, Request, message, problem
from scenes.stock_history import HISTORY, history
from scenes.stored import commands, rows_of, values_of

if TYPE_CHECKING:
    from scenes.clock import VirtualClock
    from scenes.pushing import Scene

from scenes.pushing import working

PER_SECOND, BURST = 4, 40
COMMANDS = 160


class Bucket:
    """Accepts `PER_SECOND` requests a second, and reports the rest in headers."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._left, self._at = float(BURST), 0.0
        self.taken: list[float] = []
        self.refused = 0

    async def __call__(self, request: Request, connection: Connection) -> None:
        now = self._clock.monotonic()
        self._left = min(self._left + (now - self._at) * PER_SECOND, BURST)
        self._at = now
        if self._left < 1 - 1e-6:
            self.refused += 1
            await connection.send(problem(429, "RATE_LIMITED"))
            return
        self._left -= 1
        self.taken.append(now)
        full = (BURST - self._left) / PER_SECOND
        headers = f'RateLimit-Policy: "key";q={PER_SECOND * 60};w=60\r\n'
        headers += f'RateLimit: "key";r={int(self._left)};t={full:.0f}\r\n'
        head, _, body = self.says(request).partition(b"\r\n\r\n")
        await connection.send(head + b"\r\n" + headers.encode() + b"\r\n" + body)

    def says(self, request: Request) -> bytes:
        return history() if request.path == HISTORY else applied_response(request)


async def test_the_budget_is_used_and_never_exceeded(stage: Scene) -> None:
    bucket = Bucket(stage.clock)
    stage.platform.respond("/inventory/adjust", bucket)
    for number in range(COMMANDS):
        await stage.plan("adjust", f"prod_{number}")
    async with working(stage):
        while set(values_of(stage.place, "commands", "state")) != {"applied"}:
            await stage.pass_time(0.25)
            await stage.run_pending()
    assert bucket.refused == 0
    assert len(bucket.taken) == COMMANDS
    # After the burst, the whole refill is used.
    seconds = bucket.taken[-1]
    assert 0.95 * seconds * PER_SECOND <= COMMANDS - BURST


class Failing(Bucket):
    """Fails a command once the burst is used up."""

    def says(self, request: Request) -> bytes:
        said = super().says(request)
        return message(500) if len(self.taken) == BURST + 5 else said


async def test_uncertain_commands_are_checked_while_commands_use_the_whole_budget(
    stage: Scene,
) -> None:
    """A backlog may last for hours; an uncertain command blocks its ordering key."""
    bucket = Failing(stage.clock)
    for path in ("/inventory/adjust", HISTORY):
        stage.platform.respond(path, bucket)
    for number in range(COMMANDS):
        await stage.plan("adjust", f"prod_{number}")
    async with working(stage):
        while not any(command.looks for command in commands(stage.place)):
            await stage.pass_time(0.25)
            await stage.run_pending()
            waiting = rows_of(stage.place, "commands", state="planned")
            assert waiting, "it waited for the last"
    assert bucket.refused == 0
