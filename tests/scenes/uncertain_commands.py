"""Uncertain commands and their checks, for tests of the resolver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scenes.pushing import Scene, applied_response
from scenes.scripted_platform import Connection, Request, message
from scenes.stored import checks
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

FAILED = message(500)


def check_results(stage: Scene, command: str) -> list[tuple[Any, ...]]:
    """Return the number and the result of each check of a command."""
    return [(each.number, each.found) for each in checks(stage.place, command)]


async def plan_uncertain(stage: Scene, kind: str = "adjust", **members: Any) -> str:
    """Plan a command; the platform answers its first attempt with 500."""
    target = "prod_1" if kind == "adjust" else "ord_1"
    path = "/inventory/adjust" if kind == "adjust" else f"/orders/ord_1/{kind}"
    stage.platform.respond(path, FAILED, respond_applied)
    return await stage.plan(kind, target, **members)


async def await_failed_check(stage: Scene, command: str, status: int = 503) -> None:
    """Let time pass until a check of the command failed with this status."""
    await advance_until(stage, lambda: str(status) in stage.reason(command))


async def advance_until(stage: Scene, condition: Callable[[], object]) -> None:
    """Let time pass until the condition is true; the resolver retries failed reads."""
    while not condition():
        await stage.pass_time(1)
        await stage.run_pending()


async def await_checks(stage: Scene, command: str, times: int) -> None:
    await until(lambda: len(check_results(stage, command)) == times, f"check {times}")


async def pass_all_checks(stage: Scene, command: str) -> None:
    """Let the time of all checks of a command pass."""
    await await_checks(stage, command, 1)
    await stage.pass_time(120)
    await await_checks(stage, command, 2)
    await stage.pass_time(480)


async def respond_applied(request: Request, connection: Connection) -> None:
    await connection.send(applied_response(request))
