"""`backhaul commands show`: one command with its evidence and next steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import typer
from msgspec.structs import asdict

from backhaul.cli import output
from backhaul.core.lifecycle import State
from backhaul.store.commands import can_restock_unshipped, possible_verbs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from backhaul.store.command_records import (
        CommandAttempt,
        CommandCheck,
        CommandDetail,
    )

Found = dict[str, Any]

LONGEST = 200
"""Characters shown of a response, request or baseline; `--json` shows all of them."""
MOST_JSON_LINES = 40
_ATTEMPT = ("number", "finished_at", "outcome", "status", "reason")
_CHECK = ("check", "at", "found", "reason", "read")
_MANUAL = ("at", "who", "action", "state_before", "state_after", "reason")
_MEANS = {
    State.PLANNED: "it will be sent",
    State.SENDING: "it is being sent now",
    State.APPLIED: "it took effect",
    State.REJECTED: "it will not be sent unless you resend it",
    State.UNCERTAIN: "it may have taken effect; Backhaul is checking the platform",
    State.PARKED: "nothing happens until an operator decides",
    State.SUPERSEDED: "a newer command replaced it",
}
_HELD = {
    "order": "its order awaits confirmation; it waits until the order changes",
    "dry_run": "it waits for the end of the dry run",
}
_COUNT_MEANS = {
    None: "it is being calculated",
    "adjustment": "an adjustment applies it",
    "restore": "a newer count replaces it, or you release it: backhaul stock release",
}
_SAYS = {
    "resolve": ("", "check the platform now, and again as push.check_after says"),
    "resolve --applied": (
        ' --reason "…"',
        "mark it as applied, because you know it took effect",
    ),
    "park": (' --reason "…"', "stop it until you decide"),
    "resend": (
        ' --reason "…"',
        "send it again, after showing the request and asking you",
    ),
    "discard": (' --reason "…"', "reject it; it will not be sent"),
}


def next_steps(found: CommandDetail) -> list[str]:
    """Return the command lines that an operator can run now."""
    return [line for line, _ in _steps(found)]


def _steps(found: CommandDetail) -> Iterator[tuple[str, str]]:
    for verb in possible_verbs(State(found.state)):
        if verb == "resolve" and found.sent_at is None:
            continue
        word, _, option = verb.partition(" ")
        more, meaning = _SAYS[verb]
        line = f"backhaul commands {word} {found.id[:8]} {option}".rstrip() + more
        yield line, meaning
    payload = found.wanted
    if can_restock_unshipped(found.kind, State(found.state), payload):
        line = f"backhaul commands resend {found.id[:8]} --restock-unshipped"
        yield (
            f'{line} --reason "…"',
            "cancel, and restock only the units that have not shipped",
        )


def show(found: CommandDetail, store: Mapping[str, Any] | None = None) -> None:
    """Print the command; `store` is the running daemon's status of its store."""
    facts = [*_facts(found), *_waits(found, store or {})]
    output.record(facts, most_json_lines=MOST_JSON_LINES)
    history(found)
    _print_steps(found)


def history(found: CommandDetail) -> None:
    """Print each attempt, each check and each manual action."""
    attempts = [_answered(row) for row in found.attempts]
    if attempts or found.kind != "target":
        output.table(attempts, _ATTEMPT, _unsent(found))
        responses = [
            (f"response {row.number}", _readable(row.response))
            for row in found.attempts
            if row.response
        ]
        output.record(responses, most_json_lines=MOST_JSON_LINES)
    if found.looks:
        output.table([_checked(row) for row in found.looks], _CHECK, "")
    if found.by_hand:
        output.table(found.by_hand, _MANUAL, "")


def _unsent(found: CommandDetail) -> str:
    """Say that no attempt is recorded; one may have been made before a restore."""
    if found.sent_at is not None or found.state == State.UNCERTAIN:
        return (
            "This database records no attempt; one may have been made before it was"
            " restored."
        )
    if found.state == State.APPLIED:
        return "This database records no attempt."
    return "It was never sent."


def _waits(
    found: CommandDetail, store: Mapping[str, Any]
) -> Iterator[tuple[str, object]]:
    """Yield what a planned or uncertain command waits for, and until when."""
    if found.state not in {State.PLANNED, State.UNCERTAIN}:
        return
    if not found.hold_reason:
        yield "due at", found.due_at
    for what, reason in store.get("stopped", {}).items():
        if what in {"everything", found.kind}:
            yield "sending stopped", reason
    if pause := store.get("paused"):
        yield "paused until", f"{pause['until']}: {pause['reason']}"


