"""Actions on many rows of the quarantine at once, on the command line."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store.records import NewRecord, ReasonClass, Unmatched
from scenes.daemon import in_process, office_of
from scenes.databases import started_store
from scenes.stored import rows_of, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess


def rows(number: int) -> list[NewRecord]:
    members = [{"key": f"{n}", "sku": "LAMP-2", "delta": 1} for n in range(number)]
    return [
        NewRecord(
            each["key"],  # type: ignore[arg-type]
            json.dumps({"kind": "adjust", "record": each}).encode(),
            f"LAMP-2;{each['key']}",
            "",
            f"stock.csv:{each['key']}",
        )
        for each in members
    ]


@pytest.fixture
def office(platform: ReferenceProcess) -> Iterator[Office]:
    """Return an office without a daemon: five quarantined rows, four of one SKU."""
    with office_of(platform) as started:

        async def fill() -> None:
            async with started_store(started.database) as store:
                why = ReasonClass.UNKNOWN_SKU
                found = Unmatched("no", final=True, reason_class=why, subject="LAMP-2")
                bad = NewRecord("bad", None, "a;b", "no number", "stock.csv:9")
                new = [*rows(4), bad]
                await store.records.accept("erp", "main", new, None, lambda *_: found)

        asyncio.run(fill())
        yield started


def run(office: Office, *arguments: object) -> Any:
    return in_process("quarantine", *arguments, "--json", config=office.config).json()


def states(office: Office) -> list[str]:
    return values_of(office.database, "quarantine", "state")


UNKNOWN = "reason=unknown_sku since=1h"


def test_all_that_match_are_retried(office: Office) -> None:
    done = run(office, "retry", "--where", UNKNOWN, "--yes")
    assert (done["waiting"], done["unchanged"]) == (4, 0)
    assert states(office) == [*["retried"] * 4, "open"]
    assert values_of(office.database, "audit", "action") == ["quarantine retry"] * 4


def test_a_dry_run_shows_what_will_happen_and_changes_nothing(office: Office) -> None:
    shown = run(office, "retry", "--where", "connector=erp", "--dry-run")
    assert (shown["rows"], shown["changed"]) == (5, 4)
    assert shown["stores"] == {"main": 5}
    said = in_process(
        "quarantine", "retry", "1", "2", "5", "--dry-run", config=office.config
    )
    assert said.out.splitlines() == [
        "2 rows: matched again; rows that match now become commands",
        "1 row: unchanged: Backhaul could not read them as records; edit each one",
    ]
    assert states(office) == ["open"] * 5


def test_nothing_is_changed_without_confirmation_or_terminal(office: Office) -> None:
    said = in_process("quarantine", "retry", "--where", "", config=office.config)
    assert said.code == 2
    assert "add --yes" in " ".join(said.err.replace("│", " ").split())
    assert states(office) == ["open"] * 5


def test_several_rows_are_discarded_for_a_reason(office: Office) -> None:
    given = ["1", "5", "--yes"]
    said = in_process("quarantine", "discard", *given, config=office.config)
    assert said.code == 2
    assert "give a reason" in said.err
    done = run(office, "discard", *given, "--reason", "a test file")
    assert done["dropped"] == 2
    assert states(office) == ["dropped", "open", "open", "open", "dropped"]


def test_a_single_field_is_edited_in_all_rows(office: Office) -> None:
    given = ["--where", "sku=LAMP-2", "--set", "sku=LAMP-20", "--yes"]
    assert run(office, "edit", *given)["waiting"] == 4
    found = rows_of(office.database, "records", "payload", state="waiting")
    skus = [json.loads(payload)["record"]["sku"] for (payload,) in found]
    assert skus == ["LAMP-20"] * 4


def test_rows_that_cannot_be_changed_are_named(office: Office) -> None:
    given = ["1", "2", "--set", "colour=red", "--yes"]
    said = in_process("quarantine", "edit", *given, config=office.config)
    assert "2 could not be changed:" in said.out
    assert "row 1: a record of the kind adjust has no field colour" in said.out
    assert states(office) == ["open"] * 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["retry"], "choose rows by number, or by --where"),
        (["retry", "1", "--where", "sku=A"], "choose rows by number, or by --where"),
        (["retry", "--where", "skuu=A"], "did you mean sku?"),
        (["edit", "1", "2", "--kind", "adjust", "--set", "a=b"], "only for one row"),
    ],
)
def test_a_wrong_selection_is_refused(
    arguments: list[str], message: str, office: Office
) -> None:
    said = in_process("quarantine", *arguments, config=office.config)
    assert said.code == 2
    assert message in " ".join(said.err.replace("│", " ").split())
