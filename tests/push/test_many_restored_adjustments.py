"""A restored database has many adjustments of one product to check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenes.pushing import working_with_audit
from scenes.stock_history import HISTORY, history, move
from scenes.stored import checks
from scenes.waiting import until

if TYPE_CHECKING:
    from scenes.pushing import Scene
    from scenes.scripted_platform import Connection, Request

COMMANDS = 30
MOST_READS = 3
"""The first check may be due at the very time at which the read begins."""


async def test_one_reading_of_the_history_serves_all_checks_of_a_product(
    stage: Scene,
) -> None:
    commands = [await stage.plan("adjust", "prod_1") for _ in range(COMMANDS)]
    unknown = move(99, "0" * 32)  # by it the audit notices the restore

    async def answer(request: Request, connection: Connection) -> None:
        await stage.clock.advance(0.01)
        await connection.send(history(unknown))

    stage.platform.respond(HISTORY, answer)
    async with working_with_audit(stage):
        for command in commands:
            await until(lambda id_=command: checks(stage.place, id_), "it is checked")  # type: ignore[misc]
    for command in commands:
        assert [each.found for each in checks(stage.place, command)] == ["absent"]
    reads = [r for r in stage.server.of("GET", HISTORY) if "product" in r.query]
    assert len(reads) <= MOST_READS
    assert stage.server.commands == []
