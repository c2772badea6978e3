"""Overview page: traffic, delays, backlog and problems."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from backhaul.admin.auth import Route
from backhaul.store.sqlite.outbox_reading import Wanted
from backhaul.store.users import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aiohttp import web

    from backhaul.admin.context import Desk, Visit
    from backhaul.store.sqlite.board import Board
    from backhaul.store.sqlite.numbers import Number

MOST_SHOWN = 8


async def show(desk: Desk, visit: Visit) -> web.Response:
    """Show it whole."""
    return desk.page(visit, "overview", **await _facts(desk))


async def show_live(desk: Desk, visit: Visit) -> web.Response:
    """Show the part that is asked for again and again."""
    return desk.fragment(visit, "overview_live", **await _facts(desk))


async def _facts(desk: Desk) -> dict[str, Any]:
    status = await desk.given.status()
    numbers = await desk.given.numbers.waiting()
    told = await desk.reading.ask(_read)
    by_name = _by_name(numbers)
    return {
        "status": status,
        "troubles": list(_troubles(status)),
        "rates": desk.given.sampler.rates(),
        "mirrored": desk.given.sampler.mirrored,
        "open": _by_state(by_name["commands_open"]),
        "waiting": _total(by_name["events_waiting"]),
        "lag": _total(by_name["oldest_event_waiting_seconds"]),
        "in_doubt": _total(by_name["objects_in_doubt"]),
        "quarantined": _total(by_name["quarantine_rows"]),
        "records_waiting": _total(by_name["records_waiting"]),
        "oldest_planned": max(
            (value for _, value, _ in by_name["oldest_command_planned_seconds"]),
            default=0.0,
        ),
        "wanted_stores": list(desk.given.settings.stores),
        **told,
    }


def _read(board: Board) -> dict[str, Any]:
    parked = board.commands(Wanted(state="parked"), MOST_SHOWN)
    under_way = [
        row
        for state in ("uncertain", "sending", "planned")
        for row in board.open_commands(state, MOST_SHOWN)
    ]
    return {
        "incidents": board.incidents(),
        "parked": parked,
        "under_way": under_way[:MOST_SHOWN],
        "events": board.events(None, None, MOST_SHOWN),
        "consistency": board.consistency(),
    }


def _troubles(status: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what keeps work from flowing, in words, with where to look."""
    for held in status["dry_run"]:
        who = "anybody" if held == "*" else f"connector {held}"
        yield "Dry run", f"nothing of {who} is sent"
    for name, store in status["stores"].items():
        for kind, reason in store["stopped"].items():
            yield f"Store {name} stopped sending", f"{kind}: {reason}"
        if pause := store.get("paused"):
            yield f"Store {name} is paused until {pause['until']}", pause["reason"]
    for name, said in status["subscriptions"].items():
        if said:
            yield f"Webhooks of {name}", said
    for name, connector in status["connectors"].items():
        if not connector["up"]:
            yield f"Connector {name} is down", connector["reason"]


def _by_name(numbers: Iterable[Number]) -> dict[str, list[Number]]:
    found: defaultdict[str, list[Number]] = defaultdict(list)
    for each in numbers:
        found[each[0]].append(each)
    return found


def _by_state(numbers: Iterable[Number]) -> Counter[str]:
    found: Counter[str] = Counter()
    for _, value, (_, _, state) in numbers:
        found[state] += int(value)
    return found


def _total(numbers: Iterable[Number]) -> float:
    return sum(value for _, value, _ in numbers)


ROUTES = (
    Route("GET", "/", Role.VIEWER, show),
    Route("GET", "/overview", Role.VIEWER, show_live, polled=True),
)
