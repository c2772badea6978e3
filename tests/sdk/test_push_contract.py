"""The push contract passes correct connectors and catches broken ones."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk.testing import PushBench, PushContract
from sdk import broken
from sdk.ledger import LedgerBench, LedgerSink

if TYPE_CHECKING:
    from collections.abc import Mapping


class TestLedger(PushContract):
    """The ledger's connector keeps the contract."""

    @pytest.fixture
    def bench(self) -> PushBench:
        return LedgerBench()


CATCHES: Mapping[str, tuple[type[LedgerSink], ...]] = {
    "check_changes_nothing": (broken.ChecksByWriting,),
    "each_change_takes_effect_once": (broken.Doubles,),
    "every_topic_it_names_is_taken": (broken.RaisesOnTopics,),
    "unknown_fields_are_tolerated": (broken.WantsNothingNew,),
    "every_failure_is_classified_and_nothing_tried_twice": (
        broken.Retries,
        broken.Optimist,
        broken.Pessimist,
        broken.TakesBusyForNever,
        broken.AsksForNever,
        broken.Raises,
        broken.SaysNothing,
    ),
    "what_cannot_be_reached_is_not_sent": (broken.TakesBusyForNever,),
    "lookup_finds_what_push_did": (
        broken.FindsEverything,
        broken.FindsNothing,
        broken.LooksByWriting,
    ),
    "lookup_never_guesses": (broken.GuessesWhenAway,),
    "nothing_is_lost_or_doubled_by_failures": (
        broken.FindsEverything,
        broken.FindsNothing,
        broken.Pessimist,
    ),
    "cancellation_anywhere_loses_and_doubles_nothing": (
        broken.Unstoppable,
        broken.FindsNothing,
    ),
    "unplugged_often_it_says_nothing_and_works_again": (
        broken.Talkative,
        broken.TakesBusyForNever,
    ),
    "it_keeps_nothing_of_a_change": (broken.Hoarder,),
    "no_secret_shows": (broken.Leaky,),
    "open_and_close_may_be_repeated": (broken.ClosesForGood,),
}


@pytest.mark.parametrize(
    ("invariant", "sink"),
    [(name, sink) for name, sinks in CATCHES.items() for sink in sinks],
)
async def test_a_broken_connector_is_caught(
    invariant: str, sink: type[LedgerSink], request: pytest.FixtureRequest
) -> None:
    check = getattr(PushContract(), f"test_{invariant}")
    wanted = inspect.signature(check).parameters.keys() - {"bench"}
    given: dict[str, Any] = {name: request.getfixturevalue(name) for name in wanted}
    caught = (AssertionError, KeyError, ValueError, pytest.fail.Exception)
    with pytest.raises(caught):
        await check(bench=LedgerBench(sink), **given)


def test_every_invariant_is_seen_to_catch_something() -> None:
    own = {name for name in vars(PushContract) if name.startswith("test_")}
    assert own == {f"test_{name}" for name in CATCHES} | {"test_it_says_what_it_takes"}
