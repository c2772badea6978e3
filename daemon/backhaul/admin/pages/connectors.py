"""Pages of connections: health, what each submitted, its settings, and actions."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import BaseModel, SecretStr

from backhaul.admin.auth import NotFound, Route
from backhaul.connect import registry
from backhaul.core.clock import to_text
from backhaul.errors import BackhaulError
from backhaul.settings.jobs import polling_job
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.settings import Connector
    from backhaul.store.read_models import Reader
    from backhaul.store.read_records import ListedRecord
    from backhaul.store.records import SourceRun

FEW_RECORDS, MANY_RECORDS = 5, 50
MOST_RUNS = 20
MASK = "••••••••"
_URL_USER = re.compile(r"://[^/@\s]+@")
_ROW_OF_FILE = re.compile(r"(.+):(\d+)")
_SAID: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "adjust": lambda record: f"{record['sku']} {record['delta']:+d}",
    "level": lambda record: f"{record['sku']} = {record['quantity']}",
    "cancel": lambda record: f"cancel order {record['order']}",
    "track": lambda record: f"parcel {record['tracking_number']}: {record['status']}",
    "fulfill": lambda record: " ".join(
        [
            f"order {record['order']} shipped",
            *(
                str(record[name])
                for name in ("tracking_company", "tracking_number")
                if record.get(name)
            ),
        ]
    ),
}
"""What a record says, by its kind."""


def in_words(record: ListedRecord) -> str:
    """Return what a record says and where it comes from, or else its key."""
    parts = [_content(record.payload) or record.key, _place(record.locator)]
    return ", ".join(filter(None, parts))


def _content(payload: str) -> str:
    try:
        found = msgspec.json.decode(payload)
        return _SAID[found["kind"]](found["record"])
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        return ""  # it never became a record, or is of another version


def _place(locator: str) -> str:
    row = _ROW_OF_FILE.fullmatch(locator)
    return f"row {row[2]} of {row[1]}" if row else locator


async def show_connectors(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Show each connection, whether it is up, and its last records."""
    status = await context.services.status()
    connectors = context.services.settings.connectors

    def read(reader: Reader) -> dict[str, list[ListedRecord]]:
        return {name: reader.last_records(name, FEW_RECORDS) for name in connectors}

    return context.page(
        page_request,
        "connectors",
        connectors=connectors,
        states=status["connectors"],
        standby=status.get("standby"),
        records=await context.services.store.read(read),
        in_words=in_words,
    )


async def show_connector(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Show one connection: its runs, last records, throughput and settings."""
    name, own = _connector_of(context, page_request)
    status = await context.services.status()
    job = polling_job(name)
    runs, records, jobs = await context.services.store.read(
        lambda reader: (
            reader.source_runs(name),
            reader.last_records(name, MANY_RECORDS),
            reader.jobs(),
        )
    )
    now = context.services.clock.now()
    return context.page(
        page_request,
        "connector",
        name=name,
        connector=own,
        state=status["connectors"].get(name),
        deliveries=status.get("news", {}).get(name),
        standby=status.get("standby"),
        runs=runs[:MOST_RUNS],
        hour=_submitted(runs, to_text(now - timedelta(hours=1))),
        day=_submitted(runs, to_text(now - timedelta(days=1))),
        records=records,
        in_words=in_words,
        job=jobs.get((job, "")),
        next=status["jobs"].get(job),
        settings=effective_settings(own),
    )


def _submitted(runs: Sequence[SourceRun], since: str) -> int:
    """Return the records of the runs that ended since a time."""
    return sum(run.submitted for run in runs if run.last_at >= since)


def effective_settings(own: Connector) -> list[tuple[str, str]]:
    """Return the settings of a connection with defaults; secrets are masked."""
    known = {name: getattr(own, name) for name in type(own).model_fields}
    hidden = registry.secret_fields(own.type)
    return [
        (name, MASK if name in hidden and value else _shown(value))
        for name, value in {**known, **own.options}.items()
        if name != "options" and value is not None
    ]


def _shown(value: object) -> str:
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_shown(each)}" for name, each in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(_shown, value))
    return _URL_USER.sub(f"://{MASK}@", str(value))


async def run_connector(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Make a connection read its records now."""
    name = _named(context, page_request)
    done = await context.change(page_request, "connectors/run", name=name)
    counts = ", ".join(f"{n} {state}" for state, n in done["records"].items())
    result = counts or "no new records"
    page_request.session.add_notice("good", f"{name}: {result}.")
    return page_request.redirect("/connectors")


async def check_connector(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Test a connection; the test changes nothing."""
    name = _named(context, page_request)
    done = await context.change(page_request, "connectors/check", name=name)
    found = "; ".join(done["notices"])
    page_request.session.add_notice("good", f"{name}: ready. {found}".rstrip())
    return page_request.redirect(f"/connectors/{name}")


def _named(context: PageContext, page_request: PageRequest) -> str:
    name = page_request.form.get("name", "")
    if name not in context.services.settings.connectors:
        raise BackhaulError(
            f"no connection is called {name!r}; the page Connectors lists the names"
        )
    return name


def _connector_of(
    context: PageContext, page_request: PageRequest
) -> tuple[str, Connector]:
    name = page_request.request.match_info["name"]
    own = context.services.settings.connectors.get(name)
    if own is None:
        raise NotFound(f"No connection is called {name}.")
    return name, own


ROUTES = (
    Route("GET", "/connectors", Role.VIEWER, show_connectors),
    Route("POST", "/connectors/run", Role.OPERATOR, run_connector),
    Route("POST", "/connectors/check", Role.OPERATOR, check_connector),
    Route("GET", "/connectors/{name}", Role.VIEWER, show_connector),
)
