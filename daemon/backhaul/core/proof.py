"""Whether an adjustment took effect, told from the platform's history of stock.

Only identity proves: our tag, or, where the platform keeps no notes, the one row of our
own API key that nothing else explains (architecture, Life of a command).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from backhaul.core.identity import TAG_PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


class Found(Enum):
    """What reading back told."""

    APPLIED = "applied"
    ABSENT = "absent"
    """Not there by now; it may still land."""
    UNDECIDABLE = "undecidable"
    """What is there can be explained in two ways, or cannot be read at all."""


@dataclass(frozen=True, slots=True)
class Move:
    """A row of the platform's history: one variant's share of an adjustment."""

    adjustment_id: str
    product_id: str
    variant_id: str
    delta: int
    note: str | None
    source_id: str | None
    at: str = ""
    """When it was, in the platform's time."""


@dataclass(frozen=True, slots=True)
class Habits:
    """What the platform was seen to do with our adjustments; None: not seen yet."""

    keeps_notes: bool | None = None
    key_id: str | None = None
    """Its name for our API key, as the source of a move."""

    def learn(self, moves: Sequence[Move], tags: Mapping[str, str | None]) -> Habits:
        """Return what is known with `moves`, some of which are known to be ours.

        `tags` gives the note that was sent with each adjustment id that is ours; None
        where it was sent without.
        """
        keeps, key_id = self.keeps_notes, self.key_id
        for move in moves:
            if move.adjustment_id not in tags:
                continue
            key_id = move.source_id or key_id
            tag = tags[move.adjustment_id]
            keeps = keeps if tag is None else move.note == tag
        return Habits(keeps, key_id)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The adjustment that is looked for; `tag` is None where it was sent without."""

    product_id: str
    variant_id: str | None
    delta: int
    tag: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, in words for a person, with the adjustment ids that are ours."""

    found: Found
    reason: str
    adjustment_ids: tuple[str, ...] = ()


def find_adjustment(
    wanted: Wanted, moves: Sequence[Move], linked: Collection[str], habits: Habits
) -> Finding:
    """Look for an adjustment among all `moves` of its product since its baseline.

    `linked` are the adjustment ids that belong to other commands. More than one id is
    returned where it took effect more than once.
    """
    if wanted.tag is not None:
        tagged = _ids(move for move in moves if move.note == wanted.tag)
        if tagged:
            return Finding(Found.APPLIED, "the history shows our tag", tagged)
        if habits.keeps_notes:
            return Finding(Found.ABSENT, "the history does not show our tag")
    similar = [
        move for move in moves if _fits(wanted, move) and not _explained(move, linked)
    ]
    if not similar:
        return Finding(Found.ABSENT, "the history shows no such change")
    return _without_tags(similar, habits)


def _without_tags(similar: Sequence[Move], habits: Habits) -> Finding:
    if habits.key_id is None:
        reason = (
            "the history shows such a change without a tag, and our key's name in it"
            " is not known yet"
        )
        return Finding(Found.UNDECIDABLE, reason, _ids(similar))
    anonymous = _ids(move for move in similar if move.source_id is None)
    ours = _ids(move for move in similar if move.source_id == habits.key_id)
    if not ours and not anonymous:
        return Finding(Found.ABSENT, "the history shows such changes of others only")
    if len(ours) == 1 and not anonymous:
        return Finding(Found.APPLIED, "the history shows one such change by us", ours)
    reason = "the history shows several such changes; none bears our tag"
    return Finding(Found.UNDECIDABLE, reason, ours + anonymous)


def _fits(wanted: Wanted, move: Move) -> bool:
    variant = wanted.variant_id in {None, move.variant_id}
    return (
        variant and move.product_id == wanted.product_id and move.delta == wanted.delta
    )


def _explained(move: Move, linked: Collection[str]) -> bool:
    """Tell whether another command, ours or one with a tag, made this move."""
    return move.adjustment_id in linked or (move.note or "").startswith(TAG_PREFIX)


def _ids(moves: Iterable[Move]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(move.adjustment_id for move in moves))
