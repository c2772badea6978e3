"""API tokens are created, shown once, used, expired and revoked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from backhaul.admin.tokens import digest_of
from backhaul.store.tokens import Scope
from scenes.api import API, Program, issue
from scenes.dashboard import open_office
from scenes.stored import rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from scenes.dashboard import Browser, Office

WRONG_TOKENS = 20
"""How many wrong tokens an address may send before it must wait."""


def tokens_of(office: Office) -> list[tuple[object, ...]]:
    return rows_of(office.path, "api_tokens")


def entries(office: Office) -> list[tuple[str, str, str]]:
    return [entry for entry in office.audit() if entry[1].startswith("tokens ")]


async def created(admin: Browser, **form: str) -> str:
    """Create a token on the page; return what the page shows."""
    answer = await admin.post("/tokens/create", **form)
    assert answer.status == 200
    found = re.search(r">(bh_[\w-]{43})<", await answer.text())
    assert found is not None
    return found[1]


async def test_the_page_shows_a_token_once(office: Office) -> None:
    admin = await office.browser("ada")
    token = await created(admin, name="App-1", scope="read", expires="90d")
    assert "bh_" not in await admin.read("/tokens")
    assert token not in office.path.read_bytes().decode(errors="replace")
    found = await office.store.tokens.find(digest_of(token))
    assert found is not None
    assert (found.name, found.scope, found.created_by) == ("app-1", "read", "ada")
    said = f"app-1 with the scope read until {found.expires_at}"
    assert entries(office) == [("ada", "tokens create", said)]
    assert await Program(office, token).get("/status")


async def test_the_page_revokes_a_token(office: Office) -> None:
    admin = await office.browser("ada")
    token = await created(admin, name="app", scope="operate")
    program = Program(office, token)
    await program.get("/jobs")
    answer = await admin.post("/tokens/revoke", name="app")
    assert answer.status == 303
    refused = await program.get("/jobs", 401)
    assert "the token app was revoked at" in refused["detail"]
    assert entries(office)[-1] == ("ada", "tokens revoke", "app")


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"name": "", "scope": "read"}, "1 to 64 of the characters"),
        ({"name": "app", "scope": "all"}, "the scopes are read, operate"),
        ({"name": "app", "scope": "read", "expires": "soon"}, "must be a duration"),
    ],
)
async def test_a_wrong_form_makes_no_token(
    office: Office, form: dict[str, str], reason: str
) -> None:
    admin = await office.browser("ada")
    answer = await admin.post("/tokens/create", **form)
    assert answer.status == 422
    assert reason in await answer.text()
    assert await office.store.read(lambda reader: reader.tokens()) == []


async def test_a_token_expires(office: Office) -> None:
    program = Program(office, await issue(office.store, seconds=60.0))
    await program.get("/jobs")
    await office.clock.advance(61)
    refused = await program.ask("GET", "/jobs")
    assert refused.status == 401
    assert refused.headers["WWW-Authenticate"].startswith("Bearer ")
    assert "expired at" in (await refused.json(content_type=None))["detail"]


async def test_the_last_use_is_written_once_a_minute(office: Office) -> None:
    program = Program(office, await issue(office.store))

    async def used() -> str | None:
        (found,) = await office.store.read(lambda reader: reader.tokens())
        return found.last_used_at

    await program.get("/jobs")
    first = await used()
    await office.clock.advance(30)
    await program.get("/jobs")
    assert await used() == first is not None
    await office.clock.advance(31)
    await program.get("/jobs")
    assert await used() != first


async def test_a_change_by_a_program_has_its_name(office: Office) -> None:
    token = await issue(office.store, Scope.OPERATE, "planner")
    command = await office.plan()
    body = {"verb": "park", "reason": "the address is checked"}
    await Program(office, token).post(f"/commands/{command}/decision", body)
    ((who, action, _),) = [e for e in office.audit() if e[1].startswith("commands ")]
    assert (who, action) == ("token planner", "commands park")


async def test_an_address_with_wrong_tokens_must_wait(office: Office) -> None:
    wrong = Program(office, "bh_wrong")
    for _ in range(WRONG_TOKENS):
        assert (await wrong.ask("GET", "/jobs")).status == 401
    answer = await wrong.ask("GET", "/jobs")
    assert answer.status == 429
    assert int(answer.headers["Retry-After"]) >= 1
    right = Program(office, await issue(office.store))
    await right.get("/jobs")
    assert (await (await office.browser()).log_in("ada")).status == 303


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer  ", "Basic YWRhOnB3", "bh_x", "Bearer \u00e9"]
)
async def test_a_request_without_a_usable_token_is_refused(
    office: Office, header: str
) -> None:
    client = (await office.browser()).client
    answer = await client.get(f"{API}/jobs", headers={"Authorization": header})
    assert answer.status == 401
    assert answer.content_type == "application/problem+json"


async def test_a_token_in_the_clear_is_refused(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        token = await issue(office.store)
        refused = await Program(office, token).get(
            "/jobs", 403, headers={"Host": "backhaul.example"}
        )
        assert "over plain http is disabled" in refused["detail"]
