"""`backfill`, `reconcile` and `status`, with a daemon and without one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul.store import database_at
from scenes.daemon import Office, backhaul, daemon_process, office_of
from scenes.reference_process import ReferenceProcess, start_reference
from scenes.scripted_platform import unused_url
from scenes.stored import ALL, count, lists
from scenes.syncing import ON_DEMAND, differences
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def reference(tmp_path: Path) -> Iterator[ReferenceProcess]:
    started = start_reference(tmp_path / "reference")
    yield started
    started.kill()


@pytest.fixture
def office(reference: ReferenceProcess) -> Iterator[Office]:
    with office_of(reference, ON_DEMAND) as made:
        yield made


def unlike(reference: ReferenceProcess, office: Office) -> list[str]:
    """Compare all but the stock movements: a backfill reads no history."""
    found = differences(reference.state(), office.database)
    return [text for text in found if "stock move" not in text]


def test_without_a_daemon_the_command_reads_by_itself(
    reference: ReferenceProcess, office: Office
) -> None:
    said = backhaul("backfill", "--json", config=office.config)
    assert {walk["kind"] for walk in said.json()} == {
        "products",
        "levels",
        "orders",
        "customers",
    }
    assert unlike(reference, office) == []
    events = count(office.database, "events")
    again = backhaul("backfill", "--kind", "orders", config=office.config)
    assert again.code == 0, again.err
    assert "orders" in again.out
    assert "products" not in again.out
    assert count(office.database, "events") == events


def test_a_full_sync_says_since_when_the_mirror_is_equal(office: Office) -> None:
    backhaul("backfill", config=office.config)
    (unproved,) = [
        line
        for line in backhaul("status", config=office.config).out.splitlines()
        if "equal" in line
    ] or ["none"]
    assert unproved == "none"
    walks = backhaul("reconcile", "--json", config=office.config).json()
    began = min(walk["began_at"] for walk in walks)
    status = backhaul("status", "--json", config=office.config).json()
    assert status["consistency"]["main"]["as_of"] == began
    shown = backhaul("status", config=office.config).out
    assert f"as of {began}" in shown


def test_a_list_that_is_not_proved_is_named(office: Office) -> None:
    backhaul("reconcile", "--kind", "orders", config=office.config)
    shown = backhaul("status", config=office.config).out
    assert "not verified yet (orders: 2" in shown


def full_syncs(office: Office) -> int:
    """Return the number of completed passes."""
    with lists(office.database) as reader:
        return sum(p.job == "full" and bool(p.ended_at) for p in reader.passes(ALL))


def newest_polled(office: Office) -> str | None:
    """Return the time of the newest change of a product that a poll read."""
    with database_at(office.database).readable() as store:
        return asyncio.run(store.mirror.get("polled:main:products"))


def missed(reference: ReferenceProcess, office: Office) -> int:
    """Add a product; return how many missed products the command finds."""
    made = reference.v1("POST", "/products", {"title": "New", "price": "1.00"})
    assert made.status == 201
    passes = backhaul("reconcile", "--json", config=office.config).json()
    return int({each["kind"]: each["missed"] for each in passes}["products"])


def test_the_differences_are_explained(
    reference: ReferenceProcess, office: Office
) -> None:
    backhaul("backfill", config=office.config)
    made = reference.v1("POST", "/products", {"title": "New", "price": "1.00"})
    assert made.status == 201
    meaning = "missed: found only on the platform"
    for more in (("--dry-run",), ()):
        said = backhaul("reconcile", *more, config=office.config)
        assert said.err.count(meaning) == 1
        assert "stale: " not in said.err
        assert ("to repair" in said.err) is bool(more)
    assert meaning not in backhaul("reconcile", config=office.config).err


def test_a_running_daemon_carries_out_the_command(
    reference: ReferenceProcess, office: Office
) -> None:
    with daemon_process(office):
        await_true(lambda: full_syncs(office) == 4, "a full sync")
        await_true(lambda: newest_polled(office), "the first poll, to be over")
        await_true(lambda: missed(reference, office) == 1, "the command finds it")
        assert unlike(reference, office) == []


@pytest.mark.parametrize(
    "wrong", [["--kind", "parcels"], ["--store", "other"]], ids=["kind", "store"]
)
def test_a_wrong_name_is_reported(wrong: list[str], office: Office) -> None:
    for command in (["reconcile"], ["backfill"], ["reconcile", "--dry-run"]):
        said = backhaul(*command, *wrong, config=office.config)
        assert said.code == 1
        assert f"{wrong[0]} must be one of: " in said.err
    assert not office.database.exists()


def test_an_unreachable_platform_is_reported(
    reference: ReferenceProcess, office: Office
) -> None:
    reference.kill()
    for command in (["backfill"], ["reconcile", "--dry-run"]):
        said = backhaul(*command, config=office.config)
        assert said.code in {1, 69}, said.err
        assert "Traceback" not in said.err


def test_only_the_named_store_is_queried(office: Office) -> None:
    """An outage of another store does not stop the read."""
    key = 'api_key = "svc_live_' + "0" * 40 + '"'
    away = f'[stores.away]\nbase_url = "{unused_url()}"\n{key}\n'
    away += 'webhook_secrets = ["whsec_other"]\n'
    types = ('type = "file_drop"', 'type = "scanner"')
    office.more = away
    office.write(**{type_: f'{type_}\nstore = "main"' for type_ in types})
    said = backhaul("backfill", "--store", "main", config=office.config)
    assert said.code == 0, said.err
    for command in (["backfill"], ["backfill", "--store", "away"]):
        assert backhaul(*command, config=office.config).code == 69
