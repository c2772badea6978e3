"""The spans of a command: what began its trace, and each attempt and check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.lifecycle import State
from backhaul.runtime.tracing import COMMAND, CONNECTION, ORDER, PRODUCT, STORE

if TYPE_CHECKING:
    from backhaul.runtime.tracing import Attributes, Span, Tracer
    from backhaul.store.matching import Command

ATTEMPT = "backhaul.attempt"
OUTCOME = "backhaul.outcome"
COMMAND_STATE = "backhaul.command.state"
FAILED = frozenset({State.UNCERTAIN, State.REJECTED, State.PARKED})
"""States in which an attempt or a check counts as failed."""


def begin_trace(tracer: Tracer, command: Command) -> str:
    """Return the `traceparent` of a new trace, for a command that no record caused.

    Its first attempt stores it with the command.
    """
    span = tracer.begin(f"plan {command.kind}", "internal", _attributes(command))
    span.end()
    return span.traceparent


def begin_attempt(tracer: Tracer, verb: str, command: Command) -> Span:
    """Begin the span of an attempt (`send`) or a check (`check`) of a command."""
    attributes = {**_attributes(command), ATTEMPT: command.attempts + (verb == "send")}
    name = f"{verb} {command.kind}"
    return tracer.begin(name, "internal", attributes, command.traceparent)


def end_attempt(span: Span, outcome: str, state: State) -> None:
    """End the span of an attempt or a check with its result."""
    span.put(OUTCOME, outcome)
    span.put(COMMAND_STATE, state.value)
    span.end(state.value if state in FAILED else "")


def _attributes(command: Command) -> Attributes:
    target = PRODUCT if command.kind == "adjust" else ORDER
    return {
        STORE: command.store,
        CONNECTION: command.instance,
        COMMAND: command.id,
        target: command.target,
    }
