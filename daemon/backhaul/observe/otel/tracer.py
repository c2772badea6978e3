"""Spans by the OpenTelemetry SDK, handed to the queue that exports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.context import Context
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import (
    TraceContextTextMapPropagator,
)

from backhaul.core.clock import SystemClock

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span as SdkSpan
    from opentelemetry.trace import SpanContext
    from opentelemetry.trace import Tracer as SdkTracer

    from backhaul.observe.otel.export_queue import ExportQueue
    from backhaul.runtime import tracing

SCOPE = "backhaul"
"""The instrumentation scope of all spans and metrics."""
_HEADER = "traceparent"
_PROPAGATOR = TraceContextTextMapPropagator()
_KINDS = {kind.name.lower(): kind for kind in SpanKind}


class Queueing(SpanProcessor):
    """Puts each sampled span that ended into a queue."""

    def __init__(self, queue: ExportQueue[ReadableSpan]) -> None:
        self._queue = queue

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span; the SDK calls this."""
        if span.context is not None and span.context.trace_flags.sampled:
            self._queue.put(span)


class OtelSpan:
    """A span of the SDK, as `runtime.tracing.Span`."""

    def __init__(self, span: SdkSpan, tracer: SdkTracer) -> None:
        self._span = span
        self._tracer = tracer

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self._context.trace_flags:02x}"

    @property
    def trace_id(self) -> str:
        return f"{self._context.trace_id:032x}"

    @property
    def span_id(self) -> str:
        return f"{self._context.span_id:016x}"

    @property
    def _context(self) -> SpanContext:
        return self._span.get_span_context()

    def child(
        self, name: str, kind: tracing.SpanKind, attributes: tracing.Attributes
    ) -> OtelSpan:
        within = set_span_in_context(self._span, Context())
        span = self._tracer.start_span(name, within, _KINDS[kind], attributes)
        return OtelSpan(span, self._tracer)

    def put(self, name: str, value: str | int | bool) -> None:
        self._span.set_attribute(name, value)

    def end(self, error: str = "") -> None:
        if error:
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()


class OtelTracer:
    """Begins spans of one daemon, as `runtime.tracing.Tracer`.

    `ratio` is the share of new traces that are exported. A trace that has begun
    elsewhere is exported if its `traceparent` says so.
    """

    def __init__(
        self, resource: Resource, ratio: float, queue: ExportQueue[ReadableSpan]
    ) -> None:
        # A provider of its own: a process may run several daemons, as tests do.
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(ratio)),
            resource=resource,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(Queueing(queue))
        self._tracer = self._provider.get_tracer(SCOPE)

    def now(self) -> int:
        return nanoseconds_now()

    def begin(
        self,
        name: str,
        kind: tracing.SpanKind,
        attributes: tracing.Attributes,
        parent: str | None = None,
        *,
        began_at: int | None = None,
    ) -> OtelSpan:
        span = self._tracer.start_span(
            name,
            context_of(parent),
            _KINDS[kind],
            attributes,
            start_time=began_at,
        )
        return OtelSpan(span, self._tracer)


def nanoseconds_now() -> int:
    """Return the nanoseconds since 1970, to a microsecond, as OTLP counts time."""
    return int(SystemClock().now().timestamp() * 1_000_000) * 1_000


def context_of(parent: str | None) -> Context:
    """Return the context of a `traceparent`; of a new trace if it cannot be read.

    The text may come from anybody's request, or from a damaged row.
    """
    new = Context()
    if not isinstance(parent, str):
        return new
    return _PROPAGATOR.extract({_HEADER: parent}, new)
