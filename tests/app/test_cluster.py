"""How a daemon takes ownership of stores, runs their parts, and releases them."""

from __future__ import annotations

import asyncio
import math
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.app import cluster
from backhaul.app.cluster import BALANCE_SECONDS, LEAST_BALANCE_SECONDS, OwnedStores
from backhaul.app.daemon import Daemon
from backhaul.cli import context
from backhaul.core.clock import SystemClock
from backhaul.errors import Busy, Superseded
from backhaul.settings import Settings
from backhaul.store.ownership import DATABASE, Shift, SoleOwner
from scenes.clock import VirtualClock
from scenes.silent_platform import office_with_known_store
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.core.clock import Clock


class Shared(SoleOwner):
    """Assigns this member the stores that a test puts into `shift`."""

    is_shared = True

    def __init__(self, *taken: str) -> None:
        super().__init__()
        self.shift = Shift((DATABASE, *taken))
        self.folded: list[str] = []
        self.given_up: list[str] = []
        self.is_away = False

    async def balance(self) -> Shift:
        shift = self.shift
        self.shift = Shift((), shift.surplus, shift.silent_seconds)
        return shift

    def begin_folding(self, store: str) -> None:
        self.folded.append(store)

    async def give_up(self, store: str) -> None:
        if self.is_away:
            raise Busy("the database is away")
        self.given_up.append(store)
        self.shift = Shift()


class Away(Shared):
    """Cannot join while the database is away."""

    tries = 0

    async def join(self, *_: object) -> None:
        self.tries += 1
        if self.is_away:
            raise Busy("the database is away")


async def test_a_daemon_that_starts_without_the_database_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[object] = []

    async def refuse(*given: object) -> None:
        tries.append(given)
        raise Busy("the database is away")

    monkeypatch.setattr(SoleOwner, "join", refuse)
    async with office_with_known_store() as office:
        daemon = Daemon(context.settings(office.config))
        running = asyncio.create_task(daemon.run())
        await until(lambda: len(tries) > 1, "it tries again")
        daemon.stop()
        async with asyncio.timeout(HANG_SECONDS):
            await running
    assert not daemon.ready.is_set()


async def test_a_daemon_joins_once_the_database_is_back() -> None:
    settings: Any = SimpleNamespace(stores={}, pins={})
    away = Away()
    away.is_away = True
    clock = VirtualClock()
    joining = asyncio.create_task(cluster.join(away, settings, clock, asyncio.Event()))
    for is_away in (True, False):
        await clock.await_sleeper()
        assert not joining.done()
        away.is_away = is_away
        await clock.advance(60)
    assert await joining is True


