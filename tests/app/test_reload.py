"""The configuration is reloaded while the daemon runs."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
from loguru import logger

from backhaul.app.reload import differences, taken_over
from backhaul.cli import context
from scenes.daemon import in_process
from scenes.payloads import envelope, order, signed
from scenes.service_manager import handing, kept_socket, manager
from scenes.silent_platform import office_with_known_store, supervised
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from backhaul.app.daemon import Daemon
    from scenes.daemon import Office

NEW = "whsec_" + "9" * 32


@contextmanager
def messages() -> Iterator[list[dict[str, Any]]]:
    """Collect the log messages about reloads."""
    lines: list[dict[str, Any]] = []

    def keep(message: Any) -> None:
        if message.record["extra"].get("action", "").startswith("reload."):
            record = message.record
            lines.append({**record["extra"], "message": record["message"]})

    sink = logger.add(keep)
    try:
        yield lines
    finally:
        logger.remove(sink)


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Office, Daemon]]:
    async with office_with_known_store() as office:
        with kept_socket() as kept:
            async with supervised(office, handing(kept)) as daemon:
                yield office, daemon


async def accepts(daemon: Daemon, secret: str) -> bool:
    body = envelope("orders/create", order())
    async with httpx.AsyncClient() as client:
        address = f"{daemon.public_url}/webhooks/main"
        answer = await client.post(
            address, content=body, headers=signed(body, secret.encode())
        )
    return answer.status_code == 200


async def test_secrets_and_jobs_are_applied_and_the_rest_is_named() -> None:
    async with running() as (office, daemon):
        old = office.webhook_secret
        with messages() as lines:
            office.webhook_secret = NEW
            office.more = '[jobs.prune]\nevery = "7m"\n'
            office.write(**{'match_wait = "10m"': 'match_wait = "11m"'})
            daemon.reload()
            (line,) = await until(lambda: lines, "it says what it did")
        assert line["action"] == "reload.done"
        assert (
            "in force now: stores.main.webhook_secrets, jobs.prune" in (line["message"])
        )
        assert "needs a restart: connect.match_wait" in line["message"]
        assert NEW not in line["message"]
        assert (await accepts(daemon, NEW), await accepts(daemon, old)) == (True, False)


async def planned(office: Office) -> str:
    """Return when a job runs, as `jobs list` shows it while the daemon runs."""
    said = await asyncio.to_thread(
        in_process, "jobs", "list", "--json", config=office.config
    )
    (prune,) = (row for row in said.json() if row["job"] == "prune")
    return str(prune["when"])


async def test_a_job_is_listed_as_it_runs_and_not_as_the_file_says() -> None:
    async with running() as (office, daemon):
        before = await planned(office)
        office.more = '[jobs.prune]\nevery = "7m"\n'
        office.write()
        assert (await planned(office), before) == (before, "every 1h")
        with messages() as lines:
            daemon.reload()
            await until(lambda: lines, "it says what it did")
        assert await planned(office) == "every 7m"


async def test_a_backup_uses_the_reloaded_folder() -> None:
    async with running() as (office, daemon):
        elsewhere = office.folder / "elsewhere"
        office.more = f'[jobs.backup]\nfolder = "{elsewhere}"\n'
        office.write()
        with messages() as lines:
            daemon.reload()
            (line,) = await until(lambda: lines, "it says what it did")
        assert "in force now: jobs.backup.folder" in line["message"]
        command = ("jobs", "run", "backup")
        await asyncio.to_thread(in_process, *command, config=office.config)
        await until(lambda: [*elsewhere.glob("backhaul-*.db")], "it is made")


async def test_a_mistake_changes_nothing_and_is_logged_in_one_line() -> None:
    async with running() as (office, daemon):
        old, office.webhook_secret = office.webhook_secret, NEW
        with messages() as lines:
            office.write(
                **{"unchanged_seconds = 0": "unchanged_seconds = 0\ncolour = 1"}
            )
            daemon.reload()
            (line,) = await until(lambda: lines, "it refuses")
        assert line["action"] == "reload.refused"
        assert "the previous one stays in force" in line["message"]
        assert "connectors.courier.colour" in line["message"]
        assert (await accepts(daemon, old), await accepts(daemon, NEW)) == (True, False)


async def test_the_manager_hears_of_it(tmp_path: Path) -> None:
    async with office_with_known_store() as office:
        with kept_socket() as kept, manager(tmp_path / "notify") as heard:
            by = handing(kept, heard=heard)
            async with supervised(office, by) as daemon:
                await until(lambda: heard.has_received("READY=1"), "it is ready")
                daemon.reload()
                await until(lambda: heard.has_received("RELOADING=1"), "it reads")
                await until(lambda: heard.has_received("READY=1"), "it is ready again")
            assert heard.has_received("STOPPING=1")


async def test_a_store_more_or_less_needs_a_restart() -> None:
    async with office_with_known_store() as office:
        running = context.settings(office.config)
        office.more = '[stores.other]\nbase_url = "http://o.example"\napi_key = "k"\n'
        office.write(**{'type = "scanner"': 'type = "scanner"\nstore = "main"'})
        text = office.config.read_text()
        office.config.write_text(
            text.replace('type = "file_drop"', 'type = "file_drop"\nstore = "main"')
        )
        found = context.settings(office.config)
        wanted = taken_over(running, found)
    assert [key for key, *_ in differences(wanted, found)] == ["stores.other"]


async def test_a_schedule_that_repeats_the_default_is_a_change() -> None:
    async with office_with_known_store() as office:
        running = context.settings(office.config)
        office.more = '[jobs.push_fulfillments]\nevery = "5s"\n'
        office.write()
        wanted = taken_over(running, context.settings(office.config))
    changed = [key for key, *_ in differences(running, wanted)]
    assert changed == ["jobs.push_fulfillments"]
    assert list(differences(running, running)) == []
