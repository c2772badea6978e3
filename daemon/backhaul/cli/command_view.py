"""`backhaul commands show`: one command with its evidence and next steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import typer

from backhaul.cli import output
from backhaul.core.lifecycle import State
from backhaul.store.deciding import can_restock_unshipped, possible
from backhaul.store.sqlite.members import document_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Found = dict[str, Any]

LONGEST = 200
"""Characters of an answer, a request or a baseline that are shown; `--json` has all."""
_ATTEMPT = ("number", "finished_at", "outcome", "status", "reason", "answer")
_LOOK = ("look", "at", "found", "reason", "read")
_BY_HAND = ("at", "who", "action", "state_before", "state_after", "reason")
_MEANS = {
    State.PLANNED: "it will be sent",
    State.SENDING: "it is being sent this moment",
    State.APPLIED: "it took effect",
    State.REJECTED: "it will not be sent again by itself",
    State.UNCERTAIN: "it may have taken effect; the platform is being read for it",
    State.PARKED: "nothing is done until a person decides",
    State.SUPERSEDED: "a newer one took its place",
}
_HELD = {
    1: "it waits for its order to change",
    2: "it waits for the dry run to be over",
}
_SAYS = {
    "settle": (
        "",
        "read the platform for its effect, now and as [push] check_after says",
    ),
    "settle --applied": (' --reason "…"', "you know that it took effect"),
    "park": (' --reason "…"', "stop it; nothing is done until you decide"),
    "resend": (' --reason "…"', "send it again; shows what, and asks first"),
    "drop": (' --reason "…"', "it is not to be done any more"),
}


def next_steps(found: Found) -> list[str]:
    """Return the lines that a person may say now."""
    return [line for line, _ in _steps(found)]


def _steps(found: Found) -> Iterator[tuple[str, str]]:
    for verb in possible(State(found["state"])):
        if verb == "settle" and found["sent_at"] is None:
            continue
        word, _, option = verb.partition(" ")
        more, meaning = _SAYS[verb]
        line = f"backhaul commands {word} {found['id'][:8]} {option}".rstrip() + more
        yield line, meaning
    payload = document_of(found["payload"])
    if can_restock_unshipped(found["kind"], State(found["state"]), payload):
        line = f"backhaul commands resend {found['id'][:8]} --restock-unshipped"
        yield f'{line} --reason "…"', "cancel, and put back only what has not shipped"


def show(found: Found, store: Mapping[str, Any] | None = None) -> None:
    """Print all of it; `store` is what the running daemon says of the store."""
    output.record([*_facts(found), *_waits(found, store or {})])
    history(found)
    _print_steps(found)


def history(found: Found) -> None:
    """Print each attempt, each look, and what was done by hand."""
    attempts = [_answered(row) for row in found["attempts"]]
    if attempts or found["kind"] != "target":
        output.table(attempts, _ATTEMPT, _unsent(found))
    if found["looks"]:
        output.table([_looked(row) for row in found["looks"]], _LOOK, "")
    if found["by_hand"]:
        output.table(found["by_hand"], _BY_HAND, "")


def _unsent(found: Found) -> str:
    """Say that no attempt is recorded, without denying one that may have been made."""
    if found["sent_at"] is not None or found["state"] == State.UNCERTAIN:
        return (
            "This database records no attempt; one may have been made before it was"
            " restored."
        )
    if found["state"] == State.APPLIED:
        return "This database records no attempt."
    return "It was never sent."


def _waits(found: Found, store: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Say until when, and for what, a command waits that is to be sent or checked."""
    if found["state"] not in {State.PLANNED, State.UNCERTAIN}:
        return
    if not found["held"]:
        yield "due at", found["due_at"]
    for what, reason in store.get("stopped", {}).items():
        if what in {"everything", found["kind"]}:
            yield "sending waits", reason
    if pause := store.get("paused"):
        yield "paused until", f"{pause['until']}: {pause['reason']}"


def _facts(found: Found) -> Iterator[tuple[str, object]]:
    about = (
        f"{found['about']} ({found['target']})" if found["about"] else found["target"]
    )
    state = State(found["state"])
    yield "command", found["id"]
    yield "asks to", f"{found['kind']} {about} of store {found['store']}"
    yield "payload", shortened(found["payload"])
    yield "because of", f"{found['cause']} (connector {found['instance']})"
    if found["record"]:
        yield (
            "record",
            f"{found['record']['key']}, came {found['record']['received_at']}",
        )
    yield "planned at", found["created_at"]
    yield "state", str(state)
    yield "which means", _means(found, state)
    yield "reason", found["reason"] or "none"
    yield from _sent(found)
    yield from _counted(found)
    if found["kind"] != "target":
        yield "effect", found["effect_id"] or "none is known to be its own"
    if found["evidence"] and found["kind"] != "target":
        yield from _proved(found["evidence"])


