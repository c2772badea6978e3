"""Commands of conformance tests: planned, claimed, and moved to a state."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from backhaul.core.clock import to_text
from backhaul.core.lifecycle import Cause
from backhaul.store.commands import Attempt, Sendable, Transition
from backhaul.store.filters import Filter
from backhaul.store.matching import NewCommand
from backhaul.store.records import Matched, NewRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.core.lifecycle import State
    from backhaul.store import Store
    from backhaul.store.command_records import CommandDetail
    from backhaul.store.commands import UncertainCommand
    from backhaul.store.matching import Command, MatchReader
    from backhaul.store.operations import AuditEntry
    from backhaul.store.read_records import Counts, ListedAuditEntry

ALWAYS = "9999"
ALL_KINDS: Mapping[str, str] = dict.fromkeys(("cancel", "fulfill", "adjust"), ALWAYS)
ADJUSTMENT = {"variant_id": "var_1", "delta": -2}
_NUMBERS = count(1)


async def plan(
    store: Store,
    kind: str = "fulfill",
    target: str = "ord_1",
    *,
    id_: str = "",
    name: str = "main",
    instance: str = "courier",
    payload: dict[str, Any] | None = None,
) -> str:
    """Plan a command whose ordering key is its target; return its id."""
    number = next(_NUMBERS)
    command = NewCommand(
        id_ or f"{number:032x}", kind, target, ordering_key(target), payload or {"n": 1}
    )
    record = NewRecord(f"key-{number}", b"null", "raw", "", f"file:{number}")
    await store.records.accept(
        instance, name, [record], None, lambda *_: Matched(command)
    )
    return command.id


def ordering_key(target: str) -> str:
    """Return the ordering key of an order or a product."""
    return f"{'order' if target.startswith('ord_') else 'product'}:{target}"


def prepare(command: Command, _: MatchReader) -> Sendable:
    """Return a request that names its command."""
    return Sendable(command.id.encode(), "fingerprint")


async def claimed(
    store: Store,
    windows: Mapping[str, str] = ALL_KINDS,
    limit: int = 99,
    *,
    name: str = "main",
    dry_run: Sequence[str] = (),
) -> list[Command]:
    """Claim commands, and check that each has its own request."""
    found = await store.commands.claim(name, windows, limit, prepare, dry_run)
    assert [step.request for _, step in found] == [c.id.encode() for c, _ in found]
    return [command for command, _ in found]


async def claimed_ids(store: Store, **how: Any) -> list[str]:
    """Claim commands; return their ids."""
    return [command.id for command in await claimed(store, **how)]


async def resolve(
    store: Store,
    command: Command,
    *causes: Cause,
    outcome: str = "uncertain",
    response: bytes = b"response",
    **change: Any,
) -> State:
    """Record an attempt that ends with these causes."""
    attempt = Attempt("2026-03-01T12:00:00.000Z", outcome, 200, "why", response)
    transition = Transition(causes, "why", **change)
    return await store.commands.record_attempt(command, attempt, transition)


async def sent(
    store: Store, *causes: Cause, change: dict[str, Any] | None = None, **planned: Any
) -> Command:
    """Plan a command, claim only it, and resolve it if there are causes."""
    id_ = await plan(store, **planned)
    found = await claimed(store, name=planned.get("name", "main"))
    (command,) = (each for each in found if each.id == id_)
    if causes:
        await resolve(store, command, *causes, **(change or {}))
    return command


async def adjusted(
    store: Store,
    effect: str,
    instance: str = "books",
    target: str = "prod_1",
    **planned: Any,
) -> Command:
    """Apply an adjustment of a connection that has this effect."""
    change = {"effect_id": effect}
    how = {"target": target, "payload": ADJUSTMENT, "instance": instance, **planned}
    return await sent(store, Cause.CONFIRMED, change=change, kind="adjust", **how)


async def uncertain(
    store: Store, due_at: str | None = None, **planned: Any
) -> UncertainCommand:
    """Return a new uncertain command whose check is due, or is due at a time."""
    command = await sent(store, Cause.UNKNOWN, **planned)
    name = planned.get("name", "main")
    due = await store.uncertain.due(name, 99)
    (found,) = (each for each in due if each.command.id == command.id)
    return found


async def detail(store: Store, command: str) -> CommandDetail:
    """Return one command as operators see it."""
    found = await store.read(lambda reader: reader.command(command))
    assert found is not None
    return found


async def state_of(store: Store, command: str) -> str:
    """Return the state of a command."""
    return (await detail(store, command)).state


async def count_commands(store: Store, **wanted: Any) -> int:
    """Count commands by state, store or kind."""
    wish = Filter(**wanted)
    return await store.read(lambda reader: reader.count_commands(wish))


async def counts(store: Store) -> Counts:
    """Return the backlog, and what needs an operator."""
    return await store.read(lambda reader: reader.counts())


async def audit_entries(store: Store) -> list[ListedAuditEntry]:
    """Return the audit log, the newest entry first."""
    return await store.read(lambda reader: reader.audit_entries(None, 99))


def in_brief(entry: ListedAuditEntry | AuditEntry) -> tuple[str, str, str]:
    """Return who did what."""
    return (entry.who, entry.action, entry.detail)


def at(clock: Clock, seconds: float = 0) -> str:
    """Return the time so many seconds from now."""
    return to_text(clock.now() + timedelta(seconds=seconds))
