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


ALL_SHIPPED = "all of it has shipped"
"""How the reason of a shipment ends whose order has no units left to ship."""
NOT_RESTOCKED = "the order is cancelled, without the restock that was asked for"
RESTOCKED = "the order is cancelled, with a restock that was not asked for"


class EffectState(Enum):
    """Whether an effect was found at the platform."""

    APPLIED = "applied"
    ABSENT = "absent"
    """Not there yet; it may still take effect."""
    UNDECIDABLE = "undecidable"
    """The history can be explained in two ways, or cannot be read."""


class Move(Struct, frozen=True):
    """A row of the platform's history: one variant's share of an adjustment."""

    adjustment_id: str
    product_id: str
    variant_id: str
    delta: int
    note: str | None
    source_id: str | None
    at: str = ""
    """Time of the move, by the platform's clock."""
    order_id: str | None = None
    """The order that moved the stock; None for an adjustment."""


class EffectOwner(NamedTuple):
    """The command behind an adjustment; `note` is None if it was sent without one."""

    command: str
    note: str | None
    key_fingerprint: str | None


class PlatformBehavior(Struct, frozen=True):
    """How the platform records our adjustments; None means not observed yet."""

    keeps_notes: bool | None = None
    key_ids: Mapping[str, str] = field(default_factory=dict)
    """The platform's ids for our API keys as sources of moves, by key fingerprint."""

    def learn(
        self, moves: Sequence[Move], owners: Mapping[str, EffectOwner]
    ) -> PlatformBehavior:
        """Return what is known after `moves`; those of `owners` are our own."""
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
        """Return True if the platform's id for a key (None: any own key) is known."""
        if key_fingerprint is None:
            return bool(self.key_ids)
        return key_fingerprint in self.key_ids


class SoughtAdjustment(Struct, frozen=True):
    """The adjustment to search for; `tag` is None if it was sent without a tag.

    `key_fingerprint` is that of the key that sent it, None if it is not known.
    """

    product_id: str
    variant_id: str | None
    delta: int
    tag: str | None
    key_fingerprint: str | None = None


class Finding(Struct, frozen=True):
    """Result of a search, with a reason for operators and the own adjustment ids."""

    found: EffectState
    reason: str
    adjustment_ids: tuple[str, ...] = ()


def find_adjustment(
    wanted: SoughtAdjustment,
    moves: Sequence[Move],
    linked: Collection[str],
    behavior: PlatformBehavior,
) -> Finding:
    """Search all `moves` of a product since the baseline for an adjustment.

    `linked` are the adjustment ids that belong to other commands. More than one id is
    returned where it took effect more than once.
    """
    if wanted.tag is not None:
        tagged = _ids(move for move in moves if move.note == wanted.tag)
        if tagged:
            return Finding(
                EffectState.APPLIED, "the stock history shows our reference tag", tagged
            )
        if behavior.keeps_notes:
            return Finding(EffectState.ABSENT, "the history does not show our tag")
    similar = [
        move for move in moves if _fits(wanted, move) and not _explained(move, linked)
    ]
    if not similar:
        return Finding(EffectState.ABSENT, "the history shows no such change")
    return _without_tags(wanted, similar, behavior)


def _without_tags(
    wanted: SoughtAdjustment, similar: Sequence[Move], behavior: PlatformBehavior
) -> Finding:
    # A replaced key has another id there: its rows seem to be foreign.
    if not behavior.names(wanted.key_fingerprint):
        reason = (
            "the history shows such a change without a tag, and our key's name in it"
            " is not known yet"
        )
        return Finding(EffectState.UNDECIDABLE, reason, _ids(similar))
    anonymous = _ids(move for move in similar if move.source_id is None)
    names = set(behavior.key_ids.values())
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
    """Return True if an order, another command or another tag explains the move."""
    return (
        move.order_id is not None
        or move.adjustment_id in linked
        or (move.note or "").startswith(TAG_PREFIX)
    )


def _ids(moves: Iterable[Move]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(move.adjustment_id for move in moves))


class TagMeaning(Enum):
    """What an adjustment with our tag means for the command that the tag names."""

    OWN = "own"
    """Already recorded: the command's own effect, or a known duplicate of it."""
    OPEN = "open"
    """Not decided yet: its command, or the adjustment of a later stock count, is being
    sent or is uncertain."""
    LINKED = "linked"
    """An operator marked the command as applied; this is its effect."""
    LATE = "late"
    """Its command was closed, or waits to be sent again, but took effect late."""
    UNSENT = "unsent"
    """This database never sent its command, so another daemon did."""
    BEHIND = "behind"
    """It took effect late, after a stock count that did not include it."""
    DOUBLED = "doubled"
    """Its command already has another effect."""
    UNKNOWN = "unknown"
    """This database has no such command."""


BECOMES_EFFECT = frozenset(
    {TagMeaning.LINKED, TagMeaning.LATE, TagMeaning.BEHIND, TagMeaning.UNSENT}
)
"""Meanings by which the adjustment becomes its command's effect."""
FOREIGN = frozenset({TagMeaning.UNSENT, TagMeaning.UNKNOWN})
"""Meanings by which this database did not send the adjustment."""


class KnownCommand(Struct, frozen=True):
    """The command that a tag names; `doubled` lists its duplicate effects."""

    kind: str
    state: State
    attempts: int
    effect_id: str | None
    doubled: tuple[str, ...] = ()


def tag_meaning(known: KnownCommand | None, adjustment_id: str) -> TagMeaning:
    """Return what an adjustment with the command's tag means."""
    if known is None:
        return TagMeaning.UNKNOWN
    # The platform may show an order's tag on the stock that its cancellation restored.
    if known.kind != "adjust" or adjustment_id in {known.effect_id, *known.doubled}:
        return TagMeaning.OWN
    if known.effect_id is not None:
        return TagMeaning.DOUBLED
    if known.state in {State.SENDING, State.UNCERTAIN}:
        return TagMeaning.OPEN
    if known.state is State.APPLIED:
        return TagMeaning.LINKED
    return TagMeaning.LATE if known.attempts else TagMeaning.UNSENT
