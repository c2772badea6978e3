"""Commands in doubt and the looks at them, as tests of settling need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scenes.pushing import Scene, applied
from scenes.scripted_platform import Connection, Request, message
from scenes.stored import checks
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

FAILED = message(500)


def looks(stage: Scene, command: str) -> list[tuple[Any, ...]]:
    return [(each.number, each.found) for each in checks(stage.place, command)]


async def doubt(stage: Scene, kind: str = "adjust", **members: Any) -> str:
    """Plan a command whose first attempt is answered 500."""
    target = "prod_1" if kind == "adjust" else "ord_1"
    path = "/inventory/adjust" if kind == "adjust" else f"/orders/ord_1/{kind}"
    stage.platform.says(path, FAILED, apply)
    return await stage.plan(kind, target, **members)


async def in_vain(stage: Scene, command: str, status: int = 503) -> None:
    """Let time pass until the platform could not be read for it."""
    await outwait(stage, lambda: str(status) in stage.reason(command))


async def outwait(stage: Scene, look: Callable[[], object]) -> None:
    """Let time pass until `look` is true: a read that a stall cut short comes again."""
    while not look():
        await stage.pass_time(1)
        await stage.quiet()


async def looked(stage: Scene, command: str, times: int) -> None:
    await until(lambda: len(looks(stage, command)) == times, f"look {times}")


async def outlast(stage: Scene, command: str) -> None:
    """Let all looks of a command pass."""
    await looked(stage, command, 1)
    await stage.pass_time(120)
    await looked(stage, command, 2)
    await stage.pass_time(480)


async def apply(request: Request, connection: Connection) -> None:
    await connection.send(applied(request))
