"""Connectors whose behaviour a test scripts, and hosts that run them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, SecretStr

from backhaul.connect.host import Host
from backhaul.connect.polling import PollSchedule
from backhaul.connect.record_matching import Matcher
from backhaul.runtime.signals import StoreContext, no_report
from backhaul_sdk import Batch, Capability, Connector, Fulfillment, Spec, StockLevel
from scenes.clock import RunningClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store import Store
    from backhaul.store.operations import ReportEnd
    from backhaul_sdk import Emit, Rejection, Route


class Options(BaseModel):
    """The settings of the connector."""

    model_config = ConfigDict(extra="forbid")

    folder: str = "here"
    rows: int = 1
    password: SecretStr = SecretStr("")


class ScriptedConnector(Connector[Options]):
    """Yields the batches in `waiting`; raises the exceptions there."""

    spec = Spec(
        name="desk",
        version="1",
        summary="for tests",
        capabilities=frozenset(Capability),
        settings=Options,
        secret_fields=frozenset({"password"}),
    )

    def __init__(self, instance: str = "desk", settings: Options | None = None) -> None:
        super().__init__(instance, settings or Options())
        self.waiting: deque[Batch | Exception] = deque()
        self.cursors: list[str | None] = []
        self.reported: list[Rejection] = []
        self.report_fails: Exception | None = None
        self.routes: Sequence[Route] = ()
        self.emit: Emit | None = None
        self.closed = 0

    async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
        self.cursors.append(cursor)
        while self.waiting:
            given = self.waiting.popleft()
            if isinstance(given, Exception):
                raise given
            yield given

    async def listen(self, emit: Emit) -> Sequence[Route]:
        self.emit = emit
        return self.routes

    async def report(self, rejections: Sequence[Rejection]) -> None:
        if self.report_fails is not None:
            raise self.report_fails
        self.reported += rejections

    async def close(self) -> None:
        self.closed += 1


class ReportsChanges(ScriptedConnector):
    """A source that submits each stock count once, and all of them on request.

    Each quantity is 5, as of `now`.
    """

    def __init__(self, skus: Sequence[str], now: Callable[[], str]) -> None:
        super().__init__("erp")
        self.skus = skus
        self.now = now
        self.restarted = 0

    def restart_stock(self, cursor: str | None) -> str | None:
        self.restarted += 1
        return "all"

    async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
        if cursor == "all":
            at = self.now()
            counts = [
                StockLevel(key=f"{sku} {at}", sku=sku, quantity=5, as_of=at)
                for sku in self.skus
            ]
            yield Batch(records=counts, cursor="changes")


def host_of(
    desk: Connector[Any],
    store: Store,
    *,
    every_seconds: float | None = 0.01,
    wait_seconds: float = 600.0,
    clock: Clock | None = None,
    planned: list[str] | None = None,
    report: ReportEnd = no_report,
    held: bool = False,
) -> Host:
    """Return the host that runs a connector; `held`: the mirror is incomplete."""
    used = clock or RunningClock()
    told: list[str] = [] if planned is None else planned
    context = StoreContext("main", used, lambda: 1.0)
    context.signals.records_accepted.connect(lambda: told.append(desk.instance))
    polls, matcher = PollSchedule(used, every_seconds), Matcher(used, wait_seconds)
    if held:
        matcher.hold([context.name])
    records, documents = store.records, store.documents
    return Host(desk, context, polls, records, documents, matcher, report)


def fulfillment_record(
    key: str = "k1", order: str = "1001", **members: Any
) -> Fulfillment:
    parcel: dict[str, Any] = {"tracking_company": "BlueDart", "tracking_number": "BD1"}
    members = parcel | members
    members = {"locator": f"file.csv:{key}", "raw": f"{order};BD1"} | members
    members.setdefault("everything", not members.get("lines"))
    return Fulfillment(key=key, order=order, **members)
