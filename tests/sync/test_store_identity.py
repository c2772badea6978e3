"""The first contact with a store is strict; later starts continue with known facts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from backhaul.errors import (
    ConfigurationError,
    CorruptData,
    Fatal,
    OtherStore,
    PlatformUnavailable,
)
from backhaul.platform.client import LISTS, PlatformClient, StoreFacts
from backhaul.platform.transport import Limits, NotSent, Transport
from backhaul.sync.store_identity import StoreIdentity, learn_facts
from scenes.damaged_rows import overwrite_text
from scenes.databases import locked
from scenes.scripted_platform import document, message, problem, unused_url

if TYPE_CHECKING:
    from sync.conftest import Place

KNOWN = StoreFacts("sto_1", "JPY")
DATABASE = Path("backhaul.db")
STORE = document({"data": {"id": "sto_1", "currency": "JPY"}})
HTML = message(200, b"<html>", "text/html")


async def meet(place: Place) -> StoreFacts:
    return await learn_facts(
        "main", place.server.url, place.client, place.store.kv, str(DATABASE)
    )


def everywhere(place: Place, answer: bytes) -> None:
    for path in (*LISTS, "/store"):
        place.platform.respond(path, answer)


async def test_platform_is_known_by_its_facts(place: Place) -> None:
    place.platform.respond("/store", STORE)
    assert await meet(place) == KNOWN


@pytest.mark.parametrize("begins", [b"[", b"\xff{"], ids=["no-object", "no-text"])
async def test_a_damaged_identity_is_not_fetched_again(
    place: Place, begins: bytes
) -> None:
    """Another store might answer now, and replace the mirrored one."""
    place.platform.respond("/store", STORE)
    await meet(place)
    known = await place.store.kv.get("facts:main")
    assert known is not None
    raw = known.encode().replace(b"{", begins)
    overwrite_text(place.store.place, "kv", "value", raw, name="facts:main")
    with pytest.raises(
        CorruptData, match=r"store main cannot .* backhaul restore FILE"
    ):
        await meet(place)


async def test_a_platform_without_store_facts_is_accepted(place: Place) -> None:
    assert await meet(place) == StoreFacts()


async def test_the_names_of_today_replace_those_of_an_earlier_start(
    place: Place,
) -> None:
    place.platform.respond("/store", STORE)
    await meet(place)
    place.client.tracking = ("carrier", "awb")
    renamed = replace(KNOWN, tracking=("carrier", "awb"))
    assert await meet(place) == renamed
    place.platform.respond("/store", problem(404, "NOT_FOUND"))
    assert await meet(place) == renamed
    everywhere(place, problem(503, "AWAY"))
    place.client.tracking = ("courier", "code")
    assert await meet(place) == replace(KNOWN, tracking=("courier", "code"))


WRONG = {
    "html": (HTML, PlatformUnavailable, 69),
    "html-404": (message(404, b"<html>", "text/html"), PlatformUnavailable, 69),
    "html-500": (message(500, b"<html>", "text/html"), PlatformUnavailable, 69),
    "redirect": (message(301, Location="/login"), PlatformUnavailable, 69),
    "empty": (message(200), PlatformUnavailable, 69),
    "failing": (problem(500, "OOPS"), PlatformUnavailable, 69),
    "away": (problem(503, "AWAY"), PlatformUnavailable, 69),
    "401": (problem(401, "API_KEY_INVALID"), ConfigurationError, 78),
    "401-html": (message(401, b"<html>", "text/html"), ConfigurationError, 78),
}


@pytest.mark.parametrize("name", WRONG)
async def test_wrong_address_or_key_is_found_at_first_contact(
    name: str, place: Place
) -> None:
    answer, error, code = WRONG[name]
    everywhere(place, answer)
    with pytest.raises(Fatal) as failure:
        await meet(place)
    assert type(failure.value) is error
    assert failure.value.exit_code == code
    assert "\n" not in str(failure.value)
    assert re.search(r"stores\.main\.(base_url|api_key): ", str(failure.value))
    assert await place.store.kv.get("facts:main") is None


async def test_an_address_without_a_server_is_found_at_first_contact(
    place: Place,
) -> None:
    url = unused_url()
    limits = Limits(1.0, 1.0, 1_000)
    transport = Transport(url, "svc_live_never_shown_01", limits, place.clock)
    with pytest.raises(PlatformUnavailable) as failure:
        await learn_facts(
            "main", url, PlatformClient(transport), place.store.kv, str(DATABASE)
        )
    await transport.close()
    said = str(failure.value)
    assert said.startswith(
        f"stores.main.base_url: {url} cannot be reached: ConnectError"
    )
    assert said.endswith("where the connection fails, run: backhaul doctor")
    assert "\n" not in said
    assert "svc_live" not in said


@pytest.mark.parametrize("name", WRONG)
async def test_later_starts_continue_with_the_known_facts(
    name: str, place: Place
) -> None:
    place.platform.respond("/store", STORE)
    assert await meet(place) == KNOWN
    everywhere(place, WRONG[name][0])
    assert await meet(place) == KNOWN


FORGETFUL = {
    "no-store-endpoint": problem(404, "NOT_FOUND"),
    "scope-lost": problem(403, "INSUFFICIENT_SCOPE"),
    "failing": message(500, b"<html>"),
    "away": message(503),
    "throttled": message(429),
    "empty": document({"data": {}}),
}


@pytest.mark.parametrize("name", FORGETFUL)
async def test_the_currency_is_not_lost(name: str, place: Place) -> None:
    """Without the currency, prices in yen would be a hundred times too high."""
    place.platform.respond("/store", STORE)
    await meet(place)
    place.platform.respond("/store", FORGETFUL[name])
    assert await meet(place) == KNOWN
    place.platform.respond("/store", STORE)
    assert await meet(place) == KNOWN


async def test_new_facts_replace_the_old_ones(place: Place) -> None:
    place.platform.respond("/store", STORE)
    await meet(place)
    changed = document({"data": {"id": "sto_1", "currency": "INR"}})
    place.platform.respond("/store", changed)
    assert (await meet(place)).currency == "INR"
    everywhere(place, HTML)
    assert (await meet(place)).currency == "INR"


async def test_key_without_some_scopes_is_good_enough(place: Place) -> None:
    place.platform.respond("/inventory", problem(403, "INSUFFICIENT_SCOPE"))
    place.platform.respond("/products", problem(403, "INSUFFICIENT_SCOPE"))
    place.platform.respond("/store", STORE)
    assert await meet(place) == KNOWN


async def test_nothing_is_written_to_the_platform(place: Place) -> None:
    await meet(place)
    assert place.server.commands == []


OTHER = document({"data": {"id": "sto_2", "currency": "JPY"}})


def guarded(place: Place) -> tuple[Transport, StoreIdentity, list[str]]:
    limits = Limits(5.0, 5.0, 10_000)
    transport = Transport(place.server.url, "svc_live_a", limits, place.clock)
    messages: list[str] = []
    identity = StoreIdentity(
        "main",
        place.server.url,
        PlatformClient(transport),
        place.store.kv,
        str(DATABASE),
        messages.append,
    )
    return transport.guarded(identity.require), identity, messages


async def send_both(transport: Transport) -> None:
    """Try a read and a command."""
    await transport.get("/orders", {})
    await transport.send("/orders/ord_1/cancel", b'{"restock": false}', "key")


async def test_another_store_is_refused_with_the_remedy(place: Place) -> None:
    place.platform.respond("/store", STORE)
    await meet(place)
    place.platform.respond("/store", OTHER)
    with pytest.raises(OtherStore) as failure:
        await meet(place)
    for part in ("stores.main", place.server.url, "sto_1", "sto_2", str(DATABASE)):
        assert part in str(failure.value)
    assert "--config" in str(failure.value)
    place.platform.respond("/store", STORE)
    assert await meet(place) == KNOWN


async def test_nothing_leaves_for_another_store(place: Place) -> None:
    place.platform.respond("/store", STORE)
    await meet(place)
    place.platform.respond("/store", OTHER)
    transport, _, messages = guarded(place)
    place.server.requests.clear()
    for _ in range(2):
        with pytest.raises(NotSent, match="sto_2"):
            await transport.get("/orders", {})
        with pytest.raises(NotSent, match="sto_2"):
            await transport.send("/orders/ord_1/cancel", b'{"restock": false}', "key")
    assert [request.path for request in place.server.requests] == ["/store"]
    assert len(messages) == 1
    await transport.close()


async def test_the_store_of_each_new_key_is_checked(place: Place) -> None:
    place.platform.respond("/store", STORE)
    await meet(place)
    transport, _, messages = guarded(place)
    await send_both(transport)
    place.platform.respond("/store", OTHER)
    transport.use_key("svc_live_of_another_store")
    with pytest.raises(NotSent, match="sto_2"):
        await transport.get("/orders", {})
    place.platform.respond("/store", STORE)
    transport.use_key("svc_live_b")
    await send_both(transport)
    assert place.server.requests[-1].headers["authorization"] == "Bearer svc_live_b"
    assert len(messages) == 1
    await transport.close()


UNTOLD = {"away": message(503), "failing": problem(500, "OOPS")}


@pytest.mark.parametrize("name", UNTOLD)
async def test_nothing_is_sent_before_the_store_is_identified(
    name: str, place: Place
) -> None:
    place.platform.respond("/store", STORE)
    await meet(place)
    transport, _, messages = guarded(place)
    place.platform.respond("/store", UNTOLD[name])
    with pytest.raises(NotSent, match="could not check to which store"):
        await transport.send("/orders/ord_1/cancel", b'{"restock": false}', "key")
    place.platform.respond("/store", STORE)
    await send_both(transport)
    place.platform.respond("/store", OTHER)
    await send_both(transport)  # the store was requested once
    assert messages == []
    await transport.close()


async def test_nothing_is_sent_while_the_known_store_cannot_be_read(
    place: Place,
) -> None:
    place.platform.respond("/store", STORE)
    await meet(place)
    transport, _, messages = guarded(place)
    with locked(place.store.place, "ACCESS EXCLUSIVE"):
        with pytest.raises(NotSent, match="could not check to which store"):
            await transport.send("/orders/ord_1/cancel", b'{"restock": false}', "key")
        assert not await PlatformClient(transport).probe()
    await send_both(transport)
    assert messages == []
    await transport.close()


@pytest.mark.parametrize("name", ["no-store-endpoint", "scope-lost", "empty"])
async def test_a_platform_without_a_store_id_is_believed(
    name: str, place: Place
) -> None:
    place.platform.respond("/store", STORE)
    await meet(place)
    place.platform.respond("/store", FORGETFUL[name])
    transport, _, _ = guarded(place)
    await send_both(transport)
    await transport.close()


async def test_before_the_first_contact_nothing_is_requested(place: Place) -> None:
    transport, _, _ = guarded(place)
    await send_both(transport)
    assert "/store" not in [request.path for request in place.server.requests]
    await transport.close()
