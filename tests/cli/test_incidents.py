"""Incidents are listed, explained and resolved on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.daemon import in_process
from scenes.damaged_rows import insert_incident
from scenes.mirror_files import lone_office
from scenes.stored import open_incidents, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office

SAYS = (
    "order #1 was cancelled with a restock, but parcel C2 left: the stock"
    " is 2 units too high"
)


@pytest.fixture
def office() -> Iterator[Office]:
    with lone_office() as found:
        assert in_process("migrate", config=found.config).code == 0
        insert_incident(found.database, SAYS)
        yield found


def test_an_incident_is_listed_until_it_is_resolved(office: Office) -> None:
    (found,) = in_process("incidents", "list", "--json", config=office.config).json()
    assert found["says"] == SAYS
    assert SAYS in in_process("status", config=office.config).out
    words = ("incidents", "resolve", str(found["id"]), "--reason", "adjusted by -2")
    done = in_process(*words, config=office.config)
    assert done.code == 0, done.err
    assert SAYS in done.out
    listed = in_process("incidents", "list", config=office.config).out
    assert "no open incidents" in listed
    audited = [("incidents resolve", f"{found['id']}: adjusted by -2")]
    assert rows_of(office.database, "audit", "action", "detail") == audited
    again = in_process(*words, config=office.config)
    assert again.code != 0
    assert "no open incident" in again.err


@pytest.mark.parametrize("reason", ["", " ", "x" * 501])
def test_a_resolution_has_words(office: Office, reason: str) -> None:
    words = ("incidents", "resolve", "1", "--reason", reason)
    assert in_process(*words, config=office.config).code != 0
    assert [each.id for each in open_incidents(office.database)] == [1]