def _facts(found: CommandDetail) -> Iterator[tuple[str, object]]:
    about = f"{found.about} ({found.target})" if found.about else found.target
    state = State(found.state)
    yield "command", found.id
    yield "action", f"{found.kind} {about} of store {found.store}"
    yield "payload", _readable(found.payload)
    yield "caused by", f"{found.cause} (connector {found.instance})"
    if found.record:
        yield (
            "record",
            f"{found.record.key}, received {found.record.received_at}",
        )
    yield "planned at", found.created_at
    yield "state", str(state)
    yield "meaning", _means(found, state)
    yield "reason", found.reason or "none"
    yield from _sent(found)
    yield from _counted(found)
    if found.kind != "target":
        yield "effect", found.effect_id or "none known"
    if found.evidence and found.kind != "target":
        yield from _evidence(found.evidence)


def _evidence(evidence: str) -> Sequence[tuple[str, object]]:
    """Return the evidence of the state, and of the states before it."""
    try:
        document = msgspec.json.decode(evidence)
        before = [
            fact for each in document.pop("earlier", ()) for fact in _earlier(each)
        ]
    except (AttributeError, LookupError, TypeError, ValueError):
        return [("evidence", _readable(evidence))]
    last = [("evidence", _readable(msgspec.json.encode(document)))] if document else []
    return [*last, *before]


def _earlier(earlier: Found) -> Iterator[tuple[str, object]]:
    at = f" at {earlier['at']}" if earlier["at"] else ""  # an open state has no end
    yield "previously", f"{earlier['state']}{at}: {earlier['reason']}"
    if earlier["request"]:
        yield "previous request", _readable(earlier["request"])
    if earlier["evidence"]:
        yield "previous evidence", _readable(msgspec.json.encode(earlier["evidence"]))


def _means(found: CommandDetail, state: State) -> str:
    if state is State.PLANNED and found.kind == "target":
        return _COUNT_MEANS[found.hold_reason]
    if state is State.PLANNED and found.hold_reason:
        return _HELD.get(found.hold_reason, _MEANS[state])
    return _MEANS[state]


def _sent(found: CommandDetail) -> Iterator[tuple[str, object]]:
    if found.request is None:
        return
    yield "last sent at", found.sent_at or "unknown"
    yield "request sent", _readable(found.request)
    yield "known before it", _readable(found.baseline) or "nothing"


def _counted(found: CommandDetail) -> Iterator[tuple[str, object]]:
    """Yield how a stock count became an adjustment."""
    target = found.target_of
    if target is None:
        return
    if found.kind != "target":
        yield "applies", f"stock target {target.command_id}"
    elif target.correction:
        yield "applied by", f"adjust command {target.correction}"
    if target.round:
        yield "recalculated", f"{target.round} times"
    if target.computation:
        yield from _calculation(target.computation)


def _calculation(computation: str) -> Sequence[tuple[str, object]]:
    try:
        return [*_computed(msgspec.json.decode(computation))]
    except (LookupError, TypeError, ValueError):
        return [("calculation", "unreadable: it is damaged in the database")]


def _computed(computation: Found) -> Iterator[tuple[str, object]]:
    yield "counted", f"{computation['quantity']} as of {computation['as_of']}"
    for move in computation["movements"]:
        yield "since then", f"{move['delta']:+d} by {move['cause']} at {move['at']}"
    for order in computation["orders"]:
        yield "unshipped then", f"{-order['units']:+d} of order {order['order']}"
    if computation["buffer"]:
        yield "safety stock", f"{-computation['buffer']:+d}"
    yield "target", computation["target"]
    yield "platform shows", computation["level"]
    for move in computation["promises"]:
        yield "pending", f"{move['delta']:+d} by {move['command'][:8]}"
    yield "adjustment", f"{computation['delta']:+d}"


def _answered(row: CommandAttempt) -> Found:
    unanswered = "no response was recorded"
    return {
        **asdict(row),
        "outcome": row.outcome or "no response",
        "reason": row.reason or unanswered,
    }


def _checked(row: CommandCheck) -> Found:
    return {**asdict(row), "check": row.number, "read": _rows_read(row.read)}


def _rows_read(read: str | None) -> str:
    """Return what a check read; the rows of a history are counted first."""
    if read is None:
        return "nothing"
    document = msgspec.json.decode(read)
    if isinstance(document, list):
        count = len(document)
        return f"{count} {'row' if count == 1 else 'rows'}: {shortened(read)}"
    return shortened(read)


def _readable(value: bytes | str | None) -> str:
    """Return JSON whole, because it is printed on several lines; else `shortened`."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
    return text if text.startswith(("{", "[")) else shortened(text)


def shortened(value: bytes | str | None) -> str:
    """Return the text, or its beginning and how many characters are left out."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}… ({len(text) - LONGEST} more characters)"


def _print_steps(found: CommandDetail) -> None:
    steps: Iterable[tuple[str, str]] = list(_steps(found))
    typer.echo("What you can do:" if steps else "There is nothing for you to do.")
    for line, meaning in steps:
        typer.echo(f"  {line}\n      {meaning}")
