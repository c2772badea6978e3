"""Exports traces and metrics to an OTLP collector, which may be slow or away."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Generic, TypeVar

from loguru import logger
from msgspec import Struct
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExportResult

from backhaul.observe.otel.export_queue import ExportQueue
from backhaul.observe.otel.metric_points import metrics_data
from backhaul.observe.otel.tracer import OtelTracer, nanoseconds_now
from backhaul.settings.sources import OTEL_HEADERS_OF_SIGNALS, OTEL_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.trace import ReadableSpan
    from prometheus_client.core import Metric as Family

    from backhaul.observe.metrics import Metrics
    from backhaul.settings.telemetry import Telemetry as TelemetrySettings

T = TypeVar("T")
DROPPED = "telemetry_dropped_total"
MOST_SPANS = 4096
"""The most spans that wait for the collector; about 8 MB."""
BATCH_SPANS = 512
WAIT_SECONDS = 1.0
"""How long a span waits for others of its batch."""
REQUEST_SECONDS = 10.0
"""How long one export may take, with its repetitions."""
FLUSH_SECONDS = 3.0
"""How long a stop waits until what is queued is exported."""
SDK_LOGGER = "opentelemetry"


class Telemetry:
    """The tracer and the exports of one daemon.

    `tracer` is None if traces are off.
    """

    def __init__(self, settings: TelemetrySettings, metrics: Metrics) -> None:
        self._settings = settings
        self._began_at = nanoseconds_now()
        self._outage = Outage(settings.endpoint, metrics)
        self._quiet = _LastWords()
        self._spans: _Export[ReadableSpan] | None = None
        self._points: _Export[MetricsData] | None = None
        self.tracer: OtelTracer | None = None
        with _own_variables_hidden():
            self._resource = resource_of(settings)
            if settings.traces:
                self._spans = self._span_export()
                self.tracer = OtelTracer(
                    self._resource, settings.sample_ratio, self._spans.queue
                )
            if settings.metrics:
                self._points = self._metric_export()
        # What the SDK says until now, such as an unknown compression, is logged.
        self._quiet.install()

    @property
    def metrics_every(self) -> float:
        """Seconds between two exports of the metrics."""
        return self._settings.metrics_every

    @property
    def exports_metrics(self) -> bool:
        """Whether `export_metrics` has somewhere to export to."""
        return self._points is not None

    def _span_export(self) -> _Export[ReadableSpan]:
        exporter = OTLPSpanExporter(
            endpoint=f"{self._settings.endpoint}/v1/traces",
            headers=self._settings.sent_headers,
            timeout=REQUEST_SECONDS,
        )

        def export(spans: list[ReadableSpan]) -> bool:
            return exporter.export(spans) is SpanExportResult.SUCCESS

        queue = self._queue("spans", export, MOST_SPANS, BATCH_SPANS)
        return _Export(queue, exporter.shutdown)

    def _metric_export(self) -> _Export[MetricsData]:
        exporter = OTLPMetricExporter(
            endpoint=f"{self._settings.endpoint}/v1/metrics",
            headers=self._settings.sent_headers,
            timeout=REQUEST_SECONDS,
        )

        def export(exports: list[MetricsData]) -> bool:
            return exporter.export(exports[0]) is MetricExportResult.SUCCESS

        # The next export has newer values of all metrics: none needs to wait behind.
        queue = self._queue("metrics", export, 1, 1)
        return _Export(queue, partial(exporter.shutdown, timeout_millis=0))

    def _queue(
        self, signal: str, export: Callable[[list[T]], bool], most: int, batch: int
    ) -> ExportQueue[T]:
        def noted(items: list[T]) -> bool:
            self._quiet.words = ""
            taken = export(items)
            self._outage.ended(taken, self._quiet.words)
            return taken

        return ExportQueue(
            f"otlp-{signal}",
            noted,
            partial(self._outage.dropped, signal),
            most=most,
            batch=batch,
            wait_seconds=WAIT_SECONDS,
        )

    def export_metrics(self, families: Iterable[Family]) -> None:
        """Hand over all metrics for export. Never waits."""
        if self._points is not None:
            times = self._began_at, nanoseconds_now()
            self._points.queue.put(metrics_data(self._resource, families, *times))

    def stop(self) -> None:
        """Export what is queued within FLUSH_SECONDS, and drop the rest.

        Waits: call it in a thread.
        """
        until = time.monotonic() + FLUSH_SECONDS
        for export in (self._spans, self._points):
            if export is not None:
                export.queue.stop(max(until - time.monotonic(), 0))
                export.close()
        self._quiet.remove()


@contextmanager
def _own_variables_hidden() -> Iterator[None]:
    """Hide variables whose values the SDK would add to our settings.

    A key in a variable would then go to the collector of the configuration file.
    """
    names = (*OTEL_VARIABLES, *OTEL_HEADERS_OF_SIGNALS)
    hidden = {name: os.environ.pop(name, None) for name in names}
    try:
        yield
    finally:
        given = {name: each for name, each in hidden.items() if each is not None}
        os.environ.update(given)


class _Export(Struct, Generic[T], frozen=True):
    """What is to be exported, and how to end the requests of its exporter."""

    queue: ExportQueue[T]
    close: Callable[[], None]


def resource_of(settings: TelemetrySettings) -> Resource:
    """Return what every span and metric says about this daemon."""
    return Resource.create(
        {
            "service.name": settings.service_name,
            "service.version": version("backhaul"),
            "service.instance.id": str(uuid.uuid4()),
            **settings.attributes,
        }
    )


class Outage:
    """Counts what the collector does not get, and logs the outage once."""

    def __init__(self, endpoint: str, metrics: Metrics) -> None:
        self._endpoint = endpoint
        self._counted = metrics.counter(DROPPED)
        self._lock = threading.Lock()
        self._is_failing = False
        self._dropped = 0

    def dropped(self, signal: str, reason: str, number: int) -> None:
        """Count spans or exports of metrics that are lost."""
        with self._lock:
            self._counted[signal, reason] += number
            self._dropped += number

    def ended(self, taken: bool, words: str) -> None:
        """Log the first export that failed, and the first one after it that did not."""
        with self._lock:
            is_new = taken is self._is_failing
            self._is_failing = not taken
            dropped, self._dropped = self._dropped, 0 if taken else self._dropped
        if not is_new:
            return
        if taken:
            logger.bind(action="telemetry.resumed", dropped=dropped).info(
                "the OTLP collector at {} takes telemetry again; {} spans and exports"
                " of metrics were dropped",
                self._endpoint,
                dropped,
            )
        else:
            logger.bind(action="telemetry.failing").warning(
                "the OTLP collector at {} does not take telemetry: {}. Backhaul"
                " continues to work. It drops spans and metrics until the collector"
                " takes them. Check [telemetry] otlp_endpoint and headers, and whether"
                " the collector runs",
                self._endpoint,
                words or "no answer",
            )


class _LastWords(logging.Handler):
    """Keeps the SDK's last words: it logs each failed export, several times.

    Each queue exports in its own thread, where the SDK also logs: `words` are those of
    the present thread.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._of_thread = threading.local()
        self._logger = logging.getLogger(SDK_LOGGER)

    @property
    def words(self) -> str:
        return getattr(self._of_thread, "words", "")

    @words.setter
    def words(self, words: str) -> None:
        self._of_thread.words = words

    def install(self) -> None:
        """Take over what the SDK logs."""
        self._propagates = self._logger.propagate
        self._logger.propagate = False
        self._logger.addHandler(self)

    def remove(self) -> None:
        """Leave what the SDK logs as it was."""
        self._logger.propagate = self._propagates
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record; `logging` calls this. The last line says only `failed`."""
        words = record.getMessage()
        if not (self.words and "max retries" in words):
            self.words = words
