"""Which decision is recommended, and that it never risks an unseen double effect."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace

from backhaul.core.lifecycle import State
from backhaul.store.advice import (
    APPLIED,
    CHECK,
    DISCARD,
    RESEND,
    CommandFacts,
    advise,
)
from backhaul.store.commands import possible_verbs

PARKED = CommandFacts("fulfill", State.PARKED, was_sent=True, may_have_effect=True)
REFUSED = replace(PARKED, refused_with=422, may_have_effect=False)


def verb(facts: CommandFacts) -> str:
    return advise(facts, possible_verbs(facts.state)).verb


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (PARKED, CHECK),
        (replace(PARKED, last_check="absent"), CHECK),
        (replace(PARKED, was_rechecked=True, last_check="undecidable"), CHECK),
        (replace(PARKED, was_rechecked=True, last_check="absent"), RESEND),
        (REFUSED, RESEND),
        (replace(REFUSED, may_have_effect=True), CHECK),
        (replace(REFUSED, state=State.REJECTED), RESEND),
        (replace(PARKED, state=State.REJECTED), ""),
        (CommandFacts("cancel", State.PARKED, was_sent=False), RESEND),
        (replace(PARKED, nothing_open=True), DISCARD),
        (replace(PARKED, state=State.REJECTED, nothing_open=True), ""),
        (replace(PARKED, kind="cancel", mismatch=True), APPLIED),
        (CommandFacts("target", State.PARKED, was_sent=False), RESEND),
    ],
)
def test_the_recommendation_fits_the_known_facts(
    facts: CommandFacts, expected: str
) -> None:
    assert verb(facts) == expected


@pytest.mark.parametrize("state", sorted(set(State) - {State.PARKED, State.REJECTED}))
def test_nothing_is_recommended_while_backhaul_does_it_itself(state: State) -> None:
    assert verb(replace(PARKED, state=state)) == ""


def test_the_platform_s_status_is_in_the_reason() -> None:
    assert "refused the last attempt with 422" in advise(REFUSED, {RESEND}).why


def test_nothing_impossible_is_recommended() -> None:
    assert advise(PARKED, ()) == replace(advise(PARKED, {CHECK}), verb="")


def test_a_resend_is_recommended_only_if_no_attempt_may_have_taken_effect() -> None:
    flags = list(product([False, True], repeat=3))
    for (rechecked, nothing_open, mismatch), check in product(
        flags, [None, "absent", "applied", "undecidable", "unreadable"]
    ):
        facts = replace(
            *(PARKED,),
            was_rechecked=rechecked,
            nothing_open=nothing_open,
            mismatch=mismatch,
            last_check=check,
            refused_with=422,
        )
        if verb(facts) == RESEND:
            assert (rechecked, check) == (True, "absent")
