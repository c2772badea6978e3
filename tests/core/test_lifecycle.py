"""The states of commands and stock targets, and the causes that change them."""

from __future__ import annotations

import itertools

import pytest

from backhaul.core.lifecycle import (
    OPEN,
    OPEN_TARGETS,
    SHOWN_AS,
    TARGET_TRANSITIONS,
    TRANSITIONS,
    Cause,
    State,
    TargetCause,
    TargetState,
    next_state,
    next_target_state,
)
from backhaul.store.commands import VERBS

# The transitions of a command, as in the architecture's documentation.
LEGAL = {
    ("planned", "send"): "sending",
    ("planned", "replaced"): "superseded",
    ("planned", "refused"): "rejected",
    ("sending", "confirmed"): "applied",
    ("sending", "refused"): "rejected",
    ("sending", "not_sent"): "planned",
    ("sending", "unknown"): "uncertain",
    ("sending", "undecidable"): "parked",
    ("sending", "replaced"): "superseded",
    ("uncertain", "proved_applied"): "applied",
    ("uncertain", "proved_absent"): "planned",
    ("uncertain", "undecidable"): "parked",
    ("uncertain", "unknown"): "uncertain",
    ("uncertain", "person_parks"): "parked",
    ("planned", "person_parks"): "parked",
    ("planned", "undecidable"): "parked",
    ("planned", "unknown"): "uncertain",
    ("planned", "proved_applied"): "applied",
    ("parked", "proved_applied"): "applied",
    ("rejected", "proved_applied"): "applied",
    ("superseded", "proved_applied"): "applied",
    ("uncertain", "person_asks"): "uncertain",
    ("parked", "person_asks"): "uncertain",
    ("parked", "person_resends"): "planned",
    ("parked", "person_confirms"): "applied",
    ("parked", "person_discards"): "rejected",
    ("rejected", "person_resends"): "planned",
}
PAIRS = list(itertools.product(State, Cause))


def named(pair: tuple[State, Cause]) -> str:
    return "-".join(pair)


@pytest.mark.parametrize("pair", PAIRS, ids=named)
def test_every_pair_moves_as_the_architecture_says(pair: tuple[State, Cause]) -> None:
    state, cause = pair
    expected = LEGAL.get((state.value, cause.value))
    if expected is None:
        with pytest.raises(ValueError, match=f"a {state} command cannot move by"):
            next_state(state, cause)
    else:
        assert next_state(state, cause) == expected


def test_no_way_leads_back_from_applied() -> None:
    assert not [pair for pair in TRANSITIONS if pair[0] is State.APPLIED]


def test_after_a_byte_may_have_left_only_proof_or_an_operator_plans_again() -> None:
    back = {pair for pair, state in TRANSITIONS.items() if state is State.PLANNED}
    assert back == {
        (State.SENDING, Cause.NOT_SENT),
        (State.UNCERTAIN, Cause.PROVED_ABSENT),
        (State.PARKED, Cause.PERSON_RESENDS),
        (State.REJECTED, Cause.PERSON_RESENDS),
    }


def test_only_planned_commands_are_sent() -> None:
    sent = {pair for pair, state in TRANSITIONS.items() if state is State.SENDING}
    assert sent == {(State.PLANNED, Cause.SEND)}


def test_every_state_can_be_reached_from_planned() -> None:
    reached = {State.PLANNED}
    for _ in State:
        reached |= {to for (at, _), to in TRANSITIONS.items() if at in reached}
    assert reached == set(State)


def test_open_states_are_those_that_still_owe_an_effect() -> None:
    assert {"planned", "sending", "uncertain"} == OPEN


PERSON = {cause for cause in TargetCause if cause.startswith("person_")}


def test_every_cause_moves_some_state_and_every_state_is_reached() -> None:
    assert {cause for _, cause in TARGET_TRANSITIONS} == set(TargetCause)
    assert {*TARGET_TRANSITIONS.values()} == set(TargetState)


def test_an_applied_or_superseded_command_stays_so() -> None:
    final = {TargetState.APPLIED, TargetState.SUPERSEDED}
    assert {state for state, _ in TARGET_TRANSITIONS} == set(TargetState) - final


def test_an_open_target_is_shown_as_an_open_command_and_no_other() -> None:
    shown = {state: SHOWN_AS[state] in OPEN for state in TargetState}
    assert shown == {state: state in OPEN_TARGETS for state in TargetState}


@pytest.mark.parametrize("state", TargetState)
def test_an_operator_can_decide_all_that_the_command_list_offers(
    state: TargetState,
) -> None:
    """The exception is a check at the platform, because a target is never sent."""
    causes = {cause.value for cause in VERBS.values()} - {"person_asks"}
    offered = {
        cause for cause in causes if (SHOWN_AS[state], Cause(cause)) in TRANSITIONS
    }
    can = {str(cause) for cause in PERSON if (state, cause) in TARGET_TRANSITIONS}
    assert offered == can


def test_a_transition_that_is_not_listed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"an? applied stock target cannot move by"):
        next_target_state(TargetState.APPLIED, TargetCause.REPLACED)
