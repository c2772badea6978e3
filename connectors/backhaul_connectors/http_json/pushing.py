"""Sends a change to the system, and asks whether it arrived."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from backhaul_connectors.http_json.parsing import find
from backhaul_sdk import (
    Absent,
    Applied,
    Found,
    NotSent,
    Rejected,
    Uncertain,
    Unknown,
)
from backhaul_sdk.calls import NeverSent, NoAnswer, NotJson, outcome_of
from backhaul_sdk.reading import Unusable

if TYPE_CHECKING:
    from backhaul_connectors.http_json.calling import System
    from backhaul_connectors.http_json.settings import Push
    from backhaul_sdk import Change, LookedUp, Pushed
    from backhaul_sdk.calls import Answer


async def push(system: System, base: str, settings: Push, change: Change) -> Pushed:
    """Send a change once; its id is the Idempotency-Key."""
    try:
        body = json.dumps(find(settings.body, _envelope(change))).encode()
    except Unusable as error:
        return Rejected(f"body: {error}")
    try:
        answer = await system.write(
            settings.method,
            _url(base, settings.path, change),
            body,
            {"Idempotency-Key": change.id},
        )
    except NeverSent as error:
        return NotSent(str(error))
    except NoAnswer as error:
        return Uncertain(str(error))
    said = outcome_of(answer)
    return _applied(settings, answer) if isinstance(said, Applied) else said


def _applied(settings: Push, answer: Answer) -> Pushed:
    if settings.reference is None:
        return Applied()
    try:
        reference = _reference(find(settings.reference, answer.json()))
    except (NotJson, Unusable) as error:
        return Uncertain(f"it answered {answer.status}, but {error}")
    if reference is None:
        return Uncertain(f"it answered {answer.status} without a number of its own")
    return Applied(reference)


async def lookup(system: System, base: str, settings: Push, change: Change) -> LookedUp:
    """Ask the system whether it has a change. Raises CheckFailed while it is away."""
    if settings.lookup_path is None:
        return Unknown("no lookup_path is set")
    try:
        answer = await system.read(_url(base, settings.lookup_path, change))
        if answer.status == 404:
            return _absent(answer)
        found = find(settings.lookup_reference, answer.json())
    except (NotJson, Unusable) as error:
        return Unknown(str(error))
    if found is None or found in ([], {}, ""):
        return Absent()
    return Found(_reference(found))


def _absent(answer: Answer) -> LookedUp:
    """A proxy says 404 as well, but not in JSON."""
    try:
        answer.json()
    except NotJson:
        return Unknown("it answered 404, but not in JSON: is lookup_path right?")
    return Absent()


def _envelope(change: Change) -> dict[str, Any]:
    return {
        "id": change.id,
        "store": change.store,
        "topic": change.topic,
        "object_id": change.object_id,
        "occurred_at": change.occurred_at,
        "document": dict(change.document),
    }


def _url(base: str, path: str, change: Change) -> str:
    filled = path.replace("{id}", quote(change.id, safe=""))
    return base.rstrip("/") + filled.replace(
        "{object_id}", quote(change.object_id, safe="")
    )


def _reference(value: Any) -> str | None:
    single = value[0] if isinstance(value, list) and value else value
    if isinstance(single, bool) or not isinstance(single, str | int):
        return None
    return str(single) or None
