"""Proves from the stock history whether an adjustment took effect."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads it
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from backhaul.core.identity import TAG_PREFIX
from backhaul.core.lifecycle import State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


class EffectState(Enum):
    """What reading back told."""

    APPLIED = "applied"
    ABSENT = "absent"
    """Not there by now; it may still land."""
    UNDECIDABLE = "undecidable"
    """What is there can be explained in two ways, or cannot be read at all."""


class Move(Struct, frozen=True):
    """A row of the platform's history: one variant's share of an adjustment."""

    adjustment_id: str
    product_id: str
    variant_id: str
    delta: int
    note: str | None
    source_id: str | None
    at: str = ""
    """When it was, in the platform's time."""
    order_id: str | None = None
    """The order that moved the stock; an adjustment has none."""


class EffectOwner(NamedTuple):
    """The command behind an adjustment, as it was sent; `note` is None without one."""

    command: str
    note: str | None
    key_fingerprint: str | None


class PlatformBehavior(Struct, frozen=True):
    """What the platform was seen to do with our adjustments; None: not seen yet."""

    keeps_notes: bool | None = None
    key_ids: Mapping[str, str] = field(default_factory=dict)
    """Its names for our API keys, as sources of moves, by the keys' fingerprints."""

    def learn(
        self, moves: Sequence[Move], owners: Mapping[str, EffectOwner]
    ) -> PlatformBehavior:
        """Return what is known with `moves`, of which those of `owners` are ours."""
        keeps, key_ids = self.keeps_notes, dict(self.key_ids)
        for move in moves:
            owner = owners.get(move.adjustment_id)
            if owner is None:
                continue
            if owner.key_fingerprint and move.source_id:
                key_ids[owner.key_fingerprint] = move.source_id
            keeps = keeps if owner.note is None else move.note == owner.note
        return PlatformBehavior(keeps, key_ids)

    def names(self, key_fingerprint: str | None) -> bool:
        """Tell whether the platform's name for a key is known; None is any of ours."""
        if key_fingerprint is None:
            return bool(self.key_ids)
        return key_fingerprint in self.key_ids


class SoughtAdjustment(Struct, frozen=True):
    """The adjustment that is looked for; `tag` is None where it was sent without.

    `key_fingerprint` is of the key that sent it, None where that is forgotten.
    """

    product_id: str
    variant_id: str | None
    delta: int
    tag: str | None
    key_fingerprint: str | None = None


class Finding(Struct, frozen=True):
    """What was found, in words for a person, with the adjustment ids that are ours."""

    found: EffectState
    reason: str
    adjustment_ids: tuple[str, ...] = ()


def find_adjustment(
    wanted: SoughtAdjustment,
    moves: Sequence[Move],
    linked: Collection[str],
    habits: PlatformBehavior,
) -> Finding:
    """Look for an adjustment among all `moves` of its product since its baseline.

    `linked` are the adjustment ids that belong to other commands. More than one id is
    returned where it took effect more than once.
    """
    if wanted.tag is not None:
        tagged = _ids(move for move in moves if move.note == wanted.tag)
        if tagged:
            return Finding(EffectState.APPLIED, "the history shows our tag", tagged)
        if habits.keeps_notes:
            return Finding(EffectState.ABSENT, "the history does not show our tag")
    similar = [
        move for move in moves if _fits(wanted, move) and not _explained(move, linked)
    ]
    if not similar:
        return Finding(EffectState.ABSENT, "the history shows no such change")
    return _without_tags(wanted, similar, habits)


def _without_tags(
    wanted: SoughtAdjustment, similar: Sequence[Move], habits: PlatformBehavior
) -> Finding:
    # A key that was replaced has another name there: its rows look like a stranger's.
    if not habits.names(wanted.key_fingerprint):
        reason = (
            "the history shows such a change without a tag, and our key's name in it"
            " is not known yet"
        )
        return Finding(EffectState.UNDECIDABLE, reason, _ids(similar))
    anonymous = _ids(move for move in similar if move.source_id is None)
    names = set(habits.key_ids.values())
    ours = _ids(move for move in similar if move.source_id in names)
    if not ours and not anonymous:
        return Finding(
            EffectState.ABSENT, "the history shows such changes of others only"
        )
    if len(ours) == 1 and not anonymous:
        return Finding(
            EffectState.APPLIED, "the history shows one such change by us", ours
        )
    reason = "the history shows several such changes; none bears our tag"
    return Finding(EffectState.UNDECIDABLE, reason, ours + anonymous)


def _fits(wanted: SoughtAdjustment, move: Move) -> bool:
    variant = wanted.variant_id in {None, move.variant_id}
    return (
        variant and move.product_id == wanted.product_id and move.delta == wanted.delta
    )


def _explained(move: Move, linked: Collection[str]) -> bool:
    """Tell whether an order or another command, ours or one with a tag, made it."""
    return (
        move.order_id is not None
        or move.adjustment_id in linked
        or (move.note or "").startswith(TAG_PREFIX)
    )


def _ids(moves: Iterable[Move]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(move.adjustment_id for move in moves))


class TagMeaning(Enum):
    """What was found about a tagged adjustment."""

    OWN = "own"
    """The effect that its command is known to have, or one that is known to be too
    much."""
    OPEN = "open"
    """Its command is under way or in doubt: the settler tells. Or it landed behind a
    count whose step is."""
    LINKED = "linked"
    """A person said that it was applied; this is the effect."""
    LATE = "late"
    """Its command was given up, or is to be sent again: it has landed after all."""
    UNSENT = "unsent"
    """Its command was never sent from this database: somebody else did."""
    BEHIND = "behind"
    """It has landed after all, behind a count that was reckoned without it."""
    DOUBLED = "doubled"
    """Its command has another effect already."""
    UNKNOWN = "unknown"
    """Nobody here planned such a command."""


BECOMES_EFFECT = frozenset(
    {TagMeaning.LINKED, TagMeaning.LATE, TagMeaning.BEHIND, TagMeaning.UNSENT}
)
"""What becomes the effect of its command."""
FOREIGN = frozenset({TagMeaning.UNSENT, TagMeaning.UNKNOWN})
"""What this database, as it is, did not send."""


class KnownCommand(Struct, frozen=True):
    """What is known of the command with the tag; `doubled` are effects too many."""

    kind: str
    state: State
    attempts: int
    effect_id: str | None
    doubled: tuple[str, ...] = ()


def tag_meaning(known: KnownCommand | None, adjustment_id: str) -> TagMeaning:
    """Tell what an adjustment with a command's tag means."""
    if known is None:
        return TagMeaning.UNKNOWN
    # An order's tag may be shown beside the stock that its cancellation gave back.
    if known.kind != "adjust" or adjustment_id in {known.effect_id, *known.doubled}:
        return TagMeaning.OWN
    if known.effect_id is not None:
        return TagMeaning.DOUBLED
    if known.state in {State.SENDING, State.UNCERTAIN}:
        return TagMeaning.OPEN
    if known.state is State.APPLIED:
        return TagMeaning.LINKED
    return TagMeaning.LATE if known.attempts else TagMeaning.UNSENT
