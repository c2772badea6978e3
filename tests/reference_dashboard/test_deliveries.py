"""The dashboard shows the real request and response of each delivery."""

import asyncio
import html
import re
from typing import Any

import pytest
from aiohttp import web

from backhaul_reference.platform.state.webhook_outbox import BODY_BYTES
from reference_dashboard.conftest import STORE, Browser
from scenes.reference_shop import Receiver, open_receiver, subscribe
from scenes.waiting import until

BLOCK = re.compile(r"<pre[^>]*><code>(.*?)</code></pre>", re.DOTALL)


async def delivered(browser: Browser, receiver: Receiver) -> tuple[Any, str]:
    """One delivery, and where its page is."""
    shop = browser.shop
    hook = await subscribe(shop, receiver, "products/create")
    await shop.product()
    listed = await shop.v1("GET", f"/webhooks/{hook['id']}/deliveries")
    path = f"{STORE}/api/webhooks/{hook['id']}/deliveries/{listed.data[0]['id']}"
    return hook, path


async def recorded(browser: Browser, count: int) -> None:
    def attempts() -> bool:
        rows = browser.shop.running.platform.reader.read(
            lambda rows: rows.value("SELECT COUNT(*) FROM delivery_attempt")
        )
        return bool(rows >= count)

    await until(attempts, f"{count} attempts are recorded")


async def blocks(browser: Browser, path: str) -> list[str]:
    page = await browser.get(path)
    assert page.status == 200
    return [html.unescape(one) for one in BLOCK.findall(page.text)]


async def test_the_page_shows_request_and_response(browser: Browser) -> None:
    async with open_receiver() as receiver:
        answer = {"Set-Cookie": "id=secret", "X-Answer": "Zürich"}
        receiver.answers = [web.Response(status=200, text="<b>done", headers=answer)]
        hook, path = await delivered(browser, receiver)
        [received] = await receiver.until(1)
        await recorded(browser, 1)
        await browser.post(f"/api/webhooks/{hook['id']}/rotate-secret")
        request, response, body = await blocks(browser, path)
        assert request.startswith(f"POST {receiver.url}\n")
        for name in ("X-Service-Hmac-Sha256", "webhook-signature", "webhook-timestamp"):
            assert f"{name}: {received.headers[name]}\n" in request
        assert response.startswith("HTTP 200\n")
        assert "X-Answer: Zürich" in response
        assert "Set-Cookie: (redacted)" in response
        assert "secret" not in response
        assert response.endswith("<b>done")
        assert '"topic": "products/create"' in body


async def test_every_attempt_keeps_its_own_answer(browser: Browser) -> None:
    async with open_receiver() as receiver:
        receiver.answers = [
            web.Response(status=503, text="busy"),
            web.Response(text="x" * (BODY_BYTES + 1)),
        ]
        _, path = await delivered(browser, receiver)
        await receiver.until(2)
        await recorded(browser, 2)
        second, long, first, busy, _ = await blocks(browser, path)
        assert "X-Service-Attempt: 1" in first
        assert "X-Service-Attempt: 2" in second
        assert busy.startswith("HTTP 503")
        assert busy.endswith("\nbusy")
        assert long.count("x") >= BODY_BYTES
        assert long.endswith("\n" + "x" * BODY_BYTES)
        assert (await browser.get(path)).text.count("The first 4 KiB") == 1


async def test_without_a_listener_nothing_was_sent(browser: Browser) -> None:
    async with open_receiver() as receiver:
        pass
    _, path = await delivered(browser, receiver)
    await recorded(browser, 4)
    text = (await browser.get(path)).text
    assert text.count("Nothing was sent: ClientConnectorError") == 4
    assert "X-Service-Hmac-Sha256" not in text


async def test_a_body_that_never_ends_delays_no_success(browser: Browser) -> None:
    ended = asyncio.Event()

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun")
        await ended.wait()
        return response

    app = web.Application()
    app.router.add_post("/hook", drip)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
        hook, path = await delivered(browser, Receiver(url))
        await recorded(browser, 1)
        _, response, _ = await blocks(browser, path)
        assert response.endswith("begun")
        listed = await browser.shop.v1("GET", f"/webhooks/{hook['id']}/deliveries")
        assert listed.data[0]["status"] == "DELIVERED"
    finally:
        ended.set()
        await runner.cleanup()


@pytest.mark.parametrize("name", ["request", "response", "exchange"])
async def test_the_api_does_not_show_it(browser: Browser, name: str) -> None:
    async with open_receiver() as receiver:
        hook, _ = await delivered(browser, receiver)
        await recorded(browser, 1)
        listed = await browser.shop.v1("GET", f"/webhooks/{hook['id']}/deliveries")
        [attempt] = listed.data[0]["attempts"]
        assert not [one for one in attempt if one.lower().startswith(name)]
        names = {"number", "at", "statusCode", "error", "durationMs"}
        assert attempt.keys() == names
