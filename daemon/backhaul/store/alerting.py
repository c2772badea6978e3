"""What alerting asks of a store: which causes were told, and whether they are over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Alert:
    """A cause: `key` is the same while it lasts; `says` and `mend` are for a person."""

    key: str
    says: str
    mend: str


@dataclass(frozen=True, slots=True)
class News:
    """What nobody was told yet: causes that began, and told ones that are over."""

    begun: Sequence[Alert]
    over: Sequence[Alert]

    def __bool__(self) -> bool:
        return bool(self.begun or self.over)


class Alerts(Protocol):
    """Remembers, through restarts, what was told."""

    async def compare(self, now: Mapping[str, Alert]) -> News:
        """Keep what is wrong now; return what is news. May raise Busy."""
        ...

    async def told(self, news: News) -> None:
        """Keep that a person was told. May raise Busy."""
        ...
