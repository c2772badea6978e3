"""From a verdict to the command's next step: a table from outcome to settlement."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from backhaul.core.backoff import delay_seconds
from backhaul.core.clock import to_text
from backhaul.core.lifecycle import Cause
from backhaul.core.outcome import Outcome
from backhaul.shop import requests
from backhaul.store.outbox import Settlement

if TYPE_CHECKING:
    from datetime import datetime

    from backhaul.push.judging import Judged
    from backhaul.settings import Push

CAUSES: dict[Outcome, tuple[Cause, ...]] = {
    Outcome.CONFIRMED: (Cause.CONFIRMED,),
    Outcome.NEVER_SENT: (Cause.NOT_SENT,),
    Outcome.UNCERTAIN: (Cause.UNKNOWN,),
    Outcome.REJECTED: (Cause.REFUSED,),
    Outcome.THROTTLED: (Cause.NOT_SENT,),
    Outcome.DEFERRED: (Cause.NOT_SENT,),
    Outcome.STOPPED: (Cause.NOT_SENT,),
    Outcome.HELD: (Cause.NOT_SENT,),
    Outcome.WITHOUT_MEMBER: (Cause.NOT_SENT,),
    Outcome.PARKED: (Cause.UNDECIDABLE,),
    Outcome.OVERTAKEN: (Cause.REPLACED,),
}
BACKING_OFF = frozenset({Outcome.NEVER_SENT, Outcome.DEFERRED})
"""Tried again after a wait that grows with each failure."""

THROTTLE_SECONDS = 1.0
"""Wait after a 429 that names none."""


def settlement(
    judged: Judged, failures: int, now: datetime, chance: float, push: Push
) -> Settlement:
    """Return how the command moves on. `chance` in [0, 1) spreads retries."""
    verdict = judged.verdict
    wait: float | None = None
    if verdict.outcome in BACKING_OFF:
        wait = delay_seconds(
            failures + 1,
            base_seconds=push.retry_base,
            cap_seconds=push.retry_cap,
            chance=chance,
        )
    elif verdict.outcome is Outcome.THROTTLED:
        wait = verdict.retry_after_seconds or THROTTLE_SECONDS
        wait = min(wait, push.longest_pause)
    elif verdict.outcome is Outcome.UNCERTAIN:
        wait = push.looks[0]
    return Settlement(
        causes=CAUSES[verdict.outcome],
        reason=verdict.reason,
        due_at=None if wait is None else to_text(now + timedelta(seconds=wait)),
        held=verdict.outcome is Outcome.HELD,
        counts_as_failure=verdict.outcome in BACKING_OFF,
        evidence=judged.evidence,
        effect_id=requests.effect_id(judged.evidence),
    )


def interrupted() -> Settlement:
    """Return how a command moves on that was being sent when the program died."""
    return Settlement(
        causes=CAUSES[Outcome.UNCERTAIN],
        reason="the program stopped while this was being sent",
    )
