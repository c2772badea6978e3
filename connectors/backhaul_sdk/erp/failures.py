"""What a failed call of an ERP means: refused, not now, or perhaps carried out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from backhaul_sdk.calls import NoAnswer, outcome_of
from backhaul_sdk.contract import CheckFailed, NotSent, Rejected, Uncertain

if TYPE_CHECKING:
    from backhaul_sdk.calls import Answer
    from backhaul_sdk.contract import Pushed

DENIED = (401, 403, 407)


class RequestRefused(CheckFailed):
    """The server understood and refused the request; nothing was done."""


class NotNow(CheckFailed):
    """Nothing was done; the same call may work later. None: no wait was stated."""

    def __init__(self, words: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(words)
        self.retry_after_seconds = retry_after_seconds


class AccessRefused(CheckFailed):
    """The login, the key or the rights are not sufficient; nothing was done."""


class ServerFailed(CheckFailed):
    """The server broke during the request, or its answer is unreadable."""


def may_have_arrived(error: CheckFailed) -> bool:
    """Return True if a failed call may have taken effect, or still may."""
    return isinstance(error, NoAnswer | ServerFailed)


def outcome_of_failure(error: CheckFailed) -> Pushed:
    """Return the outcome of a change whose call failed."""
    if isinstance(error, RequestRefused):
        return Rejected(str(error))
    if isinstance(error, NotNow):
        return NotSent(str(error), error.retry_after_seconds)
    if may_have_arrived(error):
        return Uncertain(str(error))
    return NotSent(str(error))


def failure_of(where: str, answer: Answer, said: str = "") -> CheckFailed:
    """Return the exception for an HTTP status that is not a success.

    `said` is the server's message for people, if it is not the body itself.
    """
    shown = replace(answer, body=said.encode()) if said else answer
    outcome = outcome_of(shown)
    if isinstance(outcome, Rejected):
        return RequestRefused(f"{where}: {outcome.reason}")
    if isinstance(outcome, NotSent) and answer.status in DENIED:
        return AccessRefused(f"{where}: {outcome.reason}")
    if isinstance(outcome, NotSent):
        return NotNow(f"{where}: {outcome.reason}", outcome.retry_after_seconds)
    return ServerFailed(f"{where} answered {shown.words()}")
