"""An OTLP collector in this process that decodes exports; it can hang."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

ERROR = 2
"""The status code of a span that failed."""


@dataclass(frozen=True, slots=True)
class CollectedSpan:
    """One exported span, with its ids as hexadecimal digits."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    failed: bool
    attributes: Mapping[str, object]


@dataclass(slots=True)
class Collector:
    """The received spans and metrics; while it `hangs`, it does not answer."""

    url: str = ""
    spans: list[CollectedSpan] = field(default_factory=list)
    metrics: list[dict[str, Metric]] = field(default_factory=list)
    resources: list[Mapping[str, object]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    hangs: bool = False
    refuses: bool = False
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def named(self, name: str) -> list[CollectedSpan]:
        """Return the spans with this name, in the order of export."""
        return [span for span in self.spans if span.name == name]

    async def take_spans(self, request: web.Request) -> web.Response:
        exported = ExportTraceServiceRequest.FromString(await self._body(request))
        for group in exported.resource_spans:
            self.resources.append(_values(group.resource.attributes))
            for scope in group.scope_spans:
                self.spans += (
                    CollectedSpan(
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.kind,
                        span.status.code == ERROR,
                        _values(span.attributes),
                    )
                    for span in scope.spans
                )
        return web.Response()

    async def take_metrics(self, request: web.Request) -> web.Response:
        exported = ExportMetricsServiceRequest.FromString(await self._body(request))
        for group in exported.resource_metrics:
            for scope in group.scope_metrics:
                self.metrics.append({each.name: each for each in scope.metrics})
        return web.Response()

    async def _body(self, request: web.Request) -> bytes:
        self.headers.append({k.lower(): v for k, v in request.headers.items()})
        self.asked.set()
        if self.hangs:
            await asyncio.Event().wait()
        if self.refuses:
            raise web.HTTPUnauthorized
        return await request.read()


def _values(pairs: object) -> dict[str, object]:
    found: dict[str, object] = {}
    for pair in pairs:  # type: ignore[attr-defined]  # a repeated field
        value: AnyValue = pair.value
        found[pair.key] = getattr(value, value.WhichOneof("value") or "string_value")
    return found


@asynccontextmanager
async def collecting(tls: ssl.SSLContext | None = None) -> AsyncIterator[Collector]:
    """Run a collector on a free port, over TLS if it has a context."""
    collector = Collector()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/traces", collector.take_spans)
    app.router.add_post("/v1/metrics", collector.take_metrics)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        collector.url = f"http{'s' if tls else ''}://{host}:{port}"
        yield collector
    finally:
        await runner.cleanup()
