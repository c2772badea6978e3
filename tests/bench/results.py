"""What a row measures: figures with one value a round, and facts that must agree."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class CountsDisagreeError(Exception):
    """Something was lost or doubled: the figures of the row mean nothing."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured, and where the databases lie meanwhile."""

    directory: Path
    rounds: int = 5
    requests: int = 30_000
    orders: int = 20_000
    mirrored: int = 1_000_000
    stores: int = 2_000
    connections: int = 64
    seconds: float = 2.0
    fixture: str = "large"
    peers: bool = True


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity, one value a round."""

    name: str
    unit: str
    values: list[float]

    @property
    def median(self) -> float:
        return median(self.values)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "low": min(self.values),
            "high": max(self.values),
            "rounds": self.values,
        }


@dataclass(slots=True)
class Rounds:
    """Collects the figures of a row round by round, in order of first mention."""

    figures: dict[str, Figure] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def add(self, name: str, unit: str, value: float) -> None:
        self.figures.setdefault(name, Figure(name, unit, [])).values.append(value)

    def __getitem__(self, name: str) -> Figure:
        return self.figures[name]


def agree(what: str, expected: object, found: object) -> None:
    """Hold two counts to each other. Raises CountsDisagreeError."""
    if expected != found:
        raise CountsDisagreeError(f"{what}: expected {expected}, found {found}")
