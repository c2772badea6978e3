"""A tracer that exports its spans to a list."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import Resource

from backhaul.observe.otel.export_queue import ExportQueue
from backhaul.observe.otel.tracer import OtelTracer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan


@contextmanager
def traced(ratio: float = 1.0) -> Iterator[tuple[OtelTracer, list[ReadableSpan]]]:
    """Return a tracer and its exported spans, which are complete after the block."""
    exported: list[ReadableSpan] = []

    def export(spans: list[ReadableSpan]) -> bool:
        exported.extend(spans)
        return True

    queue = ExportQueue(
        "test", export, lambda *_: None, most=100, batch=10, wait_seconds=60
    )
    try:
        yield OtelTracer(Resource.get_empty(), ratio, queue), exported
    finally:
        queue.stop(60)
