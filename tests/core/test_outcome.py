"""Which outcome each error response of the platform proves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.core.outcome import Outcome, classify_refusal, code_of, describe

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = ("fulfill", "cancel", "adjust")
PLAIN: dict[str, Any] = {"error": "no"}

WHATEVER_THE_BODY = [
    *[(status, Outcome.UNCERTAIN) for status in (408, 500, 501, 502, 503, 504, 599)],
    *[(status, Outcome.STOPPED) for status in (301, 302, 303, 304, 307, 308, 399)],
    *[(status, Outcome.STOPPED) for status in (401, 403)],
    (429, Outcome.THROTTLED),
    *[(status, Outcome.UNCERTAIN) for status in (402, 406, 411, 412, 414, 423, 425)],
    *[(status, Outcome.UNCERTAIN) for status in (100, 199, 418, 431, 451, 600, 999)],
]
"""Rows that do not depend on the sender; "anything else" is the last two lines."""

BY_THE_BODY = [
    *[(status, Outcome.REJECTED) for status in (400, 405, 410, 413, 415, 422)],
    (404, Outcome.CHECK_ABSENT),
    (409, Outcome.CHECK_EFFECT),
]
"""Responses with the platform's JSON; without it a proxy answered."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("problem", [None, PLAIN, {"code": "X"}, {}], ids=str)
@pytest.mark.parametrize(("status", "outcome"), WHATEVER_THE_BODY, ids=str)
def test_status_decides_alone(
    kind: str, problem: dict[str, Any] | None, status: int, outcome: Outcome
) -> None:
    assert classify_refusal(kind, status, problem).outcome is outcome


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("problem", [PLAIN, {"code": "X"}, {}], ids=str)
@pytest.mark.parametrize(("status", "outcome"), BY_THE_BODY, ids=str)
def test_refusal_in_the_platforms_own_words(
    kind: str, problem: dict[str, Any], status: int, outcome: Outcome
) -> None:
    assert classify_refusal(kind, status, problem).outcome is outcome


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("status", "_"), BY_THE_BODY, ids=str)
def test_refusal_without_json_stops_the_store(
    kind: str, status: int, _: Outcome
) -> None:
    verdict = classify_refusal(kind, status, None)
    assert verdict.outcome is Outcome.STOPPED
    assert not verdict.only_kind
    assert "is something in between?" in verdict.reason


NAMED = [
    (409, "ORDER_AWAITING_CONFIRMATION", Outcome.HELD),
    (409, "STOCK_CHANGED", Outcome.PARKED),
    (409, "INSUFFICIENT_STOCK", Outcome.PARKED),
    (409, "IDEMPOTENCY_IN_PROGRESS", Outcome.UNCERTAIN),
    (422, "IDEMPOTENCY_KEY_REUSED", Outcome.UNCERTAIN),
    (409, "ORDER_ALREADY_FULFILLED", Outcome.CHECK_EFFECT),
    (409, "ORDER_ALREADY_CANCELLED", Outcome.CHECK_EFFECT),
    (409, "QUANTITY_NOT_FULFILLABLE", Outcome.CHECK_EFFECT),
    (422, "IDEMPOTENCY_IN_PROGRESS", Outcome.REJECTED),
    (422, "STOCK_CHANGED", Outcome.REJECTED),
    (403, "INSUFFICIENT_SCOPE", Outcome.STOPPED),
]
SHAPES: dict[str, Callable[[str], dict[str, Any]]] = {
    "problem+json": lambda code: {"code": code, "detail": "no"},
    "nested": lambda code: {"error": {"code": code, "message": "no"}},
    "lower-case": lambda code: {"code": code.lower()},
    "nested-lower": lambda code: {"error": {"code": code.lower()}},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("status", "code", "outcome"), NAMED, ids=str)
