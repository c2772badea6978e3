"""Every action is written to the audit log, or it is not carried out."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import pytest

from backhaul.admin import routes
from backhaul.core.lifecycle import Cause
from backhaul.store.operators import NewView
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.testing.target_scenes import hold
from dashboard.test_deliveries import deliver
from scenes import payloads
from scenes.api import issue
from scenes.damaged_rows import delete_rows, insert_incident, overwrite, refused_rows
from scenes.dashboard import PASSWORD, Subscription
from scenes.databases import append_and_fold
from scenes.stored import values_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scenes.dashboard import Office

Asked: TypeAlias = tuple[str, dict[str, str]]
"""The path of a form, and its fields."""


async def event(office: Office) -> Asked:
    await append_and_fold(
        office.store, payloads.envelope("orders/create", payloads.order())
    )
    delete_rows(office.path, "orders")
    overwrite(office.path, "event_outcomes", {"state": "quarantined"})
    return "/events/1/reprocess", {}


async def command(office: Office) -> Asked:
    id_ = await office.plan(state="parked")
    return f"/commands/{id_}/discard", {"reason": "because", "shown": "parked"}


async def row(office: Office) -> Asked:
    sent = {"kind": "fulfill", "record": {"key": "k1", "order": "#9"}}
    record = NewRecord("k1", msgspec.json.encode(sent), "raw", "no such order", "f:2")
    await office.store.records.accept(
        "courier", "main", [record], None, lambda *_: Unmatched("none", final=True)
    )
    return "/quarantine/1/discard", {"reason": "because"}


async def quarantined_event(office: Office) -> Asked:
    await event(office)
    await row(office)
    place = {"source": "event", "name": "main", "key": "1"}
    overwrite(office.path, "quarantine", place)
    return "/quarantine/1/reprocess", {}


async def mapping(office: Office) -> Asked:
    product = payloads.product(variants=[payloads.variant(sku="LAMP-02")])
    await append_and_fold(office.store, payloads.envelope("products/create", product))
    given = {"store": "main", "kind": "sku", "alias": "LAMP-2", "name": "LAMP-02"}
    return "/mappings/add", given


async def removed(office: Office) -> Asked:
    path, given = await mapping(office)
    browser = await office.browser("otto")
    assert (await browser.post(path, **given)).status == 303
    return "/mappings/1/remove", {"store": "main"}


async def rows(office: Office) -> Asked:
    await row(office)
    expected = {"where": "order=9", "expected": '{"main": 1}'}
    return "/quarantine/change", {"verb": "retry", **expected}


async def commands(office: Office) -> Asked:
    await office.plan(state="parked")
    asked = {"where": "state=parked", "expected": '{"main": 1}', "reason": "because"}
    return "/commands/change", {"verb": "discard", **asked}


async def deliveries(office: Office) -> Asked:
    await deliver(office, "o1", cause=Cause.UNDECIDABLE)
    asked = {"where": "state=parked", "expected": '{"main": 1}', "reason": "because"}
    return "/deliveries/change", {"verb": "discard", **asked}


async def view(office: Office) -> Asked:
    await office.store.users.save_view("ada", NewView("commands", "v", "", "usual"))
    return "/commands/views/1/delete", {}


async def webhook(office: Office) -> Asked:
    office.subscriptions["main"] = Subscription()
    return "/stores/main/test", {}


async def incident(office: Office) -> Asked:
    insert_incident(office.path, "put back")
    return "/incidents/1/resolve", {"reason": "because"}


async def stop(office: Office) -> Asked:
    await office.store.targets.stop("main", "a step moved another variant")
    return "/stock/resume", {"store": "main"}


async def held(office: Office) -> Asked:
    await hold(office.store, lambda seconds: office.clock.set_back(-seconds))
    return "/stock/release", {"store": "main", "reason": "no newer count"}


async def secret(office: Office) -> Asked:
    await office.webhook_secrets.load({"main": (b"an old secret", b"a new secret")})
    first, _ = office.webhook_secrets.live()["main"]
    return "/secrets/revoke", {"store": "main", "fingerprint": first}


async def dropped(office: Office) -> Asked:
    path, form = await secret(office)
    browser = await office.browser("otto")
    assert (await browser.post(path, **form)).status == 303
    return "/secrets/accept", form


async def token(office: Office) -> Asked:
    await issue(office.store, name="app")
    return "/tokens/revoke", {"name": "app"}


def form(path: str, **fields: str) -> Callable[[Office], Awaitable[Asked]]:
    """Return what needs nothing to be prepared."""

    async def prepare(_: Office) -> Asked:
        return path, fields

    return prepare


OWN = {"old": PASSWORD, "new": PASSWORD * 2, "again": PASSWORD * 2}
DEEDS: dict[str, Callable[[Office], Awaitable[Asked]]] = {
    "/account/password": form("/account/password", **OWN),
    "/commands/{}/{}": command,
    "/connectors/check": form("/connectors/check", name="courier"),
    "/connectors/run": form("/connectors/run", name="courier"),
    "/events/{}/reprocess": event,
    "/commands/change": commands,
    "/deliveries/change": deliveries,
    "/incidents/{}/resolve": incident,
    "/jobs/{}": form("/jobs/pause", job="prune", store=""),
    "/mappings/add": mapping,
    "/mappings/{}/remove": removed,
    "/quarantine/{}/{}": row,
    "/quarantine/{}/reprocess": quarantined_event,
    "/quarantine/change": rows,
    "/secrets/accept": dropped,
    "/secrets/revoke": secret,
    "/stores/{}/backfill": form("/stores/main/backfill", since="2026-02-01"),
    "/stores/{}/{}": webhook,
    "/stock/release": held,
    "/stock/resume": stop,
    "/tokens/create": form("/tokens/create", name="app", scope="read"),
    "/tokens/revoke": token,
    "/{}/views": form("/commands/views", name="v", where="state=parked"),
    "/{}/views/{}/delete": view,
    "/users/add": form("/users/add", name="eve", role="viewer", password=PASSWORD),
    "/users/remove": form("/users/remove", name="vera"),
    "/users/{}": form("/users/disable", name="vera"),
    "/users/role": form("/users/role", name="vera", role="operator"),
}
"""Each form of the dashboard that changes something."""
READING = {"/quarantine/{}/alike", "/quarantine/{}/remember"}
"""Forms that only lead to a preview."""
SHOWS_ITS_RESULT = "/tokens/create"
"""Its answer is a page, because a new token is shown once."""
ELSEWHERE = {
    "/logout",
    *(f"/account/totp/{verb}" for verb in ("begin", "codes", "confirm", "off")),
}
"""Forms that have an audit entry of another kind: see test_second_factor."""


@dataclass(frozen=True, slots=True)
class Kept:
    """All that a deed may change: the database, and what is held in memory."""

    rows: tuple[str, ...]
    asked: tuple[str, ...]
    accepted: tuple[tuple[str, ...], ...]


def kept(office: Office) -> Kept:
    with closing(sqlite3.connect(office.path)) as connection:
        rows = tuple(connection.iterdump())
    accepted = tuple(office.webhook_secrets.live().values())
    return Kept(rows, tuple(office.requests), accepted)


def test_every_form_that_changes_something_is_here() -> None:
    forms = {_shape(one.path) for one in routes.ROUTES if one.method == "POST"}
    assert forms - {"/theme", *ELSEWHERE, *READING} == set(DEEDS)


def _shape(path: str) -> str:
    parts = ["{}" if part.startswith("{") else part for part in path.split("/")]
    return "/".join(parts)


@pytest.mark.parametrize("deed", DEEDS)
async def test_an_action_without_its_audit_entry_is_not_done(
    office: Office, deed: str
) -> None:
    path, fields = await DEEDS[deed](office)
    browser = await office.browser("ada")
    with refused_rows(office.path, "audit", "no room for the audit"):
        before = kept(office)
        answer = await browser.post(path, **fields)
        assert (answer.status >= 500, kept(office) == before) == (True, True)
    done = 200 if deed == SHOWS_ITS_RESULT else 303
    assert (await browser.post(path, **fields)).status == done
    assert kept(office) != before
    assert values_of(office.path, "audit", "who")[-1] == "ada"
