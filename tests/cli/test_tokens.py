"""API tokens are managed on the command line, without a running daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.admin.tokens import digest_of
from backhaul.core.clock import SystemClock
from backhaul.store.sqlite.opening import open_store
from scenes import leftovers
from scenes.daemon import Office, in_process
from scenes.stored import lists, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import CommandResult


@pytest.fixture
def office() -> Iterator[Office]:
    """Return an office whose platform is not used."""
    made = Office("http://127.0.0.1:9", "svc_live_of_nobody")
    made.database.parent.mkdir()
    open_store(made.database, SystemClock())
    yield made
    made.remove()


def say(office: Office, *words: str) -> CommandResult:
    return in_process("tokens", *words, config=office.config)


def test_a_token_is_printed_alone_and_once(office: Office) -> None:
    assert "there is no token yet" in say(office, "list").out
    said = say(office, "create", "wms", "--scope", "operate", "--expires", "90d")
    token = said.out.strip()
    leftovers.issued(token)
    assert token.startswith("bh_")
    assert "cannot show it again; it expires at" in said.err
    (row,) = say(office, "list", "--json").json()
    assert (row["name"], row["scope"], row["state"]) == ("wms", "operate", "valid")
    assert token not in say(office, "list").out
    stored = office.database.read_bytes()
    assert (token.encode() in stored, digest_of(token).encode() in stored) == (
        False,
        True,
    )


def test_a_revoked_token_is_listed_as_one(office: Office) -> None:
    leftovers.issued(say(office, "create", "wms").out.strip())
    assert say(office, "revoke", "wms").code == 0
    (row,) = say(office, "list", "--json").json()
    assert (row["scope"], row["state"]) == ("read", "revoked")
    refused = say(office, "revoke", "wms")
    assert (refused.code, "already revoked" in refused.err) == (1, True)
    audited = rows_of(office.database, "audit", "action", "detail")
    assert audited == [
        ("tokens create", "wms with the scope read"),
        ("tokens revoke", "wms"),
    ]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("WMS",), "the characters a-z"),
        (("wms", "--expires", "soon"), "must be a duration"),
        (("wms", "--scope", "admin"), "'admin' is not one of"),
    ],
)
def test_a_wrong_wish_makes_no_token(
    office: Office, words: tuple[str, ...], reason: str
) -> None:
    said = say(office, "create", *words)
    assert said.code != 0
    assert reason in said.err
    with lists(office.database) as reader:
        assert reader.tokens() == []


def test_a_query_shows_no_digest(office: Office) -> None:
    leftovers.issued(say(office, "create", "wms").out.strip())
    sql = "SELECT name, digest FROM api_tokens"
    said = in_process("query", sql, "--json", config=office.config)
    assert said.json() == [{"name": "wms", "digest": None}]
