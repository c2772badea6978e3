"""Every log line of the daemon has a stable action word and a constant message."""

from __future__ import annotations

import re

import pytest

from docs.log_actions import LogCall, actions, daemon_log_calls, log_calls

WORD = re.compile(r"[a-z]+(_[a-z]+)*\.([a-z]+(_[a-z]+)*|\*)")
# Hands on what libraries log: neither level nor message is ours.
INTERCEPTION = "observe/logs.py"

HELPER = """
class Part:
    def tell(self, order, action):
        logger.bind(action=action).info("M")

    def work(self):
        self.tell(1, "a")
        self.tell(1, action="b")
"""


def calls() -> list[tuple[str, LogCall]]:
    return [(path, call) for path, call in daemon_log_calls() if path != INTERCEPTION]


def test_every_log_call_has_an_action() -> None:
    bare = [f"{path}:{call.line}" for path, call in calls() if not call.actions]
    assert bare == []


def test_every_message_is_a_constant() -> None:
    built = [f"{path}:{call.line}" for path, call in calls() if call.message is None]
    assert built == []


def test_log_actions_are_a_subject_and_an_outcome() -> None:
    assert [action for action in actions() if not WORD.fullmatch(action)] == []


def test_the_actions_are_found() -> None:
    assert actions()["program.crashed"] == ["error"]


@pytest.mark.parametrize(
    ("source", "words", "message"),
    [
        ('logger.bind(action="a").info("M")', ("a",), "M"),
        ('logger.bind(action="a", x=1).bind(y=2).exception("M")', ("a",), "M"),
        ('log.bind(action="a").opt(exception=e).error("{}", 1)', ("a",), "{}"),
        ('self._log.bind(action="a").warning(f"M {x}")', ("a",), None),
        ('logger.bind(action="a" if up else "b").info("M")', ("a", "b"), "M"),
        ('logger.bind(action="a").log("INFO", "{} {}", 1, 2)', ("a",), "{} {}"),
        ('logger.bind(action=f"fold.{state}").info("M")', ("fold.*",), "M"),
        (HELPER, ("a", "b"), "M"),
        ("logger.bind(action=name).info(text)", (), None),
        ('logger.info("M")', (), "M"),
        ('log.bind(x=1).info("M")', (), "M"),
    ],
)
def test_a_log_call_is_understood(
    source: str, words: tuple[str, ...], message: str | None
) -> None:
    (call,) = log_calls(source)
    assert (call.actions, call.message) == (words, message)


@pytest.mark.parametrize("source", ["task.exception()", "math.log(2)", "x.info"])
def test_other_calls_are_none(source: str) -> None:
    found: list[LogCall] = list(log_calls(source))
    assert found == []
