"""The page of the charts, and their data for the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from backhaul.admin.auth import Route
from backhaul.admin.charts import DEFAULT, RANGES, begin_of, charts_of, steps_of
from backhaul.core.clock import to_text
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from backhaul.admin.charts import Chart, Range
    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.store.read_models import Reader


async def show_charts(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show the charts of a range; without JavaScript their last values."""
    chosen = _range_of(page_request)
    _, charts = await _read(context, chosen)
    is_empty = all(line.last is None for chart in charts for line in chart.lines)
    return context.page(
        page_request,
        "charts",
        charts=charts,
        ranges=RANGES.values(),
        chosen=chosen,
        is_empty=is_empty,
    )


async def show_points(context: PageContext, page_request: PageRequest) -> web.Response:
    """Return the points of all charts as JSON, for the browser to draw."""
    times, charts = await _read(context, _range_of(page_request))
    body: dict[str, Any] = {"times": times, "charts": charts}
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


def _range_of(page_request: PageRequest) -> Range:
    return RANGES.get(page_request.query("span") or "", DEFAULT)


async def _read(context: PageContext, chosen: Range) -> tuple[list[float], list[Chart]]:
    now = context.services.clock.now()
    since = to_text(begin_of(chosen, now))

    def read(reader: Reader) -> tuple[list[float], list[Chart]]:
        # In the thread of the read: a week of several daemons is many samples.
        steps = steps_of(reader.samples(since), chosen, now)
        return list(steps), charts_of(list(steps.values()))

    return await context.services.store.read(read)


ROUTES = (
    Route("GET", "/charts", Role.VIEWER, show_charts),
    Route("GET", "/charts.json", Role.VIEWER, show_points, polled=True),
)
