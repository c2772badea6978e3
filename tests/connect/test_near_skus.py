"""SKUs that look like a SKU of the store are matched or suggested."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.core.sku_matching import difference, near_text, same_text
from backhaul_sdk import Fulfillment, Line, StockLevel
from scenes import payloads
from scenes.back_office import ScriptedConnector, host_of
from scenes.databases import append_and_fold
from scenes.payloads import envelope
from scenes.stored import value_of

if TYPE_CHECKING:
    from backhaul.store import Store
    from scenes.clock import VirtualClock

CASE = Path(__file__).parents[1] / "connectors" / "cases" / "11-stock-levels-nfd.csv"
ALPHA, BETA, GAMMA = "\u0391\u0392\u0393"
GTIN = "036000291452"
NFD = CASE.read_text("utf-8").splitlines()[1].split(",")[0]


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


async def level_of(store: Store, clock: VirtualClock, sku: str) -> str:
    """Submit a stock count of the article; return its state and its match."""
    level = StockLevel(key=f"k{sku}", sku=sku, quantity=7, as_of=payloads.instant(0))
    receipt = await host_of(ScriptedConnector("desk"), store, clock=clock).emit(level)
    if receipt.state != "accepted":
        return receipt.what
    payload = value_of(store.place, "commands_and_targets", "payload")
    return str(json.loads(payload)["variant_id"])


async def sells(store: Store, *skus: str) -> None:
    variants = [payloads.variant(f"v{n}", sku=sku) for n, sku in enumerate(skus)]
    product = payloads.product("prod_9", variants=variants)
    await append_and_fold(store, envelope("products/create", product))


@pytest.mark.parametrize(
    ("named", "sold"),
    [
        (NFD, nfc(NFD)),
        (nfc(NFD), NFD),
        ("LEAD", "  LEAD"),
        ("LEAD", "\xa0LEAD "),
        ("LEAD", "LE\u200bAD\ufeff"),
        ("42", "42.0"),
        ("A B", " A B "),
        ("0036000291452", "036000291452"),
        ("00036000291452", "036000291452"),
        ("036000291452", "00036000291452"),
        ("00000096385074", "96385074"),
        ("0036000291452.0", "036000291452"),
        ("42.0", "42"),
    ],
)
async def test_skus_that_look_the_same_are_matched(
    store: Store, clock: VirtualClock, named: str, sold: str
) -> None:
    await sells(store, "OTHER", sold)
    assert await level_of(store, clock, named) == "v1"


@pytest.mark.parametrize(
    ("named", "sold", "said"),
    [
        ("SKU CASE", "sku case", "'sku case' differs only in case"),
        ("x y", "x\xa0y", r"'x\xa0y' differs only in blanks"),
        ("xy", "x y", "'x y' differs only in blanks"),
        ("42", "0042", "'0042' differs only in leading zeros"),
        ("0042", "42", "'42' differs only in leading zeros"),
        ("A42", "\uff2142", r"'\uff2142' differs only in how letters are written"),
        ("ab 1", "A B1", "'A B1' differs only in case and blanks"),
        (
            f"AB{GAMMA}",
            f"{ALPHA}{BETA}{GAMMA}",
            f"'{ALPHA}{BETA}{GAMMA}' differs only in the alphabet (GREEK CAPITAL "
            "LETTER ALPHA in the store, LATIN CAPITAL LETTER A here)",
        ),
        (
            "LS-\u0425L",
            "LS-XL",
            "'LS-XL' differs only in the alphabet (LATIN CAPITAL LETTER X in the "
            "store, CYRILLIC CAPITAL LETTER HA here)",
        ),
        (
            "00l\u0455-1",
            "LS- 1",
            "'LS- 1' differs only in the alphabet (LATIN CAPITAL LETTER S in the "
            "store, CYRILLIC SMALL LETTER DZE here) and case and blanks and leading "
            "zeros",
        ),
    ],
)
async def test_skus_that_only_look_alike_are_named(
    store: Store, clock: VirtualClock, named: str, sold: str, said: str
) -> None:
    await sells(store, "OTHER", sold)
    matched = await level_of(store, clock, named)
    assert f"SKU {named!r} is not known; the store's SKU {said}." in matched


async def test_the_exact_article_goes_before_what_looks_the_same(
    store: Store, clock: VirtualClock
) -> None:
    await sells(store, " LEAD", "LEAD", "lead")
    assert await level_of(store, clock, "LEAD") == "v1"


async def test_two_skus_that_look_the_same_are_ambiguous(
    store: Store, clock: VirtualClock
) -> None:
    await sells(store, " LEAD", "LEAD ")
    assert "could be any of the variants v0, v1" in await level_of(store, clock, "LEAD")


@pytest.mark.parametrize(
    ("named", "variant"),
    [
        *(("10", "v0"), ("10.0", "v1"), ("0036000291452", "v2")),
        *(("036000291452", "v3"), (f"AB{GAMMA}", "v4"), (f"{ALPHA}B{GAMMA}", "v5")),
    ],
)
async def test_the_exact_one_of_articles_that_are_alike_is_used(
    store: Store, clock: VirtualClock, named: str, variant: str
) -> None:
    numbers = ("0036000291452", "036000291452")
    await sells(store, "10", "10.0", *numbers, f"AB{GAMMA}", f"{ALPHA}B{GAMMA}")
    assert await level_of(store, clock, named) == variant


@pytest.mark.parametrize(
    ("named", "sold"),
    [
        ("00036000291452", ("0036000291452", "036000291452")),
        ("10.00", ("10", "10.0")),
    ],
)
async def test_a_name_between_two_spellings_is_quarantined(
    store: Store, clock: VirtualClock, named: str, sold: tuple[str, str]
) -> None:
    await sells(store, *sold)
    matched = await level_of(store, clock, named)
    assert "could be any of the variants v" in matched


async def test_a_sku_that_no_variant_has_any_more_is_not_named(
    store: Store, clock: VirtualClock
) -> None:
    await sells(store, "old")
    renamed = payloads.product("prod_9", 1, variants=[payloads.variant("v0", sku="N")])
    await append_and_fold(store, envelope("products/update", renamed))
    assert "the store's SKU" not in await level_of(store, clock, "OLD")


async def test_an_order_line_that_looks_the_same_is_found(
    store: Store, clock: VirtualClock
) -> None:
    item = payloads.item(sku=nfc(NFD), quantity=2, variantId=None, productId=None)
    order = payloads.order(items=[item], fulfillmentStatus="UNFULFILLED")
    await append_and_fold(store, envelope("orders/create", order))
    line = Line(sku=NFD, quantity=1)
    shipped = Fulfillment(key="f", order="1001", lines=(line,))
    assert (
        await host_of(ScriptedConnector("desk"), store, clock=clock).emit(shipped)
    ).state == ("accepted")


async def shipped(store: Store, clock: VirtualClock, sku: str) -> str:
    """Ship one unit of order 1001; return its line, or the reason for none."""
    record = Fulfillment(key=sku, order="1001", lines=(Line(sku=sku, quantity=1),))
    receipt = await host_of(ScriptedConnector("desk"), store, clock=clock).emit(record)
    if receipt.state != "accepted":
        return receipt.what
    payload = value_of(store.place, "commands_and_targets", "payload")
    return str(json.loads(payload)["lines"][0]["line_id"])


@pytest.mark.parametrize(
    ("named", "sold"),
    [("0036000291452", "036000291452"), ("10.0", "10"), ("10", "10.0")],
)
async def test_an_order_line_of_the_same_number_is_found(
    store: Store, clock: VirtualClock, named: str, sold: str
) -> None:
    item = payloads.item("li_1", sku=sold, variantId=None, productId=None)
    await append_and_fold(
        store, envelope("orders/create", payloads.order(items=[item]))
    )
    assert await shipped(store, clock, named) == "li_1"


@pytest.mark.parametrize(
    ("named", "sold"), [("10.0", "10"), ("10", "10.0"), ("0036000291452", GTIN)]
)
@pytest.mark.parametrize("variant", ["v1", None])
async def test_the_store_s_other_article_is_not_shipped(
    store: Store, clock: VirtualClock, named: str, sold: str, variant: str | None
) -> None:
    await sells(store, named, sold)
    item = payloads.item("li_1", sku=sold, variantId=variant, productId="prod_9")
    await append_and_fold(
        store, envelope("orders/create", payloads.order(items=[item]))
    )
    assert f"no line with SKU {named!r}" in await shipped(store, clock, named)


@given(st.text(max_size=12))
def test_comparing_is_stable(text: str) -> None:
    assert same_text(same_text(text)) == same_text(text)
    assert near_text(f" {unicodedata.normalize('NFD', text)}\u200b ") == near_text(text)


@given(st.from_regex(r"[1-9A-Za-z]{1,5}", fullmatch=True))
def test_the_difference_is_named(text: str) -> None:
    assert difference(text, f"00{text}") == "leading zeros"
    assert difference(f"x{text}y", f"x {text}y") == "blanks"
    assert difference(f"{text}x", f"{text}X") == "case"
