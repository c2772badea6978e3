"""`events refold`: stored events are folded again, by the daemon or without one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from backhaul.ingest.drain import SLICE_SECONDS, tell
from backhaul.ingest.known_stores import fold_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul.shop.client import StoreFacts
    from backhaul.store.refolds import RefoldReport, Refolds, Selection


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
        """Fold what is selected; return how many events ended in each state.

        Reads that settled a doubt come first: in any other order they may uncover an
        event that was folded before them, and a second pass would be needed.
        """
        states: Counter[str] = Counter()
        for confirming in (True, False):
            after: int | None = 0
            while after is not None:
                report = await self._refolds.refold(
                    self._fold, selection, after, SLICE_SECONDS, confirming=confirming
                )
                after = report.last
                states.update(report.states)
                self._tell(report)
        return dict(states)

    def _tell(self, report: RefoldReport) -> None:
        tell(report.problems)
        self._folded()
        if report.doubts:
            self._doubted()
