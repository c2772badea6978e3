"""The recorded request and response of each delivery attempt, within limits."""

from aiohttp import web

from backhaul_reference.platform.state import webhook_outbox
from scenes.reference_shop import Shop, open_receiver, subscribe
from scenes.waiting import until


def test_headers_are_kept_within_bounds() -> None:
    assert webhook_outbox.bounded([("X-A", "1"), ("X-A", "2")]) == [
        ["X-A", "1"],
        ["X-A", "2"],
    ]
    [[name, value]] = webhook_outbox.bounded([("X-Long", "v" * 900)])
    assert (name, value) == ("X-Long", "v" * webhook_outbox.VALUE_CHARACTERS + "…")
    many = [(f"X-{n}", "v") for n in range(webhook_outbox.MOST_HEADERS + 5)]
    assert len(webhook_outbox.bounded(many)) == webhook_outbox.MOST_HEADERS


def test_credentials_are_not_kept() -> None:
    sent = [("Set-Cookie", "id=1"), ("AUTHORIZATION", "Bearer x"), ("Date", "now")]
    kept = dict(webhook_outbox.bounded(sent))
    assert kept.pop("Date") == "now"
    assert set(kept.values()) == {webhook_outbox.REDACTED}


def test_bytes_that_are_no_text_can_be_stored() -> None:
    [[_, value]] = webhook_outbox.bounded([("X-Odd", "a\udcff")])
    assert value == "a?"


async def test_each_attempt_has_its_exchange(shop: Shop) -> None:
    async with open_receiver() as receiver:
        receiver.answers = [
            web.Response(status=500, text="no"),
            web.Response(text="yes"),
        ]
        hook = await subscribe(shop, receiver, "products/create")
        await shop.product()
        first, second = await receiver.until(2)
        listed = await shop.v1("GET", f"/webhooks/{hook['id']}/deliveries")
        delivery_id = listed.data[0]["id"]

        def kept() -> dict[int, webhook_outbox.Exchange]:
            found = shop.running.platform.reader.read(
                lambda rows: webhook_outbox.of_delivery(rows, hook["id"], delivery_id)
            )
            return found if len(found) == 2 else {}

        found = await until(kept, "both attempts are recorded")
        assert [found[n].body for n in (1, 2)] == [b"no", b"yes"]
        for number, received in ((1, first), (2, second)):
            sent = dict(found[number].sent or [])
            assert sent.items() <= dict(received.headers).items()
            assert sent["X-Service-Attempt"] == str(number)
            assert found[number].url == receiver.url
