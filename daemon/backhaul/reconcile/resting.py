"""How long an object rests whose reads settle nothing: longer each time, to a bound.

That is so while our clock shows less than it did when the object was seen last: until
it has caught up, or was put right, no read can be said to have begun later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backhaul.store.contract import LONGEST_REST_SECONDS

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.store.contract import Reread

FIRST_SECONDS = 5.0
"""Rest after the second read in vain; the fold lets it rest as long after the first."""


@dataclass(slots=True)
class Resting:
    """Counts, for one store, how often each object was read in vain.

    The count is kept on the monotonic clock: it is the other one that is wrong here.
    """

    clock: Clock
    _vain: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)

    def seconds(self, reread: Reread) -> float:
        """Return how much longer an object is to rest that is due; 0 to read it now."""
        if not reread.unsettled:
            return 0.0
        now = self.clock.monotonic()
        self._forget(now - 2 * LONGEST_REST_SECONDS)
        key = (reread.kind, reread.object_id)
        times, _ = self._vain.get(key, (0, now))
        self._vain[key] = (times + 1, now)
        if times == 0:
            return 0.0
        return min(FIRST_SECONDS * 2.0 ** min(times - 1, 16), LONGEST_REST_SECONDS)

    def _forget(self, before: float) -> None:
        """Begin anew with what gave no trouble for longer than any rest."""
        self._vain = {key: seen for key, seen in self._vain.items() if seen[1] > before}