def test_code_is_read_in_every_shape(
    shape: str, status: int, code: str, outcome: Outcome
) -> None:
    verdict = classify_refusal("adjust", status, SHAPES[shape](code))
    assert verdict.outcome is outcome
    assert verdict.reason.startswith(f"{status} {code}")


@pytest.mark.parametrize(
    ("status", "problem", "only_kind"),
    [
        (403, {"code": "INSUFFICIENT_SCOPE"}, True),
        (403, {"code": "STORE_INACTIVE"}, False),
        (403, PLAIN, False),
        (403, None, False),
        (401, {"code": "INSUFFICIENT_SCOPE"}, False),
        (301, {"code": "INSUFFICIENT_SCOPE"}, False),
    ],
    ids=str,
)
def test_only_a_missing_scope_stops_one_kind_alone(
    status: int, problem: dict[str, Any] | None, only_kind: bool
) -> None:
    assert classify_refusal("cancel", status, problem).only_kind is only_kind


def pointing(*pointers: str) -> dict[str, Any]:
    return {"code": "V", "errors": [{"pointer": p, "detail": "no"} for p in pointers]}


EXPECTED = "expectedStock"
MEMBERS = [
    ("adjust", 422, pointing("/note"), Outcome.WITHOUT_MEMBER, "note"),
    ("adjust", 400, pointing("/note"), Outcome.WITHOUT_MEMBER, "note"),
    ("cancel", 422, pointing("/note"), Outcome.WITHOUT_MEMBER, "note"),
    ("cancel", 422, pointing("/reason"), Outcome.WITHOUT_MEMBER, "reason"),
    ("adjust", 422, {"error": "unknown: note"}, Outcome.WITHOUT_MEMBER, "note"),
    ("adjust", 422, {"error": {"message": "note?"}}, Outcome.WITHOUT_MEMBER, "note"),
    ("adjust", 422, {"message": "note not known"}, Outcome.WITHOUT_MEMBER, "note"),
    ("fulfill", 422, pointing("/note"), Outcome.REJECTED, None),
    ("adjust", 422, pointing("/reason"), Outcome.REJECTED, None),
    ("adjust", 422, pointing("/productId"), Outcome.REJECTED, None),
    ("cancel", 422, pointing("/restock"), Outcome.REJECTED, None),
    ("adjust", 422, {"error": "footnotes are odd"}, Outcome.REJECTED, None),
    ("adjust", 413, pointing("/note"), Outcome.REJECTED, None),
    *[
        ("adjust", 422, {"error": words}, Outcome.WITHOUT_MEMBER, "note")
        for words in (
            "note",
            "note: unknown",
            "note is not allowed",
            "unknown field note",
            "Unknown member: note",
            "unexpected members productNo, note",
            'the member "note" is too much',
            "'note' was unexpected",
            "`note` what?",
            "\u201cnote\u201d is new here",
            "/note is not a member of this request",
            "body.note: extra inputs are not permitted",
        )
    ],
    ("adjust", 422, {"error": "no expectedStock"}, Outcome.WITHOUT_MEMBER, EXPECTED),
    *[
        (kind, 422, {"error": words}, Outcome.REJECTED, None)
        for kind, words in (
            ("adjust", "Please note that this product is archived"),
            ("adjust", "Please note: this product is archived"),
            ("adjust", "Take note, nothing was changed"),
            ("adjust", "note that this product is archived"),
            ("cancel", "For that reason it cannot be cancelled"),
            ("cancel", "The reason is known to the merchant"),
            ("cancel", "no reason for unknown orders"),
        )
    ],
    ("adjust", 422, pointing("/variantId"), Outcome.PARKED, None),
    ("adjust", 400, {"error": "variantId is not known"}, Outcome.PARKED, None),
    ("adjust", 422, pointing("/note", "/variantId"), Outcome.WITHOUT_MEMBER, "note"),
]


