"""Starts and stops the export of traces and metrics, if the settings want it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from loguru import logger

from backhaul.runtime.loop import Loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from typing import Any

    from prometheus_client.core import Metric

    from backhaul.core.clock import Clock
    from backhaul.observe.metrics import Metrics
    from backhaul.observe.otel.telemetry import Telemetry
    from backhaul.settings.telemetry import Telemetry as TelemetrySettings


@asynccontextmanager
async def exporting(
    settings: TelemetrySettings, metrics: Metrics
) -> AsyncIterator[Telemetry | None]:
    """Export until the block ends.

    Yields None while telemetry is off, and then imports no package of OpenTelemetry.
    """
    if not settings.is_on:
        yield None
        return
    from backhaul.observe.otel.telemetry import Telemetry

    telemetry = Telemetry(settings, metrics)
    logger.bind(action="telemetry.started").info(
        "telemetry is exported to {}", settings.endpoint
    )
    try:
        yield telemetry
    finally:
        await asyncio.to_thread(telemetry.stop)


def loops(
    telemetry: Telemetry | None,
    families: Callable[[], Awaitable[list[Metric]]],
    clock: Clock,
) -> list[Callable[[], Coroutine[Any, Any, None]]]:
    """Return the loop that exports the metrics, if they are exported.

    `families` returns all metrics as they are now.
    """
    if telemetry is None or not telemetry.exports_metrics:
        return []

    async def export() -> float:
        telemetry.export_metrics(await families())
        return telemetry.metrics_every

    async def run() -> None:
        await Loop(clock).run(export)

    return [run]
