"""The parts of the daemon get what they need when they are constructed."""

from __future__ import annotations

import ast
import asyncio
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pytest

from backhaul.app.daemon import Daemon, Environment
from backhaul.app.jobs import Jobs
from backhaul.app.schedule import Schedule
from backhaul.app.store_runtime import StoreRuntime
from backhaul.app.wiring import Shared, build_shop
from backhaul.connect.http_routes import ConnectorRoutes
from backhaul.errors import BackhaulError
from backhaul.ingest.fold_worker import FoldWorker
from backhaul.ingest.webhook_secrets import SecretRegistry
from backhaul.runtime.signals import StoreContext, StoreSignals
from backhaul.settings import Settings
from scenes.clock import VirtualClock
from scenes.databases import started_store
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from backhaul.app.wiring import Shop

DAEMON = Path(__file__).resolve().parents[2] / "daemon/backhaul"
BUILDERS = ("daemon", "jobs", "monitoring", "offline", "store_runtime", "wiring")
MOST_ARGUMENTS = 7


def assigned(tree: ast.AST) -> Iterator[str]:
    """Yield each attribute that is assigned on an object other than `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            target = ast.unparse(node)
            if target != f"self.{node.attr}":
                yield target


@pytest.mark.parametrize("name", BUILDERS)
def test_the_wiring_assigns_no_attributes_to_the_parts(name: str) -> None:
    source = (DAEMON / f"app/{name}.py").read_text(encoding="utf-8")
    assert list(assigned(ast.parse(source))) == []


def test_an_assignment_from_outside_is_found() -> None:
    tree = ast.parse("self.a = 1\nself.b.done = c.wake\nd.done, self.e = f, g\n")
    assert list(assigned(tree)) == ["self.b.done", "d.done"]


def constructors(source: str) -> Iterator[tuple[str, int]]:
    """Yield each class that has a constructor, with the number of its arguments."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
                given = inner.args
                yield node.name, len(given.args) + len(given.kwonlyargs) - 1


def test_no_constructor_has_more_than_seven_arguments() -> None:
    found = [
        (path.name, *one)
        for path in DAEMON.rglob("*.py")
        for one in constructors(path.read_text(encoding="utf-8"))
    ]
    assert len(found) > 100
    assert [one for one in found if one[-1] > MOST_ARGUMENTS] == []


STORE = {"base_url": "http://localhost:1", "api_key": "svc_live_nobody_listens"}
SETTINGS = Settings.model_validate({"stores": {"main": STORE}})
WAKES = {
    "command_changed": {"dispatcher", "target_worker"},
    "adjustment_planned": {"dispatcher"},
    "command_uncertain": {"resolver"},
    "sending_resumed": {"dispatcher", "resolver", "target_worker"},
    "refetch_queued": {"refetcher"},
    "events_arrived": {"fold_worker"},
}
"""The work that each signal of a store wakes; without it, work waits 30 s."""


@pytest.fixture
async def built(tmp_path: Path) -> AsyncIterator[tuple[Shop, FoldWorker]]:
    """Return the parts of a store, as the daemon builds them, and the fold worker."""
    clock = VirtualClock()
    async with started_store(tmp_path / "backhaul.db", clock) as store:
        fold_worker = FoldWorker(store.inbox, clock, {})
        secrets = SecretRegistry(store.webhook_secrets, clock)
        shared = Shared(store, fold_worker, {}, secrets, {}, lambda _: None, None)
        context = StoreContext("main", clock, lambda: 0.5)
        shop = build_shop(SETTINGS, context, shared)
        yield shop, fold_worker
        await shop.client.transport.close()


@pytest.mark.parametrize("name", WAKES)
async def test_a_signal_wakes_the_loop_that_handles_it(
    name: str, built: tuple[Shop, FoldWorker]
) -> None:
    shop, fold_worker = built
    parts: dict[str, Any] = {
        "dispatcher": shop.sender.dispatcher,
        "resolver": shop.sender.resolver,
        "auditor": shop.sender.auditor,
        "target_worker": shop.target_worker,
        "refetcher": shop.refetcher,
        "fold_worker": fold_worker,
    }
    getattr(shop.sender.context.signals, name).emit()
    woken = {part for part, one in parts.items() if one._loop.is_woken}
    assert woken == WAKES[name]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("key_refused", "401 no"), ("other_store_found", "it is sto_2")],
)
async def test_a_problem_found_by_a_request_blocks_sending(
    name: str, reason: str, built: tuple[Shop, FoldWorker]
) -> None:
    sender = built[0].sender
    sender.dispatcher.switch.release()
    getattr(sender.context.signals, name).emit(reason)
    assert sender.dispatcher.state()["stopped"] == {"everything": reason}


