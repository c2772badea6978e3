"""Current problems, worst first, each with the command to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.cli.output import Line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

UNREADABLE_SHOWN = 3
TOPICS_SHOWN = 3
UNKNOWN = "unknown"
"""The name under which the daemon counts webhooks for unknown stores."""
REFUSALS: Mapping[str, str] = {
    "encoded": "compressed (415)",
    "large": "too large (413)",
    "refused": "with a wrong signature (401)",
    "doubled": "with several signatures (401)",
    "unsigned": "without a signature (401)",
    "slow": "too slow (408)",
    "busy": "while the daemon was busy (503)",
}
"""The words for each kind of refusal, with the status of the response."""
LEAST_FREE_BYTES = 1_000_000_000
"""With less space, a backup or a night of log lines may not fit."""


def problems(found: Mapping[str, Any]) -> Iterator[Line]:
    """Yield a line for each problem; `found` is the output of `status --json`."""
    live = found["daemon"] or {}
    yield from _stopped(live.get("stores", {}))
    yield from _parked(found)
    for incident in found["incidents"]:
        resolve = f"backhaul incidents resolve {incident['id']} --reason …"
        yield Line("incident", incident["says"], resolve, "fail")
    yield from _unknown_statuses(found["unknown_statuses"])
    for name, why in found["targets_stopped"].items():
        resume = f"backhaul stock resume {name}"
        yield Line(f"counts of {name}", f"stopped: {why}", resume, "fail")
    yield from _down(live)
    yield from _unreadable(found["unreadable_orders"])
    yield from _unknown_topics(found["unknown_topics"])
    yield from _refused(live.get("refused", {}))
    yield from _quarantined(found)
    yield from _notices(live)
    for name, said in live.get("subscriptions", {}).items():
        if said:
            yield Line(f"webhooks of {name}", said, "backhaul doctor", "fail")
    yield from _paused(found["jobs"])
    if found["disk"]["free_bytes"] < LEAST_FREE_BYTES:
        free = found["disk"]["free_bytes"] // 1_000_000
        yield Line("disk", f"only {free} MB are free", "backhaul doctor", "fail")


def _stopped(stores: Mapping[str, Any]) -> Iterator[Line]:
    for name, store in stores.items():
        for what, why in store["stopped"].items():
            says = f"{what} waits: {why}"
            yield Line(f"store {name}", says, "backhaul doctor", "fail")
        if pause := store.get("paused"):
            says = f"paused until {pause['until']}: {pause['reason']}"
            yield Line(f"store {name}", says, "backhaul doctor", "warn")


def _parked(found: Mapping[str, Any]) -> Iterator[Line]:
    shown = found["parked"]
    for each in shown:
        says = f"{each['kind']} {each['about'] or each['target']}: {each['reason']}"
        show = f"backhaul commands show {each['id'][:8]}"
        yield Line("parked", says, show, "parked")
    if (more := found["commands"].get("parked", 0) - len(shown)) > 0:
        listed = "backhaul commands list --state parked"
        yield Line("parked", f"and {more} more", listed, "parked")


def _unknown_statuses(unknown: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    for each in unknown:
        more = f" and {each['orders'] - 1:,} more" if each["orders"] > 1 else ""
        says = (
            f"financial status {each['status']!r} is unknown: order"
            f" {each['example']}{more} not released to connectors that wait for"
            " payment; ask the platform what it means"
        )
        why = f"backhaul why order {str(each['example']).removeprefix('#')}"
        yield Line(f"payment at {each['store']}", says, why, "warn")


def _down(live: Mapping[str, Any]) -> Iterator[Line]:
    for name, each in live.get("connectors", {}).items():
        if not each["up"]:
            check = f"backhaul connectors check {name}"
            yield Line(f"connector {name}", f"down: {each['reason']}", check, "fail")
    for name, each in live.get("news", {}).items():
        if not each["up"]:
            listed = f"backhaul connectors deliveries {name}"
            yield Line(f"delivery to {name}", f"down: {each['reason']}", listed, "fail")


def _notices(live: Mapping[str, Any]) -> Iterator[Line]:
    for name, each in live.get("connectors", {}).items():
        for notice in each.get("notices", ()):
            check = f"backhaul connectors check {name}"
            yield Line(f"connector {name}", notice, check, "warn")


def _unreadable(orders: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    for order in orders[:UNREADABLE_SHOWN]:
        name = str(order["name"]).removeprefix("#")
        waiting = order["commands"]
        commands = f"{waiting} command{'' if waiting == 1 else 's'} of the order wait"
        says = (
            f"event {order['event']} of {order['name']} could not be read; {commands}"
        )
        yield Line("unreadable", says, f"backhaul why order {name}", "fail")
    if (more := len(orders) - UNREADABLE_SHOWN) > 0:
        says = f"and {more} more orders"
        yield Line("unreadable", says, "backhaul quarantine list", "fail")


def _unknown_topics(topics: Mapping[str, int]) -> Iterator[Line]:
    """Yield the unknown topics of the last hour, the most frequent first."""
    if not topics:
        return
    number = sum(topics.values())
    names = [topic or "no topic" for topic in topics][:TOPICS_SHOWN]
    more = ", …" if len(topics) > TOPICS_SHOWN else ""
    deliveries = "delivery" if number == 1 else "deliveries"
    says = f"{number:,} {deliveries} of unknown topics in the last hour"
    says += f" ({', '.join(names)}{more})"
    yield Line("topics", says, "backhaul events list --state unhandled", "warn")


def _refused(stores: Mapping[str, Mapping[str, int]]) -> Iterator[Line]:
    """Yield how many webhooks of the last hour each store's address refused, and why.

    Requests to no store's address are not a problem.
    """
    for name, answers in stores.items():
        if name == UNKNOWN:
            continue
        number = sum(answers.values())
        kinds = sorted(answers.items(), key=lambda each: -each[1])
        why = ", ".join(f"{n:,} {REFUSALS.get(kind, kind)}" for kind, n in kinds)
        deliveries = "delivery" if number == 1 else "deliveries"
        says = f"{number:,} {deliveries} refused in the last hour: {why}"
        yield Line(f"webhooks of {name}", says, "backhaul doctor", "warn")


def _quarantined(found: Mapping[str, Any]) -> Iterator[Line]:
    if rows := found["quarantined"]:
        says = f"{rows} in quarantine"
        yield Line("quarantine", says, "backhaul quarantine list", "fail")
    for name, each in found["connectors"].items():
        if parked := each["deliveries_parked"]:
            listed = f"backhaul connectors deliveries {name} --state parked"
            yield Line(f"delivery to {name}", f"{parked} parked", listed, "parked")


def _paused(jobs: list[dict[str, Any]]) -> Iterator[Line]:
    for job in jobs:
        if job["paused_at"]:
            name = job["job"] + (f" --store {job['store']}" if job["store"] else "")
            resume = f"backhaul jobs resume {name}"
            yield Line("job paused", job["job"], resume, "warn")
