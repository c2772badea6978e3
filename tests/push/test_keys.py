"""A command in doubt that may be sent again under its idempotency key."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from backhaul.push.door import PROBE_SECONDS
from backhaul.store.deciding import Decision
from support.clock import START
from support.databases import rows
from support.push_history import HISTORY, history, move
from support.push_looks import FAILED, apply, doubt, in_vain, looked, looks
from support.push_scene import Scene, scene, working
from support.push_server import Connection, Request, message, problem
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def keyed(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path / "b.db", keyed=True) as made:
        yield made


async def test_under_its_key_it_is_sent_again_at_once(keyed: Scene) -> None:
    command = await doubt(keyed)
    async with working(keyed):
        await keyed.reaches(command, "applied")
    first, second = keyed.server.commands
    assert first.body == second.body
    name = "idempotency-key"
    assert first.headers[name] == second.headers[name]
    assert looks(keyed, command) == [(1, "applied")]
    assert "same Idempotency-Key" in keyed.reason(command)


async def test_of_what_was_answered_under_its_key_no_person_is_kept(
    keyed: Scene,
) -> None:
    command = await doubt(keyed, "fulfill")
    async with working(keyed):
        await keyed.reaches(command, "applied")
    ((read,),) = rows(keyed.path, "SELECT read FROM looks")
    assert json.loads(read)["shipment"] == "shp_1"
    assert "a@b.example" not in read


async def test_it_waits_for_room_before_it_is_sent_again(keyed: Scene) -> None:
    room = {"RateLimit_Policy": '"key";q=1;w=60', "RateLimit": '"key";r=0;t=60'}
    command = await doubt(keyed)
    keyed.platform.says("/inventory/adjust", message(500, b"", **room), apply)
    async with working(keyed):
        await keyed.reaches(command, "uncertain")
        await keyed.pass_time(59)
        await keyed.arrive(1)
        await keyed.pass_time(2)
        await keyed.reaches(command, "applied")
    assert len(keyed.server.commands) == 2


async def test_what_a_person_parks_while_it_waits_for_room_is_not_sent_again(
    keyed: Scene,
) -> None:
    room = {"RateLimit_Policy": '"key";q=1;w=60', "RateLimit": '"key";r=0;t=60'}
    command = await doubt(keyed)
    keyed.platform.says("/inventory/adjust", message(500, b"", **room), apply)
    async with working(keyed):
        await keyed.reaches(command, "uncertain")
        await keyed.pass_time(59)
        parked = Decision(command, "park", "ann", "I do it by hand")
        await keyed.store.decisions.decide(parked)
        await keyed.pass_time(120)
        await keyed.arrive(1)
    assert keyed.state(command) == "parked"


async def test_a_refusal_under_its_key_proves_nothing(keyed: Scene) -> None:
    command = await doubt(keyed)
    conflict = problem(409, "IDEMPOTENCY_IN_PROGRESS")
    keyed.platform.says("/inventory/adjust", FAILED, conflict)
    keyed.platform.says(HISTORY, history(move(1, command)))
    async with working(keyed):
        await keyed.reaches(command, "applied")
    assert "history shows our tag" in keyed.reason(command)


async def test_where_its_key_is_not_answered_the_history_is_read(keyed: Scene) -> None:
    """What it does not show is not believed: a request may be under way again."""

    async def reset(_: Request, connection: Connection) -> None:
        connection.reset()

    command = await doubt(keyed)
    keyed.platform.says("/inventory/adjust", FAILED, reset)
    keyed.platform.says(HISTORY, history())
    async with working(keyed):
        await until(lambda: "key was not answered" in keyed.reason(command), "a look")
        assert looks(keyed, command) == []
        keyed.platform.says(HISTORY, history(move(1, command)))
        while keyed.state(command) != "applied":
            await keyed.pass_time(1)
            await keyed.quiet()
    assert "history shows our tag" in keyed.reason(command)


async def test_what_its_key_can_prove_is_not_parked_for_want_of_a_history(
    keyed: Scene,
) -> None:
    command = await doubt(keyed)
    keyed.platform.says("/inventory/adjust", FAILED, FAILED, apply)
    async with working(keyed):
        await looked(keyed, command, 1)
        assert keyed.state(command) == "uncertain"
        await keyed.pass_time(120)
        await keyed.reaches(command, "applied")
    assert looks(keyed, command) == [(1, "undecidable"), (2, "applied")]


async def test_a_look_does_not_count_while_its_key_cannot_be_asked(
    keyed: Scene,
) -> None:
    async def close_the_door(_: Request, connection: Connection) -> None:
        keyed.dispatcher.stop_sending("a person said so")
        await connection.send(FAILED)

    command = await doubt(keyed)
    keyed.platform.says("/inventory/adjust", close_the_door, apply)
    async with working(keyed):
        await until(lambda: "once sending goes on" in keyed.reason(command), "a look")
        assert looks(keyed, command) == []
        while keyed.state(command) != "applied":
            await keyed.pass_time(PROBE_SECONDS)
            await keyed.quiet()
    assert "same Idempotency-Key" in keyed.reason(command)


async def test_a_key_that_is_too_old_is_not_used_again(keyed: Scene) -> None:
    command = await doubt(keyed)
    keyed.platform.says("/inventory/adjust", FAILED)
    keyed.platform.says(HISTORY, message(503))
    async with working(keyed):
        await in_vain(keyed, command)
        sent = len(keyed.server.commands)
        assert sent > 1
        for _ in range(24 * 12):
            await keyed.pass_time(300)
        await keyed.quiet()
        sent = len(keyed.server.commands)
        await keyed.pass_time(3_600)
        await keyed.quiet()
    assert len(keyed.server.commands) == sent


@pytest.mark.parametrize("back_seconds", [0, 1_800], ids=["", "set back"])
async def test_the_age_of_a_key_counts_from_when_it_was_sent_first(
    back_seconds: int, tmp_path: Path
) -> None:
    """The platform forgets it a day after that, however often it was sent since."""
    path = tmp_path / "b.db"
    async with scene(path) as stage:
        command = await doubt(stage)
        stage.platform.says(HISTORY, message(503))
        async with working(stage):
            await stage.reaches(command, "uncertain")
            await stage.store.decisions.decide(Decision(command, "park", "op", ""))
    async with scene(path, start=START + timedelta(hours=22)) as stage:
        stage.platform.says("/inventory/adjust", FAILED)
        stage.platform.says(HISTORY, message(503))
        await stage.store.decisions.decide(Decision(command, "resend", "op", ""))
        async with working(stage):
            await stage.reaches(command, "uncertain")
    async with scene(path, keyed=True, start=START + timedelta(hours=23)) as stage:
        stage.platform.says(HISTORY, history())
        stage.clock.set_back(back_seconds)
        await stage.store.tags.shift("main", back_seconds, 60)
        await stage.pass_time(60)
        assert await stage.settler.work_off() == 1
        assert looks(stage, command)[-1][1] == "absent"
        assert stage.server.commands == []
