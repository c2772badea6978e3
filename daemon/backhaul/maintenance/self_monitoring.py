"""Heartbeat, event-loop lag, and a row of metric samples per minute."""

from __future__ import annotations

from collections import Counter, deque
from datetime import timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec
from loguru import logger
from msgspec import Struct

from backhaul.core.clock import from_text, to_text
from backhaul.core.histogram import to_text as to_json
from backhaul.errors import Busy
from backhaul.observe.metrics import GaugeValue
from backhaul.store.operations import MetricSample

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.observe.metrics import Metrics
    from backhaul.store.operations import Gauge, KeyValues, MetricSamples
    from backhaul.store.ownership import KnownMember, StoreOwner


HEARTBEAT_SECONDS = 15.0
WAKE_SECONDS = 1.0
MARK = "heartbeat"
SLOW_SECONDS = 30.0
"""A heartbeat that takes longer is logged: disk, processor or lock is slow."""


class Heartbeat:
    """Tests periodically that writes become durable and events are folded.

    A heartbeat is a durable write, followed by a wait until every event that has
    arrived is folded. If it does not succeed, its age grows and monitoring alarms,
    even if no part has reported an error.
    """

    def __init__(
        self,
        marks: KeyValues,
        caught_up: Callable[[], Awaitable[None]],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._marks = marks
        self._caught_up = caught_up
        self._metrics = metrics
        self._clock = clock
        self.last_beat: float | None = None

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            began = self._clock.monotonic()
            try:
                await self._marks.put(MARK, to_text(self._clock.now()))
                await self._caught_up()
            except Busy as error:
                logger.bind(action="heartbeat.busy").warning("{}", error)
            else:
                self._came_through(self._clock.monotonic() - began)
            await self._clock.sleep(HEARTBEAT_SECONDS)

    def _came_through(self, seconds: float) -> None:
        self._metrics.time("heartbeat_seconds", seconds)
        self.last_beat = self._clock.now().timestamp()
        if seconds >= SLOW_SECONDS:
            logger.bind(action="heartbeat.slow", seconds=round(seconds, 1)).warning(
                "the heartbeat took {:.0f} s until it was durable and folded", seconds
            )

    async def watch_loop(self) -> None:
        """Measure the lag of the event loop every second until cancelled."""
        while True:
            due = self._clock.monotonic() + WAKE_SECONDS
            await self._clock.sleep(WAKE_SECONDS)
            late = max(self._clock.monotonic() - due, 0.0)
            self._metrics.time("loop_lag_seconds", late)


def readings(status: Mapping[str, Any], last_beat: float | None) -> list[GaugeValue]:
    """Return metrics from the daemon's status."""
    started = from_text(status["started_at"]).timestamp()
    found = [
        GaugeValue("up_since_timestamp_seconds", started),
        GaugeValue("webhooks_spooled", status["spooled"]),
    ]
    if last_beat is not None:
        found.append(GaugeValue("heartbeat_timestamp_seconds", last_beat))
    for name, store in status["stores"].items():
        found += [
            GaugeValue("sending_stopped", 1, (name, kind)) for kind in store["stopped"]
        ]
    for name, instance in status["connectors"].items():
        found.append(GaugeValue("connector_up", float(instance["up"]), (name,)))
    return found


def cluster(
    members: Sequence[KnownMember], owners: Sequence[StoreOwner]
) -> list[GaugeValue]:
    """Return metrics about the daemons on one database; none of a file."""
    if not members:
        return []
    states = Counter(_state(each) for each in members)
    found = [
        GaugeValue("cluster_members", states[state], (state,))
        for state in ("owner", "standby", "silent")
    ]
    owned = Counter[str]()
    for each in members:
        owned[each.host] += each.stores
    found += [GaugeValue("owned_stores", owned[host], (host,)) for host in owned]
    unowned = sum(each.member is None for each in owners)
    takeovers = sum(each.epoch for each in owners)
    found.append(GaugeValue("unowned_stores", unowned))
    return [*found, GaugeValue("store_takeovers", takeovers)]


def _state(member: KnownMember) -> str:
    if not member.is_alive:
        return "silent"
    return "owner" if member.is_owner else "standby"


TICK_SECONDS = 5.0
TICKS_A_MINUTE = 12
RATE_MINUTES = 5
"""The rates are means of so many minutes: they do not jump, nor fall to 0 at once."""
RECOUNT_MINUTES = 10
QUICKLY_COUNTED = 50_000
KEPT = timedelta(days=8)


class _Counted(Struct, frozen=True):
    """The counters at one moment."""

    at: float
    webhooks: int
    folded: int
    sent: int
    applied: int
    records: int
    deliveries: int


class _Detail(Struct, frozen=True):
    """What the samples hold beside the rates, at one moment."""

    requests: int
    failed_events: int
    failed_commands: int
    failed_deliveries: int
    failed_requests: int
    applied_times: Counter[int]
    sent_times: Counter[int]
    platform_times: Counter[int]


RATES = ("webhooks", "folded", "sent", "applied", "records", "deliveries")
_NOT_SENT = "planned"
_NOT_NEW = frozenset({"duplicate", "conflict"})
_DETAILS = _Detail.__struct_fields__
_FAILED = frozenset({"rejected", "parked"})
_QUARANTINED = "quarantined"


class Sampler:
    """Keeps the rates and samples that the dashboard shows.

    Each of several daemons on one database stores what it counts itself. `is_ours`
    returns whether this daemon also stores what waits in the database.
    """

    def __init__(
        self,
        samples: MetricSamples,
        gauges: Callable[[], Awaitable[Sequence[Gauge]]],
        metrics: Metrics,
        clock: Clock,
        is_ours: Callable[[], bool] = lambda: True,
    ) -> None:
        self._samples = samples
        self._is_ours = is_ours
        self._member = token_hex(4)
        self._gauges = gauges
        self._metrics = metrics
        self._clock = clock
        self._seen: deque[_Counted] = deque(maxlen=RATE_MINUTES * TICKS_A_MINUTE + 1)
        self.mirrored: Mapping[str, int] = {}

    async def run(self) -> None:
        """Take samples until cancelled."""
        minutes = 0
        self._seen.append(self._count())
        detail = self._detail()
        while True:
            for tick in range(TICKS_A_MINUTE):
                if self._is_quick() or (tick == 0 and minutes % RECOUNT_MINUTES == 0):
                    self.mirrored = (
                        await self._samples.count_mirrored() or self.mirrored
                    )
                await self._clock.sleep(TICK_SECONDS)
                self._seen.append(self._count())
            minutes += 1
            before, detail = detail, self._detail()
            await self._keep(before, detail)

    def _is_quick(self) -> bool:
        """Return whether counting the mirror's rows is cheap."""
        return sum(self.mirrored.values()) < QUICKLY_COUNTED

    def rates(self) -> dict[str, float]:
        """Return the rates per minute: their means since a start, at most 5 minutes."""
        now = self._count()
        then = self._seen[0] if self._seen else now
        minutes = max((now.at - then.at) / 60, 1 / 60)
        return {
            name: (getattr(now, name) - getattr(then, name)) / minutes for name in RATES
        }

    def _count(self) -> _Counted:
        metrics = self._metrics
        kept = metrics.counter("webhooks_total")
        came_to = metrics.counter("commands_total")
        stored = metrics.counter("records_total")
        delivered = metrics.counter("deliveries_total")
        return _Counted(
            self._clock.monotonic(),
            sum(n for (_, answer), n in kept.items() if answer == "kept"),
            sum(metrics.counter("events_folded_total").values()),
            sum(n for (*_, state), n in came_to.items() if state != _NOT_SENT),
            sum(n for (*_, state), n in came_to.items() if state == "applied"),
            sum(n for (_, state), n in stored.items() if state not in _NOT_NEW),
            sum(n for (_, state), n in delivered.items() if state != _NOT_SENT),
        )

    def _detail(self) -> _Detail:
        metrics = self._metrics
        asked = metrics.counter("platform_requests_total")
        return _Detail(
            sum(asked.values()),
            metrics.counter("fold_problems_total")[_QUARANTINED,],
            _failed(metrics.counter("commands_total")),
            _failed(metrics.counter("deliveries_total")),
            sum(n for (*_, status), n in asked.items() if not _is_good(status)),
            metrics.buckets("event_applied_seconds"),
            metrics.buckets("command_sent_seconds"),
            metrics.buckets("platform_seconds"),
        )

    async def _keep(self, before: _Detail, detail: _Detail) -> None:
        then, now = self._seen[-1 - TICKS_A_MINUTE], self._seen[-1]
        moment = self._clock.now()
        counted = {
            "at": to_text(moment),
            "member": self._member,
            "webhooks": now.webhooks - then.webhooks,
            "events": now.folded - then.folded,
            "commands": now.sent - then.sent,
            "records": now.records - then.records,
            "deliveries": now.deliveries - then.deliveries,
        }
        grown = {name: _grown(before, detail, name) for name in _DETAILS}
        waits = _backlog(await self._gauges()) if self._is_ours() else {}
        sample = msgspec.convert({**counted, **grown, **waits}, MetricSample)
        try:
            await self._samples.add(sample, to_text(moment - KEPT))
        except Busy as error:
            logger.bind(action="samples.busy").debug("{}", error)


def _failed(counter: Mapping[tuple[str, ...], int]) -> int:
    return sum(n for (*_, state), n in counter.items() if state in _FAILED)


def _is_good(status: str) -> bool:
    """Return whether an answer is an expected one; 404 says that an object is gone."""
    return status.startswith(("2", "3")) or status == "404"


def _grown(before: _Detail, detail: _Detail, name: str) -> int | str:
    """Return how much a counter grew, or the durations that were added, as text."""
    then, now = getattr(before, name), getattr(detail, name)
    grown: int | str = to_json(now - then) if isinstance(now, Counter) else now - then
    return grown


def _backlog(gauges: Sequence[Gauge]) -> dict[str, int]:
    return {
        "events_waiting": _sum(gauges, "events_waiting"),
        "commands_open": _sum(
            gauges, "commands_open", "planned", "sending", "uncertain"
        ),
        "commands_parked": _sum(gauges, "commands_open", "parked"),
        "deliveries_open": _sum(gauges, "deliveries_open"),
        "quarantined": _sum(gauges, "quarantine_rows"),
    }


def _sum(gauges: Sequence[Gauge], name: str, *states: str) -> int:
    return int(
        sum(
            value
            for found, value, labels in gauges
            if found == name and (not states or labels[-1] in states)
        )
    )
