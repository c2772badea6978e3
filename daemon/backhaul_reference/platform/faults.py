"""Fault rules that tests set: which fire, how often, seeded."""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import count

from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import not_found

BEFORE = ("latency", "rate429", "5xx", "html", "refuse")
AFTER = ("drop-after-commit", "truncate")
HTTP = (*BEFORE, *AFTER)
WEBHOOKS = ("duplicate", "reorder", "delay", "drop", "corrupt-signature")


@dataclass(frozen=True, slots=True)
class Rule:
    """One fault: where it applies, and how likely and how often it fires."""

    fault: str
    probability: float = 1.0
    count: int | None = None
    burst: int = 1
    method: str = "*"
    pattern: str = "*"
    seconds: float = 1.0
    status: int = 503

    def matches(self, method: str, places: Collection[str]) -> bool:
        return fnmatchcase(method, self.method) and any(
            fnmatchcase(place, self.pattern) for place in places
        )


@dataclass(slots=True)
class ActiveRule:
    """An active rule; the same seed and the same calls make it fire the same way."""

    number: int
    rule: Rule
    chance: random.Random
    fired: int = 0
    burst_left: int = 0

    def fires(self) -> bool:
        if self.rule.count is not None and self.fired >= self.rule.count:
            return False
        if self.burst_left == 0:
            if self.chance.random() >= self.rule.probability:
                return False
            self.burst_left = self.rule.burst
        self.burst_left -= 1
        self.fired += 1
        return True


@dataclass(slots=True)
class Faults:
    """The faults of every store; they live as long as the process."""

    by_store: dict[str, list[ActiveRule]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def arm(self, store_id: str, rules: Sequence[Rule], seed: int) -> None:
        """Replace the active rules."""
        self.by_store[store_id] = []
        for rule in rules:
            self.add(store_id, rule, seed)

    def add(self, store_id: str, rule: Rule, seed: int) -> None:
        """Add a rule; the active rules stay."""
        armed = self.by_store.setdefault(store_id, [])
        chance = random.Random(f"{seed} {len(armed)}")  # noqa: S311  - not a secret, must repeat
        armed.append(ActiveRule(next(self._numbers), rule, chance))

    def disarm(self, store_id: str) -> None:
        self.by_store.pop(store_id, None)

    def disarm_one(self, store_id: str, number: str) -> None:
        """Remove one rule; its number is not reused. 404 if it is not active."""
        armed = self.by_store.get(store_id, [])
        kept = [one for one in armed if str(one.number) != number]
        if len(kept) == len(armed):
            raise not_found("FAULT")
        self.by_store[store_id] = kept

    def firing(
        self,
        store_id: str,
        faults: Collection[str],
        method: str,
        places: Collection[str],
    ) -> list[Rule]:
        """Return every rule that fires now; the call itself counts."""
        return [
            armed.rule
            for armed in self.by_store.get(store_id, ())
            if armed.rule.fault in faults
            and armed.rule.matches(method, places)
            and armed.fires()
        ]

    def listed(self, store_id: str) -> list[Document]:
        return [_view(armed) for armed in self.by_store.get(store_id, ())]


def _view(armed: ActiveRule) -> Document:
    rule = armed.rule
    shown: Document = {
        "id": str(armed.number),
        "fault": rule.fault,
        "probability": rule.probability,
        "count": rule.count,
        "burst": rule.burst,
        "seconds": rule.seconds,
        "fired": armed.fired,
    }
    if rule.fault in WEBHOOKS:
        return {**shown, "topic": rule.pattern}
    place = {"method": rule.method, "route": rule.pattern, "status": rule.status}
    return {**shown, **place}