PLANNED = {"retry", "commands of main", "commands of other"}
SHARED_WAKES = {
    "events_folded": {"indexer", "sink", *PLANNED},
    "records_accepted": PLANNED,
    "operator_decided": {"sink", "resolver of main", "resolver of other", *PLANNED},
    "conflict_found": {"refetcher of main", "refetcher of other"},
    "search_changed": {"indexer"},
}


Connected: TypeAlias = "tuple[Daemon, dict[str, StoreRuntime]]"


def connected(woken: set[str]) -> Connected:
    """Return a daemon and two stores whose parts only record that they were woken."""

    def part(name: str) -> Any:
        return SimpleNamespace(wake=lambda: woken.add(name))

    daemon = Daemon(SETTINGS, Environment(VirtualClock()))
    daemon._indexer, daemon._waiting = part("indexer"), part("retry")
    daemon._connect_signals()
    process: Any = SimpleNamespace(
        signals=daemon._signals,
        retry_unmatched=daemon._waiting.wake,
        routes=ConnectorRoutes(),
    )
    stores = {}
    for store in ("main", "other"):
        runtime = stores[store] = StoreRuntime.__new__(StoreRuntime)
        runtime._process, runtime._connected = process, ExitStack()
        runtime.sinks, runtime.hosts = [part("sink")], []
        signals = StoreSignals()
        signals.command_changed.connect(part(f"commands of {store}").wake)
        context = StoreContext(store, VirtualClock(), lambda: 0.5, signals)
        sender: Any = SimpleNamespace(
            context=context, resolver=part(f"resolver of {store}")
        )
        shop: Any = SimpleNamespace(
            sender=sender, refetcher=part(f"refetcher of {store}")
        )
        runtime.shop = shop
        runtime._connect_signals()
    return daemon, stores


@pytest.mark.parametrize("name", SHARED_WAKES)
async def test_a_shared_signal_wakes_the_parts_of_every_store(name: str) -> None:
    woken: set[str] = set()
    daemon, _stores = connected(woken)
    getattr(daemon._signals, name).emit()
    assert woken == SHARED_WAKES[name]


@pytest.mark.parametrize("name", SHARED_WAKES)
async def test_a_shared_signal_wakes_no_part_of_a_store_that_stopped(
    name: str,
) -> None:
    woken: set[str] = set()
    daemon, stores = connected(woken)
    for runtime in stores.values():
        await runtime.disconnect()
    getattr(daemon._signals, name).emit()
    assert woken == SHARED_WAKES[name] & {"indexer", "retry"}


async def test_records_of_a_connection_wake_their_own_store() -> None:
    woken: set[str] = set()
    _, stores = connected(woken)
    stores["other"].shop.sender.context.signals.records_accepted.emit()
    assert woken == {"retry", "commands of other"}


class UnknownRuns:
    """Job runs of a database that is away; `asked` says that somebody waits for it."""

    def __init__(self) -> None:
        self.asked = False

    async def register(self, *_: Any, **__: Any) -> dict[Any, Any]:
        self.asked = True
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_store_that_is_given_up_before_its_jobs_are_loaded_comes_back(
    built: tuple[Shop, FoldWorker],
) -> None:
    shop, _ = built
    clock, runs = VirtualClock(), UnknownRuns()
    schedule = Schedule(clock, lambda: 0.5)
    schedule.start()
    jobs = Jobs(SETTINGS, cast("Any", runs), clock, schedule)
    process: Any = SimpleNamespace(
        clock=clock,
        jobs=jobs,
        signals=Daemon(SETTINGS, Environment(clock))._signals,
        matcher=SimpleNamespace(hold=lambda _: None),
        retry_unmatched=lambda: None,
        routes=ConnectorRoutes(),
    )
    for _ in range(2):
        runtime = StoreRuntime.__new__(StoreRuntime)
        runtime.name, runtime.shop, runtime._process = "main", shop, process
        runtime._store = shop_store = cast("Any", SimpleNamespace())
        shop_store.ownership = SimpleNamespace(is_shared=True)
        runtime._connected, runtime.sinks, runtime.hosts = ExitStack(), [], []
        connecting = asyncio.create_task(runtime.connect())
        await until(lambda: runs.asked or connecting.done(), "jobs are loaded")  # noqa: B023
        runs.asked = False
        connecting.cancel()
        with suppress(asyncio.CancelledError):
            await connecting
        await runtime.disconnect()
    schedule.stop()


async def test_the_jobs_of_a_store_that_is_given_up_meanwhile_are_not_loaded(
    built: tuple[Shop, FoldWorker],
) -> None:
    class Slow:
        async def register(self, *_: Any, **__: Any) -> dict[Any, Any]:
            jobs.leave("main", ())
            return {}

    jobs = Jobs(SETTINGS, cast("Any", Slow()), VirtualClock())
    jobs.sends("main", built[0].sender.dispatcher)
    await jobs.load("main", alone=False)
    with pytest.raises(BackhaulError, match="no daemon runs"):
        await jobs.run("push_fulfillments", "main", "vera")