class Parts:
    """The parts of a store; its platform may hang."""

    def __init__(self, name: str, log: list[str], *, hangs: bool) -> None:
        self.name = name
        self.shop: Any = SimpleNamespace(name=name)
        self._log = log
        self._hangs = hangs

    async def prepare(self) -> None:
        if self._hangs:
            await asyncio.Event().wait()

    async def connect(self) -> None:
        self._log.append(f"connect {self.name}")

    async def run(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self._log.append(f"stop {self.name}")

    def wake(self) -> None:
        self._log.append(f"run {self.name}")

    async def disconnect(self) -> None:
        self._log.append(f"disconnect {self.name}")

    async def close(self) -> None:
        self._log.append(f"close {self.name}")


class Scene:
    """The stores of one daemon, and the parts that it started and stopped."""

    def __init__(
        self, *taken: str, hanging: str = "", clock: Clock | None = None
    ) -> None:
        self.log: list[str] = []
        self.ownership = Shared(*taken)
        self.stopping = asyncio.Event()

        def build(name: str) -> Any:
            return Parts(name, self.log, hangs=name == hanging)

        async def on_database() -> None:
            self.log.append("database")

        self.stores = OwnedStores(
            self.ownership, clock or SystemClock(), build, on_database, self.stopping
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.stores.start()
        task = asyncio.create_task(self.stores.run())
        try:
            yield
        finally:
            self.stopping.set()
            await task
            await self.stores.close()

    async def logged(self, *lines: str) -> None:
        await until(lambda: {*lines} <= {*self.log}, f"{lines} in {self.log}")


async def test_a_platform_that_hangs_holds_up_no_other_store() -> None:
    scene = Scene("bad", "good", hanging="bad")
    async with scene.running():
        await scene.logged("run good")
        assert scene.ownership.folded == ["good"]
        scene.ownership.shift = Shift(("later",))
        await scene.logged("run later")
        assert scene.ownership.folded == ["good", "later"]
    assert "connect bad" not in scene.log, "a stop ends the waiting for it"
    assert "close bad" in scene.log


async def test_the_stores_of_the_start_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene("main", "other")
    async with scene.running():
        await scene.stores.wait_ready()
        assert sorted(scene.ownership.folded) == ["main", "other"]
    monkeypatch.setattr(cluster, "FIRST_CONTACT_SECONDS", 0.01)
    hanging = Scene("bad", hanging="bad")
    async with hanging.running():
        await hanging.stores.wait_ready()
        assert hanging.ownership.folded == []


async def test_a_store_whose_platform_hangs_can_be_released() -> None:
    scene = Scene("bad", hanging="bad")
    async with scene.running():
        scene.ownership.shift = Shift((), ("bad",))
        await until(lambda: scene.ownership.given_up == ["bad"], "it is given up")
        assert scene.stores.runtimes == {}


async def test_a_store_is_released_after_the_requests_under_way() -> None:
    scene = Scene("main", "other")
    async with scene.running():
        await scene.logged("run main", "run other")
        with scene.stores.using("main"):
            scene.ownership.shift = Shift((), ("main",))
            await until(lambda: _refuses(scene), "new requests are refused")
            with scene.stores.using("other"):
                assert "disconnect main" not in scene.log
            # the request does not block the work of others
            scene.ownership.shift = Shift(("later",), ("main",))
            await scene.logged("run later")
            assert scene.ownership.given_up == []
        await until(lambda: scene.ownership.given_up == ["main"], "it is given up")
        ends = [line for line in scene.log if line.endswith(" main")][-3:]
        assert ends == ["disconnect main", "stop main", "close main"]
        assert scene.stores.shops.keys() == {"other", "later"}


def _refuses(scene: Scene) -> bool:
    try:
        with scene.stores.using("main"):
            return False
    except Busy as error:
        assert "another daemon takes store main" in str(error)  # noqa: PT017 - its text
        return True


@pytest.mark.parametrize("is_away", [True, False])
async def test_a_stop_does_not_wait_for_the_release_of_a_store(
    is_away: bool,
) -> None:
    scene = Scene("main")
    scene.ownership.is_away = is_away
    async with scene.running():
        await scene.logged("run main")
        if is_away:
            scene.ownership.shift = Shift((), ("main",))
            await scene.logged("close main")
        else:
            held = scene.stores.using("main")
            held.__enter__()
            scene.ownership.shift = Shift((), ("main",))
            await until(lambda: _refuses(scene), "it waits for the request")
    assert scene.ownership.given_up == []
    assert scene.log.count("stop main") == 1


async def test_a_store_that_is_released_meanwhile_is_not_released_again() -> None:
    """What a balance read may be older than the release of the store."""
    scene = Scene("main", "other")
    async with scene.running():
        await scene.logged("run main", "run other")
        scene.ownership.shift = Shift((), ("main",))
        await until(lambda: scene.ownership.given_up == ["main"], "it is given up")
        scene.ownership.shift = Shift(("later",), ("main",))
        await scene.logged("run later")
        await until(lambda: not scene.ownership.shift.taken, "the shift was taken")
        assert scene.ownership.given_up == ["main"]
        assert scene.stores.shops.keys() == {"other", "later"}


async def test_a_store_that_comes_back_runs_again() -> None:
    scene = Scene("main")
    async with scene.running():
        await scene.logged("run main")
        scene.ownership.shift = Shift((), ("main",))
        await until(lambda: scene.ownership.given_up == ["main"], "it is given up")
        scene.ownership.shift = Shift(("main",))
        await until(lambda: scene.log.count("run main") == 2, "it runs again")
        with scene.stores.using("main"):
            pass


@pytest.mark.parametrize(
    ("silent_seconds", "wait"),
    [
        (math.inf, BALANCE_SECONDS),
        (2.0, BALANCE_SECONDS),
        (0.1, 0.1 + LEAST_BALANCE_SECONDS),
        (0.0, LEAST_BALANCE_SECONDS),
    ],
)
async def test_ownership_is_checked_again_when_another_member_is_silent(
    silent_seconds: float, wait: float
) -> None:
    clock = VirtualClock()
    scene = Scene(clock=clock)
    scene.ownership.shift = Shift(silent_seconds=silent_seconds)
    running = asyncio.create_task(scene.stores.run())
    await clock.await_sleeper(BALANCE_SECONDS)
    clock.slept.clear()
    await clock.advance(BALANCE_SECONDS)
    await until(lambda: clock.slept, "it waits for the next check")
    scene.stopping.set()
    await running
    assert clock.slept == [pytest.approx(wait)]


async def test_a_writer_that_ends_during_the_start_ends_the_daemon() -> None:
    """Otherwise the start would wait for it for ever: all writes are refused."""

    async def end() -> None:
        raise Superseded("another daemon took over")

    keep = asyncio.Event().wait
    store: Any = SimpleNamespace(watch=end, ownership=SimpleNamespace(keep=keep))
    with pytest.raises(Superseded):
        async with asyncio.timeout(HANG_SECONDS), cluster.kept(store):
            await asyncio.Event().wait()


@pytest.mark.parametrize("durability", ["quorum", "single"])
def test_a_member_needs_the_quorum_of_the_settings(
    durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "require_durability", lambda _: None)
    settings = Settings.model_validate(
        {
            "database": {"url": "postgresql://backhaul@127.0.0.1:1/backhaul"},
            "cluster": {"durability": durability},
            "stores": {"main": {"base_url": "http://shop.test", "api_key": "svc_1"}},
        }
    )
    member = cluster.joining(settings)
    assert member is not None
    assert member.quorum == (durability == "quorum")
