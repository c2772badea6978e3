"""The filter language: what a text selects, and what is said about a wrong one."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.store.filters import (
    COMMANDS,
    DELIVERIES,
    EVENTS,
    FIELDS,
    LONGEST_FILTER,
    QUARANTINE,
    STOCK,
    Allowed,
    Filter,
    FilterError,
    parse_filter,
    terms_of,
    value_of,
    with_term,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def parse(text: str) -> Filter:
    return parse_filter(text, QUARANTINE, NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Filter()),
        ("  ", Filter()),
        ("state=open", Filter(state="open")),
        ('subject=""', Filter(subject="")),
        ("id=3,4,3", Filter(ids=(3, 4))),
        ("reason=unknown_sku since=1h", None),
        ('sku="LAMP 2"', Filter(sku="LAMP 2")),
        (r'sku="a \"b\" \\"', Filter(sku=r'a "b" \\'.replace(r"\\", "\\"))),
        ("sku=a=b", Filter(sku="a=b")),
        ("order=#1001", Filter(order="#1001")),
        ("blue lamp", Filter(words=("blue", "lamp"))),
        ('"blue lamp"  DHL', Filter(words=("blue lamp", "DHL"))),
        ('"a=b"', Filter(words=("a=b",))),
        ("since=2026-02-01", Filter(since="2026-02-01T00:00:00.000Z")),
        ("until=2026-02-01T10:00+02:00", Filter(until="2026-02-01T08:00:00.000Z")),
        ("since=30m", Filter(since="2026-03-01T11:30:00.000Z")),
        ("since=30min", Filter(since="2026-03-01T11:30:00.000Z")),
        ("since=2d", Filter(since="2026-02-27T12:00:00.000Z")),
        ("since=1w", Filter(since="2026-02-22T12:00:00.000Z")),
    ],
)
def test_a_text_is_a_filter(text: str, expected: Filter | None) -> None:
    if expected is None:
        expected = Filter(reason="unknown_sku", since="2026-03-01T11:00:00.000Z")
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "ordr=1",
            ["no field 'ordr'", "character 1", "mean order?", "id, state, kind"],
        ),
        ("x 12=1", ["no field '12'", "at character 3"]),
        ("state=opn", ["'opn'", "did you mean open?", "open, retried, dropped, any"]),
        ("reason=unknown_skus", ["did you mean unknown_sku?", "needs_decision"]),
        ("since=yesterday", ["'yesterday'", "30m, 1h, 2d or 1w", "2026-03-01"]),
        ("since=999999w", ["'999999w'", "30m"]),
        ("since=1x", ["'1x'"]),
        ("id=three", ["'three'", "id=3,4"]),
        ("id=" + "9" * 19, ["id cannot be"]),
        ("sku=", ["sku, at character 1", "write sku=VALUE"]),
        ('sku=""', ["has no value"]),
        ('sku="LAMP 2', ["quotation mark", "character 1", 'sku="LAMP 2"']),
        ('a"b', ["quotation mark"]),
        ("=1", ["'=1'", "FIELD=VALUE"]),
        ("sku=A sku=B", ["sku is given twice", "character 7"]),
        ("x" * (LONGEST_FILTER + 1), ["at most 20,000 characters"]),
    ],
)
def test_a_wrong_text_is_explained(text: str, parts: list[str]) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    for part in parts:
        assert part in str(caught.value)


def test_a_list_accepts_only_its_own_fields() -> None:
    with pytest.raises(FilterError, match=r"the fields are state$"):
        parse_filter("sku=A", {"state": ()}, NOW)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("store", "connector", "order", "sku", "subject"), TEXTS),
            "state": st.sampled_from(QUARANTINE["state"]),
            "reason": st.sampled_from(QUARANTINE["reason"]),
            "kind": st.sampled_from(QUARANTINE["kind"]),
            "since": st.just("2026-02-01T00:00:00.000Z"),
            "ids": st.lists(st.integers(0, 10**17), unique=True, max_size=9).map(tuple),
            "words": st.lists(TEXTS, max_size=3).map(tuple),
        },
    )
)
def test_a_filter_is_the_filter_of_its_own_text(members: dict[str, object]) -> None:
    wanted = Filter(**members)  # type: ignore[arg-type]
    assert parse(wanted.in_words()) == wanted


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("", "open", "state=open"),
        ("state=open", "dropped", "state=dropped"),
        ("state=open", None, ""),
        ('since=1h  state=open "blue lamp"', "any", 'since=1h "blue lamp" state=any'),
        ('sku="a state=open"', None, 'sku="a state=open"'),
    ],
)
def test_a_single_term_is_replaced(text: str, value: str | None, expected: str) -> None:
    assert with_term(text, "state", value) == expected


def test_every_field_can_be_written() -> None:
    written = {*QUARANTINE, *COMMANDS, *EVENTS, *DELIVERIES, *STOCK}
    assert written == {*FIELDS, "id"}


@pytest.mark.parametrize(
    ("allowed", "text", "expected"),
    [
        (COMMANDS, "id=3f2a,77", Filter(keys=("3f2a", "77"))),
        (COMMANDS, "state=parked kind=target", Filter(state="parked", kind="target")),
        (COMMANDS, "reason=timeout", Filter(reason="timeout")),
        (EVENTS, "topic=orders/create", Filter(topic="orders/create")),
        (EVENTS, "id=3 object=ord_1", Filter(ids=(3,), object="ord_1")),
        (STOCK, "below=-1 state=held", Filter(below="-1", state="held")),
        (DELIVERIES, "kind=stock state=parked", Filter(kind="stock", state="parked")),
    ],
)
def test_each_list_has_its_own_fields(
    allowed: Allowed, text: str, expected: Filter
) -> None:
    found = parse_filter(text, allowed, NOW)
    assert found == expected
    assert parse_filter(found.in_words(), allowed, NOW) == expected


@pytest.mark.parametrize(
    ("allowed", "text", "part"),
    [
        (COMMANDS, "id=zz", "ids of commands"),
        (COMMANDS, "state=park", "did you mean parked?"),
        (EVENTS, "sku=A", "no field 'sku'"),
        (EVENTS, "state=unhandeld", "did you mean unhandled?"),
        (DELIVERIES, "conector=a", "did you mean connector?"),
    ],
)
def test_a_wrong_term_of_a_list_is_explained(
    allowed: Allowed, text: str, part: str
) -> None:
    with pytest.raises(FilterError, match=re.escape(part)):
        parse_filter(text, allowed, NOW)


def test_the_terms_of_a_text_can_be_removed_one_by_one() -> None:
    text = 'since=1h  sku="LAMP 2" blue'
    assert terms_of(text) == [
        ("since=1h", 'sku="LAMP 2" blue'),
        ('sku="LAMP 2"', "since=1h blue"),
        ("blue", 'since=1h sku="LAMP 2"'),
    ]
    assert (value_of(text, "sku"), value_of(text, "state")) == ("LAMP 2", None)
