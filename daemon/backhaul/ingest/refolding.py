"""`events refold`: stored events are folded again, by the daemon or without one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from backhaul.ingest.drain import SLICE_SECONDS, tell
from backhaul.ingest.known_stores import fold_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul.shop.client import StoreFacts
    from backhaul.store.refolds import Refolds, Selection


class Refolder:
    """Folds stored events again, in short slices between what else is written."""

    def __init__(
        self,
        refolds: Refolds,
        facts: Mapping[str, StoreFacts],
        folded: Callable[[], None],
        doubted: Callable[[], None],
    ) -> None:
        self._refolds = refolds
        self._fold = fold_for(facts)
        self._folded = folded
        self._doubted = doubted

    async def refold(self, selection: Selection) -> dict[str, int]:
        """Fold what is selected; return how many events ended in each state."""
        states: Counter[str] = Counter()
        after: int | None = 0
        while after is not None:
            report = await self._refolds.refold(
                self._fold, selection, after, SLICE_SECONDS
            )
            after = report.last
            states.update(report.states)
            tell(report.problems)
            self._folded()
            if report.doubts:
                self._doubted()
        return dict(states)
