"""Rows of commands and stock targets that the Reader returns, and their details."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - shapes are made of them
from typing import Any

import msgspec
from msgspec import Struct

from backhaul.store.asked import Asked  # noqa: TC001 - shapes are made of it


class ListedCommand(Struct, frozen=True):
    """A command in a list; `about` is the name of its target, None if unknown.

    `asked` is what it asks for in words, and `locator` the place of its record.
    """

    id: str
    store: str
    kind: str
    target: str
    about: str | None
    state: str
    reason: str
    attempts: int
    instance: str
    cause: str
    created_at: str
    due_at: str
    settled_at: str | None
    asked: str = ""
    locator: str = ""


class CommandRecord(Struct, frozen=True):
    """The record that a command comes from."""

    instance: str
    key: str
    locator: str
    received_at: str


class CommandAttempt(Struct, frozen=True):
    """One attempt of a command; the fields of the response may be missing."""

    id: int
    command_id: str
    number: int
    started_at: str
    after_event: int | None
    finished_at: str | None
    outcome: str | None
    status: int | None
    reason: str | None
    response: bytes | None


class CommandCheck(Struct, frozen=True):
    """One check of an uncertain command, and what it read at the platform."""

    id: int
    command_id: str
    number: int
    at: str
    found: str
    reason: str
    read: str | None


class CommandDecision(Struct, frozen=True):
    """One decision of an operator about a command."""

    at: str
    who: str
    action: str
    reason: str
    state_before: str | None
    state_after: str | None


class CommandTarget(Struct, frozen=True):
    """The stock target that a command is, or that the command applies."""

    command_id: str
    variant_id: str
    quantity: int
    as_of: str
    round: int
    correction: str | None
    computation: str | None


class CommandDetail(Struct, frozen=True):
    """One command with its evidence and history; `about` names its target."""

    seq: int
    id: str
    store: str
    kind: str
    target: str
    lane: str
    state: str
    reason: str
    payload: str
    attempts: Sequence[CommandAttempt]
    failures: int
    evidence: str | None
    cause: str
    instance: str
    hold_reason: str | None
    created_at: str
    due_at: str
    settled_at: str | None
    request: bytes | None
    key_fingerprint: str | None
    baseline: str | None
    sent_at: str | None
    looks: Sequence[CommandCheck]
    effect_id: str | None
    digest: bytes | None
    request_digest: bytes | None
    caused_at: str | None
    behind: int
    accepted: str | None
    about: str | None
    target_of: CommandTarget | None
    record: CommandRecord | None
    by_hand: Sequence[CommandDecision]
    asked: Asked

    @property
    def wanted(self) -> dict[str, Any]:
        """What the command asks for, from its payload; empty if that is damaged."""
        try:
            found = msgspec.json.decode(self.payload)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


class ListedTarget(Struct, frozen=True):
    """A stock target; `stock` is what the platform shows."""

    seq: int
    id: str
    store: str
    target: str
    state: str
    reason: str
    created_at: str
    quantity: int
    as_of: str
    variant_id: str
    sku: str | None
    stock: int | None
