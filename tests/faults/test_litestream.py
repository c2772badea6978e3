"""Litestream copies the database under load; the restored copy is held for audit."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scenes.daemon import daemon_process, in_process
from scenes.litestream import replicating
from scenes.stored import rows_of
from scenes.waiting import until
from scenes.webhook_load import Load

if TYPE_CHECKING:
    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/back-up-and-restore.md"
ANSWERS = 1_000


def recipe(**words: str) -> str:
    """Return the page's litestream.yml, with its bucket and database replaced."""
    (text,) = re.findall(r"```yaml\n(snapshot:.*?)```", PAGE.read_text(), re.DOTALL)
    for old, new in {
        "/var/lib/backhaul/backhaul.db": words["database"],
        "s3://backups/backhaul": words["url"],
    }.items():
        assert old in text, old
        text = text.replace(old, new)
    return str(text)


@pytest.mark.faults
@pytest.mark.long
async def test_a_litestream_copy_is_restored_and_held_for_audit(
    office: Office, platform: ReferenceProcess, tmp_path: Path
) -> None:
    url = f"file://{tmp_path / 'replica'}"
    with daemon_process(office) as daemon:
        told = recipe(database=str(office.database), url=url)
        with replicating(told, office.database, tmp_path) as litestream:
            statuses = await delivered(office, platform.store().id)
            assert daemon.terminate(60) == 0
    assert statuses == {200}
    out = tmp_path / "restored.db"
    litestream.restore(out)
    restored = rows_of(out, "events", "id", "body")
    assert len(restored) > ANSWERS
    assert restored == rows_of(office.database, "events", "id", "body")
    drill = in_process("restore", out, "--drill", config=office.config)
    assert drill.code == 0, drill.err
    done = in_process("restore", out, config=office.config)
    assert (done.code, "no command is sent until" in done.out) == (0, True), done.err
    with daemon_process(office):
        stopped = in_process("status", config=office.config).out
        assert "everything waits: the database was restored" in stopped


async def delivered(office: Office, store: str) -> set[int]:
    """Deliver webhooks for a while; return the statuses of all answers."""
    public = (office.read_status() or {})["public_url"]
    load = Load(int(public.rpartition(":")[2]), office.webhook_secret, store, 100)
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        await until(lambda: load.has_more_than(ANSWERS), "it receives", 120)
        load.going = False
        await until(load.is_answered, "all are answered", 60)
    return {task.result()[0] for task in load.sent}
