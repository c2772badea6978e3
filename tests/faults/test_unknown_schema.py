"""A platform with unknown fields and values: only unreadable events are quarantined."""

from __future__ import annotations

import json
import os
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenes import payloads
from scenes.databases import append_and_fold, started_store
from scenes.stored import rows_of, values_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scenes.payloads import Document

LONG = os.environ.get("FAULTS") == "long"
BATCH = 25
EXAMPLES = 400 if LONG else 20
"""Of `BATCH` cases each: 10,000 cases in the long form, 500 in the short one."""
_NUMBERS = count(1)

SAMPLES: dict[str, Callable[[str], Document]] = {
    "orders/create": payloads.order,
    "orders/updated": lambda id_: payloads.order(id_, changes={"status": {}}),
    "orders/fulfilled": lambda id_: payloads.order(id_, shipment=payloads.shipment()),
    "orders/cancelled": lambda id_: payloads.order(id_, trigger="CANCEL"),
    "products/create": lambda id_: payloads.product(id_, variants=[]),
    "products/update": lambda id_: payloads.product(
        id_, variants=[payloads.variant(f"var_of_{id_}")]
    ),
    "products/delete": payloads.deletion,
    "inventory/level_update": lambda id_: payloads.stock_change(
        productId=id_, adjustment_id=f"adj_{id_}"
    ),
    "customers/create": payloads.customer,
}
OURS = {
    "inventory/level_update": ("levels", "updatedAt", "productId"),
    "products/delete": ("id", "deletedAt"),
    "orders/create": ("id", "updatedAt", "items", "status", "financialStatus"),
    "products/update": ("id", "updatedAt", "variants"),
    "customers/create": ("id", "updatedAt"),
}
"""Members without which an event cannot be used."""
WRONG: st.SearchStrategy[object] = st.sampled_from([None, True, {"a": 1}, [[]], [None]])
"""Values that are wrong for all these members; a number may be an id or a time."""
NULLABLE = {
    "orders/create": ("number", "name", "externalId", "customer", "cancellation"),
    "products/update": ("handle", "externalId"),
    "customers/create": ("name", "email", "phone"),
}
STATUSES = ("status", "financialStatus", "fulfillmentStatus")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
    ),
    max_leaves=6,
)
NEW_MEMBERS = st.dictionaries(
    TEXT.map(lambda name: f"new{name}"), ANYTHING, min_size=1, max_size=3
)

Case = tuple[str, bytes]
"""The expected state of a delivery, and the delivery."""


@st.composite
def enlarged(draw: st.DrawFn) -> Case:
    """Add new members, at the top and nested, which must be kept."""
    topic = draw(st.sampled_from(sorted(SAMPLES)))
    document = SAMPLES[topic](f"x_{next(_NUMBERS)}") | draw(NEW_MEMBERS)
    for name in ("items", "variants", "levels"):
        for row in document.get(name, ()):
            row.update(draw(NEW_MEMBERS))
    return "folded", payloads.envelope(topic, document)


@st.composite
def broken(draw: st.DrawFn) -> Case:
    """Remove a required member, or change its type."""
    topic = draw(st.sampled_from(sorted(OURS)))
    name = draw(st.sampled_from(OURS[topic]))
    document = SAMPLES[topic](f"x_{next(_NUMBERS)}")
    if draw(st.booleans()):
        del document[name]
    else:
        document[name] = draw(WRONG)
    # a product may have no variants: missing or null
    optional = topic == "products/update" and name == "variants"
    is_absent = document.get(name) is None
    state = "folded" if optional and is_absent else "quarantined"
    return state, payloads.envelope(topic, document)


@st.composite
def emptied(draw: st.DrawFn) -> Case:
    """Set optional members to null, or remove them."""
    topic = draw(st.sampled_from(sorted(NULLABLE)))
    document = SAMPLES[topic](f"x_{next(_NUMBERS)}")
    for name in draw(st.sets(st.sampled_from(NULLABLE[topic]), min_size=1)):
        document[name] = None
        if draw(st.booleans()):
            del document[name]
    return "folded", payloads.envelope(topic, document)


@st.composite
def worded(draw: st.DrawFn) -> Case:
    """Set new statuses: any word is valid."""
    document = SAMPLES["orders/create"](f"x_{next(_NUMBERS)}")
    for name in draw(st.sets(st.sampled_from(STATUSES), min_size=1)):
        # a blank status is no word, and is ignored
        document[name] = draw(TEXT.filter(str.strip))
    return "folded", payloads.envelope("orders/create", document)


@st.composite
def unknown(draw: st.DrawFn) -> Case:
    """Set a new topic."""
    topic = draw(TEXT.filter(lambda text: text not in SAMPLES))
    return "unhandled", payloads.envelope(topic, draw(NEW_MEMBERS))


CASES = st.one_of(enlarged(), broken(), emptied(), worded(), unknown())


async def check(folder: Path, cases: list[Case]) -> None:
    async with started_store(folder / "b.db") as store:
        await append_and_fold(store, *(body for _, body in cases))
    assert rows_of(folder / "b.db", "events", "state", "body") == cases
    assert values_of(folder / "b.db", "quarantine", "raw") == [
        body for state, body in cases if state == "quarantined"
    ]
    _check_documents(folder / "b.db", cases)


def _check_documents(database: Path, cases: list[Case]) -> None:
    found = [
        row
        for table in ("orders", "customers")
        for row in rows_of(database, table, "id", "document")
    ]
    documents = {id_: json.loads(text) for id_, text in found}
    for state, body in cases:
        data = json.loads(body).get("data", {})
        if state == "folded" and data.get("id") in documents:
            told = {name: data[name] for name in data if name.startswith("new")}
            assert told.items() <= documents[data["id"]].items()


@pytest.mark.faults
@pytest.mark.timeout(3_600 if LONG else 600)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
@given(cases=st.lists(CASES, min_size=BATCH, max_size=BATCH))
async def test_only_input_that_cannot_be_understood_is_quarantined(
    cases: list[Case], tmp_path_factory: pytest.TempPathFactory
) -> None:
    await check(tmp_path_factory.mktemp("schema"), cases)
