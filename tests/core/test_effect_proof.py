"""What the stock history proves about an adjustment, and what it does not prove."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from backhaul.core.effect_proof import (
    EffectOwner,
    EffectState,
    Finding,
    Move,
    PlatformBehavior,
    SoughtAdjustment,
    find_adjustment,
)

OURS = Move("adj_1", "prod_1", "var_1", -2, "bh:a", "key_1")
WANTED = SoughtAdjustment("prod_1", "var_1", -2, "bh:a", "f1")
NAMED = {"f1": "key_1"}
BARE = replace(OURS, note=None)
UNKNOWN = PlatformBehavior()
KEEPS = PlatformBehavior(keeps_notes=True, key_ids=NAMED)
DROPS = PlatformBehavior(keeps_notes=False, key_ids=NAMED)
A, B, U = EffectState.APPLIED, EffectState.ABSENT, EffectState.UNDECIDABLE

CASES: list[
    tuple[str, SoughtAdjustment, list[Move], set[str], PlatformBehavior, EffectState]
] = [
    ("nothing there", WANTED, [], set(), UNKNOWN, B),
    ("our tag", WANTED, [OURS], set(), UNKNOWN, A),
    (
        "our tag, whatever the rest says",
        WANTED,
        [replace(OURS, delta=-3)],
        set(),
        DROPS,
        A,
    ),
    ("tags are kept, ours is not there", WANTED, [BARE], set(), KEEPS, B),
    ("tags are dropped, one row by our key", WANTED, [BARE], set(), DROPS, A),
    ("it belongs to another command", WANTED, [BARE], {"adj_1"}, DROPS, B),
    ("it bears another tag", WANTED, [replace(OURS, note="bh:b")], set(), DROPS, B),
    (
        "a key of ours made it whose name is not known",
        replace(WANTED, key_fingerprint="f2"),
        [replace(BARE, source_id="key_2")],
        set(),
        DROPS,
        U,
    ),
    (
        "a sale looks like it, and our key's name is not known",
        WANTED,
        [replace(BARE, source_id=None, order_id="ord_1")],
        set(),
        UNKNOWN,
        B,
    ),
    (
        "a sale looks like the one row by our key",
        WANTED,
        [BARE, replace(BARE, adjustment_id="adj_2", order_id="ord_1")],
        set(),
        DROPS,
        A,
    ),
    (
        "which key sent it is forgotten",
        replace(WANTED, key_fingerprint=None),
        [BARE],
        set(),
        DROPS,
        A,
    ),
    (
        "another key made it",
        WANTED,
        [replace(BARE, source_id="key_2")],
        set(),
        DROPS,
        B,
    ),
    (
        "nobody knows who made it",
        WANTED,
        [replace(BARE, source_id=None)],
        set(),
        DROPS,
        U,
    ),
    ("our key has no name yet", WANTED, [BARE], set(), UNKNOWN, U),
    (
        "two rows by our key",
        WANTED,
        [BARE, replace(BARE, adjustment_id="adj_2")],
        set(),
        DROPS,
        U,
    ),
    ("another amount", WANTED, [replace(BARE, delta=-3)], set(), DROPS, B),
    ("another variant", WANTED, [replace(BARE, variant_id="var_2")], set(), DROPS, B),
    ("another product", WANTED, [replace(BARE, product_id="prod_2")], set(), DROPS, B),
    (
        "every variant, by one adjustment",
        replace(WANTED, variant_id=None),
        [BARE, replace(BARE, variant_id="var_2")],
        set(),
        DROPS,
        A,
    ),
    (
        "sent without a tag, tags are kept",
        replace(WANTED, tag=None),
        [BARE],
        set(),
        KEEPS,
        A,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_finding(
    case: tuple[
        str, SoughtAdjustment, list[Move], set[str], PlatformBehavior, EffectState
    ],
) -> None:
    _, wanted, moves, linked, habits, found = case
    assert find_adjustment(wanted, moves, linked, habits).found is found


def test_a_tag_that_was_applied_twice_names_both() -> None:
    twice = [OURS, replace(OURS, adjustment_id="adj_2")]
    finding = find_adjustment(WANTED, twice, set(), KEEPS)
    reason = "the stock history shows our reference tag"
    assert finding == Finding(EffectState.APPLIED, reason, ("adj_1", "adj_2"))


LEARNT = [
    ("a note that came back", OURS, "bh:a", PlatformBehavior(True, NAMED)),
    ("a note that was dropped", BARE, "bh:a", PlatformBehavior(False, NAMED)),
    ("sent without a note", BARE, None, PlatformBehavior(None, NAMED)),
    ("no source", replace(OURS, source_id=None), "bh:a", PlatformBehavior(True)),
]


@pytest.mark.parametrize(("name", "move", "sent", "habits"), LEARNT)
def test_platform_behavior_is_learnt_from_our_own_adjustments(
    name: str, move: Move, sent: str | None, habits: PlatformBehavior
) -> None:
    assert (
        PlatformBehavior().learn([move], {"adj_1": EffectOwner("a", sent, "f1")})
        == habits
    ), name


def test_nothing_is_learnt_from_foreign_adjustments() -> None:
    assert PlatformBehavior().learn([OURS], {}) == PlatformBehavior()
    assert KEEPS.learn([], {}) == KEEPS
