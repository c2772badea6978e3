"""Mails are sent by SMTP, retried after a failure, and given up in time."""

from pathlib import Path
from typing import Any

import pytest

from backhaul_reference.arguments import parse
from backhaul_reference.platform.state.mail_outbox import RETRY_SECONDS
from scenes.merchant import advance, buy, idle_outbox, outbox
from scenes.ports import free_port
from scenes.reference_shop import CUSTOMER, Shop, open_shop
from scenes.smtp_server import open_smtp_server


def states(mails: list[Any]) -> list[tuple[str, int]]:
    return [(one["status"], one["attempts"]) for one in mails]


async def freeze(shop: Shop) -> None:
    await shop.control("POST", "/clock", {"freeze": True})


async def test_mails_go_to_the_server(tmp_path: Path) -> None:
    async with (
        open_smtp_server() as smtp,
        open_shop(tmp_path, smtp_port=smtp.port) as shop,
    ):
        order = (await buy(shop, await shop.product())).data
        buyer, merchant = await smtp.until(2)
        assert buyer["To"] == CUSTOMER["email"]
        assert merchant["To"] == "owner@demo.example"
        assert buyer["From"] == "Demo <shop@backhaul.example>"
        body = buyer.get_body(("plain",))
        assert body is not None
        assert order["trackingToken"] in body.get_content()
        assert states(await idle_outbox(shop)) == [("SENT", 1)] * 2
    assert not (tmp_path / "mails").exists()
    assert len({one["Message-ID"] for one in (buyer, merchant)}) == 2


async def test_a_passing_refusal_is_tried_again(tmp_path: Path) -> None:
    async with (
        open_smtp_server() as smtp,
        open_shop(tmp_path, smtp_port=smtp.port) as shop,
    ):
        await freeze(shop)
        smtp.refusals.append(b"451 busy with asha@example.com")
        await buy(shop, await shop.product())
        await smtp.until(1)
        first, second = await idle_outbox(shop)
        assert (first["status"], first["attempts"]) == ("PENDING", 1)
        assert first["error"] == "SMTPRecipientsRefused 451"
        assert second["status"] == "SENT"
        await advance(shop, RETRY_SECONDS[0])
        last = (await smtp.until(2))[-1]
        assert last["To"] == CUSTOMER["email"]
        assert states(await idle_outbox(shop))[1] == ("SENT", 1)


async def test_a_lasting_refusal_ends_it(tmp_path: Path) -> None:
    async with (
        open_smtp_server() as smtp,
        open_shop(tmp_path, smtp_port=smtp.port) as shop,
    ):
        smtp.refusals.append(b"550 no such user")
        await buy(shop, await shop.product())
        await smtp.until(1)
        assert states(await idle_outbox(shop)) == [("FAILED", 1), ("SENT", 1)]


async def attempted(shop: Shop, count: int) -> list[Any]:
    while True:
        found = await outbox(shop)
        if all(one["attempts"] >= count for one in found):
            return found


async def test_a_missing_server_is_tried_until_there_is_no_point(
    tmp_path: Path,
) -> None:
    async with open_shop(tmp_path, smtp_port=free_port()) as shop:
        await freeze(shop)
        await buy(shop, await shop.product())
        for number, seconds in enumerate(RETRY_SECONDS, start=1):
            found = await attempted(shop, number)
            assert states(found) == [("PENDING", number)] * 2
            assert found[0]["error"] == "SMTPConnectError"
            await advance(shop, seconds)
        found = await attempted(shop, len(RETRY_SECONDS) + 1)
        assert {one["status"] for one in found} == {"FAILED"}
        assert found[0]["nextAttemptAt"] is None


async def test_unsent_mails_survive_a_restart(tmp_path: Path) -> None:
    async with open_shop(tmp_path, smtp_port=free_port()) as shop:
        await buy(shop, await shop.product())
        await attempted(shop, 1)
    async with open_shop(tmp_path) as shop:
        await advance(shop, RETRY_SECONDS[0])
        found = await attempted(shop, 2)
        assert {one["status"] for one in found} == {"SENT"}
    assert len(list((tmp_path / "mails").glob("*.eml"))) == 2


async def test_the_outbox_is_the_merchants(shop: Shop) -> None:
    await buy(shop, await shop.product())
    url = shop.running.access.control_url + "/_control/outbox"
    assert (await shop.ask("GET", url, {})).status == 401
    reply = await shop.control("GET", "/outbox?limit=1")
    assert reply.body["meta"]["total"] == 2
    assert reply.data[0].keys() == {
        "id", "store", "template", "orderId", "status", "attempts", "error",
        "nextAttemptAt", "sentAt", "createdAt",
    }  # fmt: skip


def test_the_mail_server_is_set_on_the_command_line() -> None:
    options = parse(["--smtp", "[::1]:2525", "--mail-from", "me@x.example"])
    assert options.smtp == ("::1", 2525)
    assert options.mail_from == "me@x.example"
    for bad in ("localhost", ":25", "localhost:x", "localhost:70000"):
        with pytest.raises(SystemExit):
            parse(["--smtp", bad])
