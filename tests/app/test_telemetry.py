"""Traces and metrics of the whole daemon, as an OTLP collector receives them."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import httpx
import pytest
from pydantic import SecretStr

from backhaul.observe.metrics import Metrics
from backhaul.observe.otel.telemetry import Telemetry
from backhaul.settings.telemetry import Telemetry as Settings
from connectors.receiving import SECRET, Receiver
from scenes.daemon import DaemonProcess, Office, connected
from scenes.fault_proxy import fault_proxy, timeout
from scenes.otlp_collector import Collector, collecting
from scenes.payloads import envelope, order, signed
from scenes.reference_shop import Shop, open_shop
from scenes.stored import COMMANDS_AND_TARGETS, count, rows_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scenes.otlp_collector import CollectedSpan

PARCEL = ("order,tracking_company,tracking_number", "1001,DHL,T2")
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
FORWARDING = """
[connectors.books]
type = "webhook_out"
url = "{}/news"
secrets = ["{}"]
topics = ["order.placed"]
[connectors.books.network]
allow = ["127.0.0.1"]
ports = [{}]
allow_http = true
"""
SENDER = f"00-{TRACE}-{SPAN}-01"
RETRIES = 'retry_base = "50ms"\ncheck_after = ["0s", "100ms", "200ms"]'
pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "shop") as opened:
        yield opened


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with collecting() as opened:
        yield opened


def exporting(collector: Collector, *more: str) -> str:
    return "\n".join(["[telemetry]", f'otlp_endpoint = "{collector.url}"', *more, ""])


def parents_of(span: CollectedSpan, spans: list[CollectedSpan]) -> list[str]:
    """Return the names of a span's ancestors, the parent first."""
    by_id = {each.id: each for each in spans}
    names = []
    while span.parent in by_id:
        span = by_id[span.parent]
        names.append(span.name)
    return names


def command_states(office: Office) -> list[tuple[object, ...]]:
    return rows_of(office.place, COMMANDS_AND_TARGETS, "state")


def folds(collector: Collector, order: str) -> list[CollectedSpan]:
    """Return the fold spans of an order's webhooks."""
    return [
        span
        for span in collector.named("fold inbox")
        if span.attributes.get("backhaul.order") == order
    ]


async def test_a_webhook_has_one_trace_to_the_mirror(
    shop: Shop, collector: Collector
) -> None:
    product = await shop.product(stock=10)
    # A read at the start could bring the order before its webhook does.
    unread = "\n[reconcile]\nbackfill_on_start = false\n"
    async with connected(shop, exporting(collector) + unread):
        placed = await shop.order(product)
        await until(lambda: folds(collector, placed["id"]), "the order's webhook")
    fold = folds(collector, placed["id"])[0]
    assert parents_of(fold, collector.spans) == [
        "append inbox",
        "POST /webhooks/{store}",
    ]
    assert fold.attributes["backhaul.store"] == "main"
    assert fold.attributes["backhaul.event.state"] == "folded"
    assert shop.running.access.api_key not in repr(collector.spans)


async def test_the_trace_of_the_sender_is_continued(
    shop: Shop, collector: Collector
) -> None:
    async with connected(shop, exporting(collector)) as (office, daemon):
        body = envelope("orders/create", order("ord_9"), storeId=None)
        headers = signed(body, office.webhook_secret.encode(), traceparent=SENDER)
        url = f"{daemon.public_url}/webhooks/main"
        async with httpx.AsyncClient() as client:
            answer = await client.post(url, content=body, headers=headers)
            refused = await client.post(url, content=b"{}", headers=headers)
        assert (answer.status_code, refused.status_code) == (200, 401)
        await until(lambda: collector.named("fold inbox"), "the fold")
    (served,) = (s for s in collector.named("POST /webhooks/{store}") if s.parent)
    assert (served.trace, served.parent) == (TRACE, SPAN)
    assert served.attributes["http.response.status_code"] == 200
    names = [span.name for span in collector.spans if span.trace == TRACE]
    assert sorted(names) == ["POST /webhooks/{store}", "append inbox", "fold inbox"]


async def test_a_delivery_names_the_trace_of_its_webhook(
    shop: Shop, collector: Collector
) -> None:
    receiver = Receiver()
    await receiver.plug_in()
    port = receiver.url.rpartition(":")[2]
    more = FORWARDING.format(receiver.url, SECRET, port) + exporting(collector)
    product = await shop.product(stock=10)
    try:
        async with connected(shop, more) as (_, daemon):
            # if the backfill read the order first, there would be no trace
            await daemon._shops["main"].reconciler.filled.wait()
            await shop.order(product)
            await until(lambda: collector.named("deliver order.placed"), "its span")
    finally:
        await receiver.close()
    (delivery,) = collector.named("deliver order.placed")
    parents = ["append inbox", "POST /webhooks/{store}"]
    assert parents_of(delivery, collector.spans) == parents
    (headers,) = receiver.headers
    assert headers["traceparent"].startswith(f"00-{delivery.trace}-{delivery.id}-")


