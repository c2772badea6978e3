"""Runs syncs of a daemon on demand, and compares the mirror with the platform."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx

from backhaul.app.control_socket import SOCKET_NAME
from backhaul.demo.daemon_rows import read_daemon_rows
from backhaul.demo.mirror_checks import check_mirror
from scenes.stored import passes, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scenes.daemon import Office

ON_DEMAND = """
[reconcile]
grace = "1ms"
[jobs.reconcile_incremental]
enabled = false
[jobs.reconcile_full]
enabled = false
"""
"""Settings that disable all scheduled syncs."""
DRIFTS = ("missed", "stale", "deleted", "foreign")
Found = dict[str, dict[str, int]]
Shown = dict[str, list[Any]]


async def reconcile(
    office: Office, job: str, kinds: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Let the daemon run a sync; return its finished passes."""
    path = office.folder / "state" / SOCKET_NAME
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    body = json.dumps({"job": job, "kinds": list(kinds)}).encode()
    async with httpx.AsyncClient(transport=transport, timeout=30) as client:
        answer = await client.post("http://backhaul/api/reconcile", content=body)
    assert answer.status_code == 200, answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]
    return [line for line in lines if "job" in line]


def full_syncs(database: Path) -> int:
    """Return how many passes of full syncs have ended; each list has its own."""
    ended = [one for one in passes(database) if one.job == "full" and one.ended_at]
    return len(ended)


def found_drift(runs: list[dict[str, Any]]) -> Found:
    """Return the drift that passes found, by list, without zeros."""
    found = {
        one["kind"]: {name: one[name] for name in DRIFTS if one[name]} for one in runs
    }
    return {kind: counts for kind, counts in found.items() if counts}


def differences(state: Any, database: Path) -> list[str]:
    """Compare every order, product, customer, level and move of both sides."""
    return [
        str(finding)
        for finding in check_mirror(state, read_daemon_rows(database, "main", "bench"))
    ]


def is_move(entry: Any) -> bool:
    """Return True unless the entry is the initial stock of a new product."""
    return bool(entry["reason"] != "INITIAL_STOCK")


def missed_changes(state: Any, database: Path) -> Found:
    """Count the rows that are missing or outdated in the mirror, by list."""
    books = read_daemon_rows(database, "main", "bench")
    held = {
        "orders": {row["id"]: row for row in books.orders},
        "products": {r["id"]: r for r in books.products if not r["deleted_at"]},
        "customers": {row["id"]: row for row in books.customers},
    }
    found: Found = {}
    for kind, ours in held.items():
        theirs = {row["id"]: row["updatedAt"] for row in state[kind]}
        stale = [i for i in theirs if i in ours and ours[i]["updated_at"] != theirs[i]]
        counts = {"missed": len(theirs.keys() - ours.keys()), "stale": len(stale)}
        found[kind] = {name: n for name, n in counts.items() if n}
    stock = {row["variant_id"]: row["stock"] for row in books.inventory_levels}
    theirs = {level["variantId"]: level["stock"] for level in state["levels"]}
    moved = {entry["variantId"] for entry in state["history"] if is_move(entry)}
    counts = {
        "missed": len((theirs.keys() & moved) - stock.keys()),
        "stale": sum(stock[i] != theirs[i] for i in theirs if i in stock),
    }
    found["levels"] = {name: n for name, n in counts.items() if n}
    return {kind: counts for kind, counts in found.items() if counts}


def shown_by_platform(state: Any) -> Shown:
    """Return the members that every platform shows, with any quirks."""
    items = [item for order in state["orders"] for item in order["items"]]
    parcels = [parcel for order in state["orders"] for parcel in order["shipments"]]
    variants = [variant for one in state["products"] for variant in one["variants"]]
    return {
        "orders": _sorted(state["orders"], "id", "status", "financialStatus"),
        "sent": _sorted(state["orders"], "id", "fulfillmentStatus"),
        "items": _sorted(items, "id", "quantity", "fulfilledQuantity"),
        "parcels": _sorted(parcels, "id", "trackingCompany", "trackingNumber"),
        "products": _sorted(state["products"], "id", "title", "status"),
        "variants": _sorted(variants, "id", "sku", "title"),
        "customers": _sorted(state["customers"], "id", "name", "email"),
        "levels": _sorted(state["levels"], "variantId", "stock"),
    }


def _sorted(objects: Sequence[Any], *members: str) -> list[Any]:
    return sorted(tuple(one[name] for name in members) for one in objects)


def shown_by_mirror(database: Path) -> Shown:
    """Return the same members from a mirror."""
    shown = {
        "orders": ("orders", "id", "status", "financial_status"),
        "sent": ("orders", "id", "fulfillment_status"),
        "items": ("order_items", "id", "quantity", "fulfilled_quantity"),
        "parcels": ("shipments", "id", "tracking_company", "tracking_number"),
        "variants": ("variants", "id", "sku", "title"),
        "customers": ("customers", "id", "name", "email"),
        "levels": ("inventory_levels", "variant_id", "stock"),
    }
    products = rows_of(database, "products", "id", "title", "status", deleted_at=None)
    found = {kind: sorted(rows_of(database, *asked)) for kind, asked in shown.items()}
    return found | {"products": sorted(products)}
