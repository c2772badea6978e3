"""Which decision about a command is recommended, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.core.effect_proof import ALL_SHIPPED, NOT_RESTOCKED, RESTOCKED
from backhaul.core.lifecycle import State

if TYPE_CHECKING:
    from collections.abc import Container

    from backhaul.store.command_records import CommandDetail

CHECK, RESEND, APPLIED, DISCARD = "resolve", "resend", "resolve --applied", "discard"
"""The decisions that can be recommended, by their name in the audit log."""


class CommandFacts(Struct, frozen=True):
    """What is known of a command when an operator decides.

    `refused_with` is the status with which the platform refused the last attempt, and
    `may_have_effect` whether any attempt may have taken effect. `last_check` is what
    the last check found (`absent`, `applied`, `undecidable`, `unreadable`), and
    `was_rechecked` whether an operator asked for it. `nothing_open` means that its
    order has no units left to ship, and `mismatch` that the order was cancelled with
    another restock option.
    """

    kind: str
    state: State
    was_sent: bool
    refused_with: int | None = None
    may_have_effect: bool = False
    last_check: str | None = None
    was_rechecked: bool = False
    nothing_open: bool = False
    mismatch: bool = False


class Advice(Struct, frozen=True):
    """A decision, empty if none is recommended, and the reason in a sentence."""

    verb: str
    why: str


_REFUSED_ATTEMPT = frozenset({"rejected", "parked"})
_UNKNOWN = frozenset({None, "uncertain", "confirmed"})
"""Outcomes of an attempt that may have taken effect."""


def facts_of(command: CommandDetail) -> CommandFacts:
    """Return the facts that the advice about a command depends on."""
    last = command.attempts[-1] if command.attempts else None
    refused = last is not None and last.outcome in _REFUSED_ATTEMPT
    return CommandFacts(
        kind=command.kind,
        state=State(command.state),
        was_sent=_may_have_been_sent(command),
        refused_with=last.status if last and refused else None,
        may_have_effect=any(each.outcome in _UNKNOWN for each in command.attempts),
        last_check=command.looks[-1].found if command.looks else None,
        was_rechecked=any(each.action == _RECHECKED for each in command.by_hand),
        nothing_open=ALL_SHIPPED in command.reason,
        mismatch=any(text in command.reason for text in (NOT_RESTOCKED, RESTOCKED)),
    )


_RECHECKED = f"commands {CHECK}"


def _may_have_been_sent(command: CommandDetail) -> bool:
    """Return True also for a command that was sent before a restore of the database."""
    was_uncertain = any(each.state_before == "uncertain" for each in command.by_hand)
    return command.sent_at is not None or bool(command.looks) or was_uncertain


_WAIT = {
    State.PLANNED: "Backhaul sends it automatically. There is nothing to do.",
    State.SENDING: "Backhaul is sending it. There is nothing to do.",
    State.APPLIED: "It took effect. There is nothing to do.",
    State.SUPERSEDED: "A newer command replaced it. There is nothing to do.",
    State.UNCERTAIN: "Backhaul checks automatically whether it took effect. Wait for"
    " the last check.",
}
_COUNT = (
    "A stock count is calculated again from the present stock, so it cannot be applied"
    " twice."
)
_NOTHING_OPEN = (
    "The order has no units left to ship, so the command cannot take effect any more."
)
_MISMATCH = (
    "The order is cancelled already, and a second cancellation changes nothing. Correct"
    " the stock first."
)
_NEVER_SENT = (
    "It was never sent, so it cannot be applied twice. Correct the cause, then send it."
)
_REFUSED = (
    "The platform refused the last attempt with {}, so that attempt had no effect."
    " Correct the cause, then send it again."
)
_STILL_ABSENT = (
    "You checked again, and the platform still does not show its effect. If you want"
    " the change, send it again."
)
_CHECK = (
    "Backhaul does not know whether it took effect. A check only reads at the platform"
    " and changes nothing."
)
_REJECTED = "Backhaul does not send it again. There is nothing to do."


def advise(facts: CommandFacts, possible: Container[str]) -> Advice:
    """Return the recommended decision; it is one of the possible ones, or none."""
    if facts.state in _WAIT:
        return Advice("", _WAIT[facts.state])
    advice = _decide(facts)
    return advice if advice.verb in possible else Advice("", advice.why)


def _decide(facts: CommandFacts) -> Advice:
    """Return the advice for a command that is parked or rejected."""
    if facts.kind == "target":
        return Advice(RESEND, _COUNT)
    if facts.nothing_open:
        verb = DISCARD if facts.state is State.PARKED else ""
        return Advice(verb, _NOTHING_OPEN)
    if facts.mismatch:
        return Advice(APPLIED, _MISMATCH)
    if not facts.was_sent:
        return Advice(RESEND, _NEVER_SENT)
    if facts.refused_with and not facts.may_have_effect:
        return Advice(RESEND, _REFUSED.format(facts.refused_with))
    if facts.state is State.REJECTED:
        return Advice("", _REJECTED)
    if facts.was_rechecked and facts.last_check == "absent":
        return Advice(RESEND, _STILL_ABSENT)
    return Advice(CHECK, _CHECK)
