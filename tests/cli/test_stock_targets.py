"""Stock targets are shown, explained and resumed on the command line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul.connect.record_matching import Matcher, encode
from backhaul.core.clock import from_text
from backhaul.core.stock import Policy, ProductStock
from backhaul.core.stock_decision import StockReading
from backhaul.store.commands import Decision
from backhaul.store.records import NewRecord
from backhaul.store.testing.scenes import TestClock
from backhaul.store.testing.target_scenes import hold
from backhaul_sdk import StockLevel
from scenes import payloads
from scenes.clock import VirtualClock
from scenes.daemon import in_process
from scenes.databases import append_and_fold, started_store
from scenes.mirror_files import lone_office
from scenes.stored import rows_of, stock_targets, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office

NOTE = "9 + -2 of lines 2 and 3 added up"
COUNT = StockLevel(
    key="c", sku="LS-S", quantity=7, as_of=payloads.instant(2), note=NOTE
)
STOPPED = "the step of target abcdef01 for variant var_1 moved var_2"


@pytest.fixture(scope="module")
def office() -> Iterator[Office]:
    """Return an office with an applied count of 7, and one unit sold since."""
    with lone_office() as found:
        asyncio.run(_count(found))
        yield found


async def _count(office: Office) -> None:
    clock = VirtualClock(from_text(payloads.instant(5)))
    path = office.database
    sold = payloads.stock_change(at=3, stock=9, adjustment=-1, orderId="ord_1")
    async with started_store(path, clock) as store:
        bodies = [
            payloads.envelope("products/create", payloads.product()),
            payloads.envelope("orders/create", payloads.order()),
            payloads.envelope("inventory/level_update", sold),
        ]
        assert await append_and_fold(store, *bodies) == []
        new = NewRecord(COUNT.key, encode(COUNT), "", "counts.csv:2", "c")
        matcher = Matcher(clock, 600.0)
        await store.records.accept("erp", "main", [new], None, matcher)
        (target,) = await store.targets.due("main", 1)
        stock = ProductStock({target.variant_id: 9}, is_proved=True, is_studied=True)
        policy = Policy(buffer=1)
        reading = StockReading(stock, policy, COUNT.as_of, COUNT.as_of, False)
        await store.targets.decide(target, reading)
        step = value_of(path, "stock_targets", "correction")
        for verb in ("park", "resolve --applied"):
            await store.decisions.decide(Decision(step, verb, "kim", "by hand"))


def said(office: Office, *arguments: str) -> str:
    """Return the output of a command, with wrapped lines joined."""
    done = in_process(*arguments, config=office.config)
    assert done.code == 0, done.err
    return " ".join(done.out.split())


def test_a_target_shows_how_it_was_computed(office: Office) -> None:
    ((target, step),) = rows_of(office.database, "stock_targets", "id", "correction")
    shown = said(office, "commands", "show", target[:8])
    assert f"applied by adjust command {step}" in shown
    assert f"counted 7 as of {COUNT.as_of}" in shown
    assert "since then -1 by order #1001" in shown
    assert "safety stock -1 target 5 platform shows 9 adjustment -4" in shown
    assert "It was never sent" not in shown
    behind = said(office, "commands", "show", step[:8])
    assert f"applies stock target {target}" in behind
    assert "target 5 platform shows 9 adjustment -4" in behind


def test_why_shows_the_sale_and_the_count(office: Office) -> None:
    printed = said(office, "why", "sku", "LS-S")
    assert "record erp c" in printed
    assert "5 wanted; 9 there: -4" in printed


def test_a_stop_is_shown_and_an_operator_ends_it(office: Office) -> None:
    resume = ("stock", "resume", "main")
    assert "counts of main" not in said(office, "status")
    assert said(office, *resume) == "stock counts of main: they were not stopped"
    asyncio.run(_stop(office))
    assert f"counts of main stopped: {STOPPED}" in said(office, "status")
    found = in_process("status", "--json", config=office.config).json()
    assert found["targets_stopped"] == {"main": STOPPED}
    assert (
        said(office, *resume)
        == f"stock counts of main: resumed; they had been stopped: {STOPPED}"
    )
    assert "counts of main" not in said(office, "status")


async def _stop(office: Office) -> None:
    async with started_store(office.database) as store:
        await store.targets.stop("main", STOPPED)


def test_an_unknown_store_is_named(office: Office) -> None:
    done = in_process("stock", "resume", "mian", config=office.config)
    assert done.code != 0
    assert "no store is called 'mian'; the stores are: main" in done.err


def test_why_shows_changes_during_the_read_of_a_level(office: Office) -> None:
    printed = in_process("why", "sku", "LS-S", config=office.config)
    assert NOTE in " ".join(printed.out.split())


@pytest.fixture
def held() -> Iterator[Office]:
    """Insert a count that is held since a restore."""
    with lone_office() as found:
        asyncio.run(_hold(found))
        yield found


async def _hold(office: Office) -> None:
    clock = TestClock()
    path = office.database
    async with started_store(path, clock) as store:
        await hold(store, clock.advance)


RELEASE = ("stock", "release", "--store", "main", "--reason", "no newer count")


def test_a_count_on_hold_is_shown_listed_and_released(held: Office) -> None:
    shown = said(held, "status")
    assert "1 stock count on hold since the database was restored" in shown
    assert "backhaul stock release --store main --dry-run" in shown
    assert "1 planned, 1 of these counts on hold" in shown
    found = in_process("status", "--json", config=held.config).json()
    assert found["counts_held"] == 1
    assert [each["key"] for each in found["problems"]] == ["held main"]

    listed = said(held, "stock", "release", "--all", "--dry-run")
    assert "SKU-1" in listed
    assert "may be the adjustment of a newer count" in listed
    as_json = ("stock", "release", "--all", "--dry-run", "--json")
    (row,) = in_process(*as_json, config=held.config).json()
    assert (row["sku"], row["quantity"], row["state"]) == ("SKU-1", 7, "held")
    assert "on hold" in said(held, "status")

    shown = said(held, "commands", "show", row["id"][:8])
    assert "a newer count replaces it, or you release it" in shown

    assert said(held, *RELEASE, "--yes") == "released 1 stock count"
    assert "counts of main" not in said(held, "status")
    assert said(held, *RELEASE, "--yes") == "no stock count is on hold"
    audit = rows_of(held.database, "audit", "action", "detail")
    assert audit == [("stock release", "no newer count")]


def test_a_release_needs_a_choice_a_reason_and_a_confirmation(held: Office) -> None:
    wrong = {
        (
            "--all",
            "--store",
            "main",
            "--reason",
            "why",
        ): "use --all without these options",
        ("--reason", "why"): "choose stock counts with",
        ("--all",): "a release needs a reason",
        ("--all", "--reason", "why"): "to release 1 stock count, add --yes",
    }
    for options, words in wrong.items():
        done = in_process("stock", "release", *options, config=held.config)
        assert done.code == 2
        assert words in " ".join(done.err.replace("│", " ").split())
    assert [each.state for each in stock_targets(held.database)] == ["held"]


def test_a_filter_that_matches_no_count_releases_none(held: Office) -> None:
    for option in (("--sku", "SKU-2"), ("--connection", "courier")):
        more = (*option, "--reason", "why", "--yes")
        assert said(held, "stock", "release", *more) == "no stock count is on hold"
    assert [each.state for each in stock_targets(held.database)] == ["held"]
