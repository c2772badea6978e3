"""`backhaul search`, with a daemon and without one, and how the index is rebuilt."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul.store.database import sole_writer
from scenes import payloads
from scenes.daemon import connected_process, in_process
from scenes.mirror_files import fill, lone_office
from scenes.shopper import buy
from scenes.stored import lists
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess


@pytest.fixture
def office() -> Iterator[Office]:
    with lone_office() as found:
        body = payloads.envelope("orders/create", payloads.order())
        asyncio.run(fill(found, body))
        yield found


def test_without_a_daemon_the_index_is_made_at_once(office: Office) -> None:
    said = in_process("search", "asha", config=office.config)
    assert said.out == "nothing contains 'asha'\n"
    assert "1 changes are not indexed yet" in said.err
    assert in_process("search", "--rebuild", config=office.config).code == 0
    made = in_process("search", "--rebuild", "--json", config=office.config)
    assert made.json() == {}
    (found,) = in_process("search", "asha", "--json", config=office.config).json()
    assert (found["kind"], found["id"], found["title"]) == ("order", "ord_1", "#1001")
    printed = in_process("search", "asha", config=office.config)
    assert ["#1001" in printed.out, printed.err] == [True, ""]


def test_a_daemon_that_cannot_be_reached_keeps_its_database(office: Office) -> None:
    with sole_writer(office.folder / "state"):
        said = in_process("search", "--rebuild", config=office.config)
    assert said.code == 75
    assert "uses this folder; stop that process" in said.err


def test_without_words_the_last_changes_are_listed(office: Office) -> None:
    product = payloads.envelope("products/create", payloads.product())
    moved = payloads.envelope("inventory/level_update", payloads.stock_change())
    asyncio.run(fill(office, product, moved))

    def titles(*arguments: str) -> list[tuple[str, str]]:
        found = in_process("search", *arguments, "--json", config=office.config).json()
        return [(each["kind"], each["title"]) for each in found]

    order, shirt = ("order", "#1001"), ("product", payloads.product()["title"])
    assert titles(" ") == [shirt, order]
    assert titles("--kind", "order") == [order]
    assert titles("--limit", "1") == [shirt]
    none = in_process("search", "--kind", "customer", config=office.config)
    assert none.out == "the mirror has no customer\n"


def unindexed(office: Office) -> int:
    with lists(office.database) as reader:
        return reader.unindexed()


@pytest.mark.programs
def test_a_running_daemon_indexes_new_events_and_rebuilds_the_index(
    platform: ReferenceProcess,
) -> None:
    with connected_process(platform) as started:
        office = started.office
        order = buy(platform)

        def found() -> bool:
            said = in_process("search", order["name"], "--json", config=office.config)
            return order["id"] in [row["id"] for row in said.json()]

        await_true(found, "the order in the index")
        await_true(lambda: unindexed(office) == 0, "each change in the index")
        assert in_process("search", "--rebuild", config=office.config).code == 0
        await_true(found, "the order in the index again")
