"""Which state follows from each outcome of an attempt."""

from __future__ import annotations

import pytest

from backhaul.core.lifecycle import State, next_state
from backhaul.core.outcome import Outcome, Verdict
from backhaul.push.response_classifier import (
    CAUSES,
    ClassifiedResponse,
    interrupted,
    transition_of,
)
from backhaul.settings import Push
from scenes.clock import START

STATES = {
    Outcome.CONFIRMED: State.APPLIED,
    Outcome.NEVER_SENT: State.PLANNED,
    Outcome.UNCERTAIN: State.UNCERTAIN,
    Outcome.REJECTED: State.REJECTED,
    Outcome.THROTTLED: State.PLANNED,
    Outcome.DEFERRED: State.PLANNED,
    Outcome.STOPPED: State.PLANNED,
    Outcome.HELD: State.PLANNED,
    Outcome.WITHOUT_MEMBER: State.PLANNED,
    Outcome.PARKED: State.PARKED,
    Outcome.OVERTAKEN: State.SUPERSEDED,
}
NEEDS_A_LOOK = {Outcome.CHECK_ABSENT, Outcome.CHECK_EFFECT}


def test_every_outcome_has_its_transition() -> None:
    assert set(CAUSES) == set(STATES) == set(Outcome) - NEEDS_A_LOOK


@pytest.mark.parametrize("outcome", STATES, ids=lambda outcome: outcome.value)
def test_each_outcome_leads_to_its_state(outcome: Outcome) -> None:
    verdict = Verdict(outcome, "because", retry_after_seconds=None)
    step = transition_of(ClassifiedResponse(verdict, {"a": 1}), 0, START, 0.0, Push())
    state = State.SENDING
    for cause in step.causes:
        state = next_state(state, cause)
    assert state is STATES[outcome]
    assert step.held == (outcome is Outcome.HELD)
    backs_off = outcome in {Outcome.NEVER_SENT, Outcome.DEFERRED}
    assert step.counts_as_failure == backs_off
    waits = backs_off or outcome in {Outcome.THROTTLED, Outcome.UNCERTAIN}
    assert (step.due_at is not None) == waits
    assert (step.reason, step.evidence) == ("because", {"a": 1})


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0.5), (1, 1), (2, 2), (20, 30)], ids=str
)
def test_failures_wait_within_the_set_bounds(failures: int, seconds: float) -> None:
    judged = ClassifiedResponse(Verdict(Outcome.NEVER_SENT, ""))
    step = transition_of(judged, failures, START, 0.0, Push())
    minutes, rest = divmod(seconds, 60)
    assert step.due_at == f"2026-03-01T12:{minutes:02.0f}:{rest:06.3f}Z"


def test_an_interrupted_command_is_uncertain() -> None:
    state = State.SENDING
    for cause in interrupted().causes:
        state = next_state(state, cause)
    assert state is State.UNCERTAIN