@pytest.mark.parametrize(
    ("kind", "status", "problem", "outcome", "member"), MEMBERS, ids=str
)
def test_members_that_are_not_known_there(
    kind: str,
    status: int,
    problem: dict[str, Any],
    outcome: Outcome,
    member: str | None,
) -> None:
    verdict = classify_refusal(kind, status, problem)
    assert (verdict.outcome, verdict.member) == (outcome, member)


def test_pointers_count_for_more_than_words() -> None:
    problem = pointing("/adjustment") | {"detail": "see the note in the manual"}
    assert classify_refusal("adjust", 422, problem).outcome is Outcome.REJECTED


def test_throttling_keeps_the_wait() -> None:
    assert classify_refusal("adjust", 429, None, 7.0).retry_after_seconds == 7.0


LEAF = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
NAMES = st.sampled_from(["code", "error", "errors", "detail", "pointer", "message"])
ROWS = st.lists(LEAF | st.dictionaries(NAMES, LEAF, max_size=3), max_size=3)
NESTED = st.dictionaries(NAMES, LEAF | ROWS, max_size=3)
PROBLEMS = st.none() | st.dictionaries(NAMES, LEAF | ROWS | NESTED, max_size=4)
"""The deepest structure that is read: a list of errors inside an error."""
CAN_BE_SENT_AGAIN = {
    Outcome.THROTTLED: {429},
    Outcome.HELD: {409},
    Outcome.WITHOUT_MEMBER: {400, 422},
    Outcome.STOPPED: {301, 400, 401, 403, 404, 405, 409, 410, 413, 415, 422},
}


@given(
    kind=st.sampled_from(KINDS),
    status=st.sampled_from([301, 408, *range(400, 430), *range(500, 512)]),
    problem=PROBLEMS,
)
def test_no_body_makes_an_ambiguous_status_certain(
    kind: str, status: int, problem: dict[str, Any] | None
) -> None:
    outcome = classify_refusal(kind, status, problem).outcome
    assert outcome not in {Outcome.CONFIRMED, Outcome.NEVER_SENT}
    if status == 408 or status >= 500:
        assert outcome is Outcome.UNCERTAIN
    assert status in CAN_BE_SENT_AGAIN.get(outcome, {status})


@given(problem=PROBLEMS)
def test_any_problem_can_be_described_in_one_short_text(
    problem: dict[str, Any] | None,
) -> None:
    assert len(describe(problem)) <= 500
    assert code_of(problem) == code_of(problem).upper()


def test_description_holds_code_detail_and_members() -> None:
    said = describe(
        {
            "code": "validation_error",
            "detail": "2 members are not valid",
            "errors": [{"pointer": "/items/0/quantity", "detail": "too small"}, 7],
        }
    )
    assert said == (
        "VALIDATION_ERROR: 2 members are not valid: /items/0/quantity too small"
    )


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        ({"error": "insufficient_scope"}, "INSUFFICIENT_SCOPE"),
        ({"error": "ORDER_AWAITING_CONFIRMATION"}, "ORDER_AWAITING_CONFIRMATION"),
        ({"error": "no"}, ""),
        ({"error": "stock changed_meanwhile"}, ""),
        ({"code": "X"}, "X"),
        ({"code": 7}, ""),
    ],
    ids=str,
)
def test_a_plain_error_may_be_a_code(problem: dict[str, Any], code: str) -> None:
    assert code_of(problem) == code


def test_a_plain_code_is_judged_as_a_code() -> None:
    held = classify_refusal("fulfill", 409, {"error": "ORDER_AWAITING_CONFIRMATION"})
    assert held.outcome is Outcome.HELD
    assert classify_refusal("adjust", 403, {"error": "insufficient_scope"}).only_kind


def test_a_missing_scope_is_named() -> None:
    text = {"code": "INSUFFICIENT_SCOPE", "requiredScopes": ["inventory:write"]}
    assert describe(text) == "INSUFFICIENT_SCOPE: needs inventory:write"