@pytest.mark.parametrize("of_signal", ["", "TRACES_", "METRICS_"])
async def test_a_variable_adds_nothing_to_a_setting(
    of_signal: str, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK reads the variables too; it would send a key to another collector."""
    key = "api-key=of-another"
    monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{of_signal}HEADERS", key)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=another")
    settings = Settings(otlp_endpoint=collector.url, headers=SecretStr("tenant=shop"))
    telemetry = Telemetry(settings, Metrics())
    telemetry.export_metrics([])
    assert telemetry.tracer is not None
    telemetry.tracer.begin("work", "internal", {}, None).end()
    await asyncio.to_thread(telemetry.stop)
    assert len(collector.headers) == 2
    for headers in collector.headers:
        assert headers["tenant"] == "shop"
        assert "api-key" not in headers
    assert collector.resources
    assert not any("team" in resource for resource in collector.resources)


def test_the_variables_are_there_for_other_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Programs that the daemon starts read them too; an empty one is not unset."""
    given = {
        "OTEL_EXPORTER_OTLP_HEADERS": "",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "api-key=k",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    Telemetry(Settings(otlp_endpoint="http://127.0.0.1:9"), Metrics()).stop()
    assert {name: os.environ.get(name) for name in given} == given
    assert "OTEL_SERVICE_NAME" not in os.environ


async def test_the_metrics_are_those_of_prometheus(
    shop: Shop, collector: Collector
) -> None:
    def exported() -> float:
        name = "backhaul_webhooks"
        if not collector.metrics or name not in collector.metrics[-1]:
            return 0
        points = collector.metrics[-1][name].sum.data_points
        return float(sum(point.as_int + point.as_double for point in points))

    more = exporting(collector, 'metrics_every = "50ms"', 'headers = "api-key=k123"')
    async with connected(shop, more) as (_, daemon):
        await shop.product(stock=10)
        await until(exported, "an export after a webhook")
        async with httpx.AsyncClient() as client:
            text = (await client.get(f"{daemon.admin_url}/metrics")).text
        shown = [line for line in text.splitlines() if "webhooks_total{" in line]
        count = sum(float(line.split()[-1]) for line in shown)
        await until(lambda: exported() >= count, "the same count")
    assert collector.headers[-1]["api-key"] == "k123"
    (resource,) = {tuple(sorted(each.items())) for each in collector.resources}
    assert dict(resource)["service.name"] == "backhaul"


async def test_a_command_keeps_its_trace_over_a_kill_and_a_retry(
    shop: Shop, collector: Collector
) -> None:
    """The platform never gets the first request, and the daemon is killed meanwhile."""
    access = shop.running.access
    await shop.order(await shop.product(stock=10))
    async with fault_proxy(access.public_url) as proxy:
        proxy.once[b"T2"] = timeout
        office = Office(proxy.url, access.api_key, more=exporting(collector))
        office.write(**{'retry_base = "50ms"': RETRIES})
        try:
            killed = DaemonProcess(office)
            await asyncio.to_thread(killed.await_ready)
            office.put("fulfillments-1.csv", *PARCEL)
            await until(lambda: proxy.requests("POST"), "the first attempt")
            await until(lambda: collector.named("accept record"), "the record's span")
            killed.kill()
            again = DaemonProcess(office)
            await until(
                lambda: command_states(office) == [("applied",)], "it is applied"
            )
            await asyncio.to_thread(again.terminate)
        finally:
            office.remove()
    (record,) = collector.named("accept record")
    (post,) = collector.named("POST")
    assert post.trace == record.trace
    assert post.attributes["http.response.status_code"] == 200
    # the platform supports keys, so the check sends the request again
    assert parents_of(post, collector.spans) == ["check fulfill", "accept record"]
    heads = [logged.passing.head.decode() for logged in proxy.requests("POST")]
    assert len(heads) == 2
    assert all(f"traceparent: 00-{record.trace}-" in head for head in heads)


async def test_a_dropped_file_has_one_trace_to_the_answer(
    shop: Shop, collector: Collector
) -> None:
    product = await shop.product(stock=10)
    async with connected(shop, exporting(collector)) as (office, _):
        await shop.order(product)
        await until(lambda: count(office.place, "orders") == 1, "the order")
        office.put("fulfillments-1.csv", *PARCEL)
        await until(
            lambda: command_states(office) == [("applied",)], "the command is applied"
        )
    (sent,) = collector.named("send fulfill")
    assert parents_of(sent, collector.spans) == ["accept record"]
    posts = [span for span in collector.named("POST") if span.trace == sent.trace]
    assert [span.attributes["http.response.status_code"] for span in posts] == [200]
    assert parents_of(posts[0], collector.spans) == ["send fulfill", "accept record"]
