"""What `commands show` says about the state of a command."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from backhaul.cli import command_view
from backhaul.core.lifecycle import State
from backhaul.store.asked import Asked
from backhaul.store.command_records import CommandDetail

NEVER, MAY_HAVE = "It was never sent.", "may have"
COMMAND = CommandDetail(
    seq=1,
    id="ab" * 16,
    store="main",
    kind="fulfill",
    target="ord_1",
    lane="order:ord_1",
    state="planned",
    reason="",
    payload="{}",
    attempts=[],
    failures=0,
    evidence=None,
    cause="record erp 1",
    instance="erp",
    hold_reason=None,
    created_at="2026-03-01T12:00:00.000Z",
    due_at="2026-03-01T12:05:00.000Z",
    settled_at=None,
    request=None,
    key_fingerprint=None,
    baseline=None,
    sent_at=None,
    looks=[],
    effect_id=None,
    digest=None,
    request_digest=None,
    caused_at=None,
    behind=0,
    accepted=None,
    about=None,
    target_of=None,
    record=None,
    by_hand=[],
    asked=Asked("fulfill"),
)


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("sent_at", [None, "2026-03-01T12:00:00.000Z"])
def test_no_command_is_called_unsent_that_may_have_been_sent(
    state: State, sent_at: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    found = replace(COMMAND, state=state, sent_at=sent_at)
    command_view.history(found)
    said = " ".join(capsys.readouterr().out.split())
    may_have = sent_at is not None or state in {State.UNCERTAIN, State.APPLIED}
    assert (NEVER in said) is not may_have


def test_a_command_says_when_it_is_due_and_what_it_waits_for() -> None:
    pause = {"until": "2026-03-01T12:05:00.000Z", "reason": "429 RATE_LIMITED"}
    store = {"stopped": {"everything": "restored", "cancel": "403"}, "paused": pause}
    waits = dict(command_view._waits(COMMAND, store))
    assert waits["due at"] == COMMAND.due_at
    assert waits["sending stopped"] == "restored"
    assert waits["paused until"] == f"{pause['until']}: {pause['reason']}"


@pytest.mark.parametrize("state", [State.APPLIED, State.PARKED, State.REJECTED])
def test_a_command_that_is_over_waits_for_nothing(state: State) -> None:
    assert list(command_view._waits(replace(COMMAND, state=state), {})) == []
