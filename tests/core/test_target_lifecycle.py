"""The table of a stock target's states and transitions."""

from __future__ import annotations

import pytest

from backhaul.core import lifecycle
from backhaul.core.target_lifecycle import (
    OPEN,
    SHOWN_AS,
    TRANSITIONS,
    TargetCause,
    TargetState,
    next_state,
)
from backhaul.store.commands import VERBS

PERSON = {cause for cause in TargetCause if cause.startswith("person_")}


def test_every_cause_moves_some_state_and_every_state_is_reached() -> None:
    assert {cause for _, cause in TRANSITIONS} == set(TargetCause)
    assert {*TRANSITIONS.values()} == set(TargetState)


def test_what_is_applied_or_superseded_stays_so() -> None:
    final = {TargetState.APPLIED, TargetState.SUPERSEDED}
    assert {state for state, _ in TRANSITIONS} == set(TargetState) - final


def test_an_open_target_is_shown_as_an_open_command_and_no_other() -> None:
    shown = {state: SHOWN_AS[state] in lifecycle.OPEN for state in TargetState}
    assert shown == {state: state in OPEN for state in TargetState}


@pytest.mark.parametrize("state", TargetState)
def test_a_person_can_decide_what_the_list_of_commands_offers(
    state: TargetState,
) -> None:
    """Except to ask the platform: a target is never sent."""
    causes = {cause.value for cause in VERBS.values()} - {"person_asks"}
    offered = {
        cause
        for cause in causes
        if (SHOWN_AS[state], lifecycle.Cause(cause)) in lifecycle.TRANSITIONS
    }
    can = {str(cause) for cause in PERSON if (state, cause) in TRANSITIONS}
    assert offered == can


def test_a_transition_that_is_not_listed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"an? applied stock target cannot move by"):
        next_state(TargetState.APPLIED, TargetCause.REPLACED)
