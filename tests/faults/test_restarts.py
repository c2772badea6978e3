"""Restarts under 500 webhooks a second, with an inherited socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import uvloop

from faults.trials import tell
from scenes.restarts import restarted

if TYPE_CHECKING:
    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess

PER_SECOND = 500
RESTARTS = 5


@pytest.mark.faults
@pytest.mark.long
@pytest.mark.timeout(900)
def test_restarts_under_five_hundred_a_second_lose_and_refuse_nothing(
    office: Office, platform: ReferenceProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    store = platform.store().id
    # With asyncio's loop the sender would use twice as much processor time.
    found = uvloop.run(
        restarted(office, store, times=RESTARTS, per_second=PER_SECOND, each=3_000)
    )
    sent = found.statuses.total()
    missing = len(found.lost) + sent - found.statuses[200]
    more = f"webhooks, {found.per_second:.0f} a second through {RESTARTS} restarts"
    tell(capsys, missing, sent, f"{more}, away {found.longest_away_seconds:.1f} s")
    assert set(found.statuses) == {200}
    assert (found.lost, found.doubled) == (set(), set())