def _proved(evidence: str) -> Sequence[tuple[str, object]]:
    """Say what the state rests on, and what those before it rested on."""
    try:
        document = msgspec.json.decode(evidence)
        before = [fact for each in document.pop("earlier", ()) for fact in _was(each)]
    except (AttributeError, LookupError, TypeError, ValueError):
        return [("evidence", shortened(evidence))]
    last = [("evidence", shortened(msgspec.json.encode(document)))] if document else []
    return [*last, *before]


def _was(earlier: Found) -> Iterator[tuple[str, object]]:
    at = f" at {earlier['at']}" if earlier["at"] else ""  # what is open is at no end
    yield "was before", f"{earlier['state']}{at}: {earlier['reason']}"
    if earlier["request"]:
        yield "bytes sent then", shortened(earlier["request"])
    if earlier["evidence"]:
        yield "evidence then", shortened(msgspec.json.encode(earlier["evidence"]))


def _means(found: Found, state: State) -> str:
    if state is State.PLANNED and found["kind"] == "target":
        return "it is made true by an adjustment" if found["held"] else "it is reckoned"
    if state is State.PLANNED and found["held"]:
        return _HELD.get(found["held"], _MEANS[state])
    return _MEANS[state]


def _sent(found: Found) -> Iterator[tuple[str, object]]:
    if found["request"] is None:
        return
    yield "last sent at", found["sent_at"] or "not kept"
    yield "bytes sent", shortened(found["request"])
    yield "known before", shortened(found["baseline"]) or "nothing"


def _counted(found: Found) -> Iterator[tuple[str, object]]:
    """Say of a count, or of its adjustment, how it became a step."""
    target = found["target_of"]
    if target is None:
        return
    if found["kind"] != "target":
        yield "makes true", f"target {target['command_id']}"
    elif target["correction"]:
        yield "made true by", f"adjust command {target['correction']}"
    if target["round"]:
        yield "counted anew", f"{target['round']} times"
    if target["computation"]:
        yield from _reckoned(target["computation"])


def _reckoned(computation: str) -> Sequence[tuple[str, object]]:
    try:
        return [*_computed(msgspec.json.decode(computation))]
    except (LookupError, TypeError, ValueError):
        return [("reckoned", "cannot be read: it is damaged in the database")]


def _computed(computation: Found) -> Iterator[tuple[str, object]]:
    yield "counted", f"{computation['quantity']} as of {computation['as_of']}"
    for move in computation["movements"]:
        yield "since then", f"{move['delta']:+d} by {move['cause']} at {move['at']}"
    for order in computation["orders"]:
        yield "not shipped then", f"{-order['units']:+d} of order {order['order']}"
    if computation["buffer"]:
        yield "kept back", f"{-computation['buffer']:+d}"
    yield "wanted", computation["target"]
    yield "there", computation["level"]
    for promise in computation["promises"]:
        yield "on its way", f"{promise['delta']:+d} by {promise['command'][:8]}"
    yield "step", f"{computation['delta']:+d}"


def _answered(row: Found) -> Found:
    stopped = "no answer was written down"
    return {
        **row,
        "outcome": row["outcome"] or "no answer",
        "reason": row["reason"] or stopped,
        "answer": shortened(row["response"]),
    }


def _looked(row: Found) -> Found:
    return {**row, "look": row["number"], "read": _rows_read(row["read"])}


def _rows_read(read: str | None) -> str:
    """Say what a look has read: rows of a history are counted, the rest is shown."""
    if read is None:
        return "nothing"
    document = msgspec.json.decode(read)
    if isinstance(document, list):
        count = len(document)
        return f"{count} {'row' if count == 1 else 'rows'}: {shortened(read)}"
    return shortened(read)


def shortened(value: bytes | str | None) -> str:
    """Return a text that fits the screen; what is left out is counted."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}… ({len(text) - LONGEST} more characters)"


def _print_steps(found: Found) -> None:
    steps: Iterable[tuple[str, str]] = list(_steps(found))
    typer.echo("What you can do:" if steps else "There is nothing to be done by hand.")
    for line, meaning in steps:
        typer.echo(f"  {line}\n      {meaning}")
