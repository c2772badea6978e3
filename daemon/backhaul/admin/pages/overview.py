"""Overview: what is wrong, what flows between the two sides, which records wait."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from backhaul.admin.auth import Route
from backhaul.admin.sparklines import first_hour, sparklines
from backhaul.alerting.summary import group_problems
from backhaul.settings.values import duration_text
from backhaul.store.filters import Filter
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.store.operations import Gauge
    from backhaul.store.read_models import Reader

MAX_ROWS = 8
MOST_WAITING = 200
"""Most waiting records on their page; more are only counted."""


async def show(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show the overview page."""
    return context.page(page_request, "overview", **await _facts(context))


async def _facts(context: PageContext) -> dict[str, Any]:
    status = await context.services.status()
    gauges = await context.services.store.gauges.waiting()
    now = context.services.clock.now()
    since = first_hour(now)
    rows, traffic = await context.services.store.read(
        lambda reader: (_read(reader), reader.traffic(since))
    )
    by_name = _by_name(gauges)
    return {
        "status": status,
        "problems": group_problems(await context.services.problems()),
        "dry_run": list(status["dry_run"]),
        "rates": status["rates"],
        "mirrored": status["mirrored"],
        "open": _by_state(by_name["commands_open"]),
        "waiting": _total(by_name["events_waiting"]),
        "lag": _total(by_name["oldest_event_waiting_seconds"]),
        "conflicts": _total(by_name["objects_in_doubt"]),
        "records_waiting": _total(by_name["records_waiting"]),
        "oldest_planned": max(
            (value for _, value, _ in by_name["oldest_command_planned_seconds"]),
            default=0.0,
        ),
        "store_names": list(context.services.settings.stores),
        "sparks": sparklines(traffic, now),
        **rows,
    }


async def show_waiting(context: PageContext, page_request: PageRequest) -> web.Response:
    """List the records that wait for their order or SKU, the oldest first."""
    store = context.services.store
    gauges = _by_name(await store.gauges.waiting())
    return context.page(
        page_request,
        "waiting",
        rows=await store.read(lambda reader: reader.waiting_records(MOST_WAITING)),
        waiting=_total(gauges["records_waiting"]),
        patience=duration_text(context.services.settings.connect.match_wait),
    )


def _read(reader: Reader) -> dict[str, Any]:
    open_commands = [
        row
        for state in ("uncertain", "sending", "planned")
        for row in reader.open_commands(state, MAX_ROWS)
    ]
    return {
        "open_commands": open_commands[:MAX_ROWS],
        "events": reader.events(Filter(), MAX_ROWS),
        "consistency": reader.consistency(),
    }


def _by_name(gauges: Iterable[Gauge]) -> dict[str, list[Gauge]]:
    found: defaultdict[str, list[Gauge]] = defaultdict(list)
    for each in gauges:
        found[each[0]].append(each)
    return found


def _by_state(gauges: Iterable[Gauge]) -> Counter[str]:
    found: Counter[str] = Counter()
    for _, value, (_, _, state) in gauges:
        found[state] += int(value)
    return found


def _total(gauges: Iterable[Gauge]) -> float:
    return sum(value for _, value, _ in gauges)


ROUTES = (
    Route("GET", "/", Role.VIEWER, show),
    Route("GET", "/records", Role.VIEWER, show_waiting),
)
