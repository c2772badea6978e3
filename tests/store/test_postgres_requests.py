"""The owner carries out an operator's request to any member once or not at all.

The members of these tests share one process; `tests/app/test_takeover.py` runs daemons.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.app import requests
from backhaul.app.actions import combined
from backhaul.app.monitoring import StatePublisher, merged, unpublished
from backhaul.app.requests import (
    Relay,
    RelayedSync,
    RequestWorker,
    Router,
)
from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError, Busy
from backhaul.settings import Settings
from backhaul.store.operators import RequestState
from backhaul.store.ownership import DATABASE, ROLES, Member
from backhaul.store.postgres.database import PostgresStore, open_store
from backhaul.store.postgres.ownership import PostgresOwnership
from backhaul.sync.on_demand import SyncEndpoint
from backhaul.sync.resource_types import FULL, SyncRequest
from scenes.databases import rows, writer
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path

    from backhaul.app.actions import Action, Answer
    from backhaul.store.operators import Requests
    from backhaul.sync.on_demand import Line
    from scenes.postgres_databases import PostgresDatabases

pytestmark = pytest.mark.programs
ASKED = {"name": "prune", "store": None, "who": "ann"}
SOON = 0.3
LEAVING = "leaving"


@pytest.fixture
def url(postgres_server: PostgresDatabases) -> Iterator[str]:
    with postgres_server.lent() as lent:
        yield lent


@asynccontextmanager
async def joined(
    url: str, name: str, *stores: str, roles: tuple[str, ...] = ROLES
) -> AsyncIterator[PostgresStore]:
    """Open the database as a member that sends heartbeats and owns nothing."""
    member = Member(name, f"host-{name}", "0.1.0", ttl_seconds=60, roles=roles)
    store = open_store(url, SystemClock(), member)
    store.start()
    await store.ownership.join(stores or ("main",))
    beating = asyncio.create_task(store.ownership.keep())
    await until(lambda: is_known(url, name), "it is a member")
    try:
        yield store
    finally:
        beating.cancel()
        await store.stop()


def is_known(url: str, name: str) -> bool:
    return (name,) in rows(url, "SELECT id FROM members")


@asynccontextmanager
async def serving(store: PostgresStore, **actions: Action) -> AsyncIterator[None]:
    """Let a member own everything, and carry out the requests of others."""
    assert DATABASE in (await store.ownership.balance()).taken
    assert store.requests is not None
    named = {name.replace("_", "/"): action for name, action in actions.items()}
    worker = working(store.requests, named)
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@contextmanager
def using(store: str) -> Iterator[None]:
    """Keep a store that no other member will get."""
    if store == LEAVING:
        raise Busy("nothing was changed")
    yield


def working(
    requests: Requests, actions: Mapping[str, Action], sync: SyncEndpoint | None = None
) -> RequestWorker:
    return RequestWorker(
        requests, actions, sync or SyncEndpoint({}), using, SystemClock()
    )


def relay(store: PostgresStore) -> Relay:
    assert store.requests is not None
    return Relay(store, store.requests, SystemClock())


class Pausing:
    """An action that counts its calls; it can wait until it is cancelled."""

    def __init__(self, *, held: bool = False) -> None:
        self.calls: list[Mapping[str, Any]] = []
        self.begun = asyncio.Event()
        self._held = held

    async def __call__(self, asked: Mapping[str, Any]) -> Answer:
        self.calls.append(asked)
        self.begun.set()
        if self._held:
            await asyncio.Event().wait()
        return {"jobs": [asked["name"]]}


async def test_each_request_is_carried_out_once_and_names_its_sender(
    url: str,
) -> None:
    pausing = Pausing()
    asked = [{**ASKED, "name": f"job {n}"} for n in range(5)]
    async with (
        joined(url, "a") as owner,
        joined(url, "b") as standby,
        serving(owner, jobs_pause=pausing),
    ):
        answers = await asyncio.gather(
            *(relay(standby).act("jobs/pause", each) for each in asked)
        )
    assert answers == [{"jobs": [each["name"]]} for each in asked]
    who = f"ann on {socket.gethostname()}"
    assert sorted(pausing.calls, key=lambda each: str(each["name"])) == [
        {**each, "who": who} for each in asked
    ]
    assert rows(url, "SELECT * FROM requests") == [], "nothing stays"


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (BackhaulError("no job has this name"), BackhaulError),
        (Busy("the disk is full"), Busy),
        (KeyError("name"), BackhaulError),
    ],
)
async def test_a_refusal_is_relayed(
    url: str, raised: Exception, error: type[Exception]
) -> None:
    async def refuse(_: Mapping[str, Any]) -> Answer:
        raise raised

    answer = "failed: KeyError" if isinstance(raised, KeyError) else str(raised)
    async with (
        joined(url, "a") as owner,
        joined(url, "b") as standby,
        serving(owner, jobs_pause=refuse),
    ):
        with pytest.raises(error, match=answer) as found:
            await relay(standby).act("jobs/pause", ASKED)
        assert type(found.value) is error
        with pytest.raises(BackhaulError, match="no action is called 'a/b'"):
            await relay(standby).act("a/b", ASKED)


async def test_a_request_that_was_never_started_is_not_carried_out_later(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pausing = Pausing()
    async with joined(url, "a") as owner, joined(url, "b") as standby:
        with monkeypatch.context() as patched:
            patched.setattr(requests, "BEGIN_SECONDS", SOON)
            with pytest.raises(Busy, match="no daemon owns the database now") as found:
                await relay(standby).act("jobs/pause", ASKED)
            assert "Nothing was changed" in str(found.value)
            assert rows(url, "SELECT * FROM requests") == []
        async with serving(owner, jobs_pause=pausing):
            await relay(standby).act("jobs/pause", {**ASKED, "name": "next"})
    assert [each["name"] for each in pausing.calls] == ["next"]


async def test_a_sync_that_was_never_started_is_shown_as_a_problem(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "BEGIN_SECONDS", SOON)
    shown: list[dict[str, Any]] = []
    async with joined(url, "b") as standby:
        owns = standby.ownership.owns
        sync = RelayedSync(["main"], relay(standby), SyncEndpoint({}), owns, using)
        sync.check(SyncRequest(FULL, ("main",)))
        with pytest.raises(ValueError, match="'other' must be one of main"):
            sync.check(SyncRequest(FULL, ("other",)))
        await sync.work(SyncRequest(FULL, kinds=("orders",)), shown.append)
    (line,) = shown
    assert (line["store"], line["kind"]) == ("main", "orders")
    assert "no daemon owns store main now" in line["trouble"]


class Counting(SyncEndpoint):
    """A sync with two lines of progress, which an operator can see while it runs."""

    def __init__(self) -> None:
        super().__init__({})
        self.stores = ["main"]

    async def work(self, wanted: SyncRequest, send: Callable[[Line], None]) -> None:
        for number in (1, 2):
            send({"seen": number})
            await asyncio.sleep(0)


class RefusingOnce:
    """The requests of an owner whose database rejects the first lines of progress."""

    def __init__(self, given: Requests) -> None:
        self._given = given
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._given, name)

    async def add_lines(self, *given: Any) -> None:
        if not self.refused:
            self.refused += 1
            raise Busy("the database is away")
        await self._given.add_lines(*given)


async def test_a_sync_goes_on_while_its_progress_cannot_be_stored(url: str) -> None:
    shown: list[dict[str, Any]] = []
    async with joined(url, "a") as owner, joined(url, "b") as standby:
        assert "main" in (await owner.ownership.balance()).taken
        assert owner.requests is not None
        own: Any = RefusingOnce(owner.requests)
        worker = working(own, {}, Counting())
        running = asyncio.create_task(worker.run())
        owns = standby.ownership.owns
        sync = RelayedSync(["main"], relay(standby), SyncEndpoint({}), owns, using)
        await sync.work(SyncRequest(FULL), shown.append)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert own.refused == 1
    assert shown == [{"seen": 1}, {"seen": 2}]


async def test_a_request_whose_asker_is_gone_expires(url: str) -> None:
    pausing = Pausing()
    async with joined(url, "a") as owner, joined(url, "b") as standby:
        asking = asyncio.create_task(relay(standby).act("jobs/pause", ASKED))
        await until(lambda: rows(url, "SELECT 1 FROM requests"), "it is asked")
        asking.cancel()
        with writer(url) as connection:
            connection.execute("UPDATE requests SET expires_at = asked_at")
        async with serving(owner, jobs_pause=pausing):
            await relay(standby).act("jobs/pause", {**ASKED, "name": "next"})
    assert [each["name"] for each in pausing.calls] == ["next"]


async def test_a_request_whose_owner_ended_is_not_carried_out_again(
    url: str,
) -> None:
    held, again = Pausing(held=True), Pausing()
    async with joined(url, "b") as standby:
        async with joined(url, "a") as owner, serving(owner, jobs_pause=held):
            asking = asyncio.create_task(relay(standby).act("jobs/pause", ASKED))
            await held.begun.wait()
        async with serving(standby, jobs_pause=again):
            with pytest.raises(BackhaulError, match="may have been carried out"):
                await asking
    assert (len(held.calls), len(again.calls)) == (1, 0)


async def test_an_asker_does_not_wait_for_an_owner_that_is_gone(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Pausing(held=True)
    async with joined(url, "b") as standby:
        async with joined(url, "a") as owner, serving(owner, jobs_pause=held):
            asking = asyncio.create_task(relay(standby).act("jobs/pause", ASKED))
            await held.begun.wait()
        monkeypatch.setattr(requests, "LOST_SECONDS", SOON)
        with pytest.raises(BackhaulError, match="may have been carried out"):
            await asking


async def test_a_former_owner_answers_nothing(url: str) -> None:
    async with joined(url, "a") as owner, joined(url, "b") as standby:
        assert DATABASE in (await owner.ownership.balance()).taken
        asking = asyncio.create_task(relay(standby).act("jobs/pause", ASKED))
        await until(lambda: rows(url, "SELECT 1 FROM requests"), "it is asked")
        asked = owner.requests
        assert asked is not None
        (claimed,) = await asked.claim()
        assert await asked.claim() == [], "nobody gets it twice"
        assert isinstance(owner.ownership, PostgresOwnership)
        await owner.ownership.leave()
        async with serving(standby):
            with pytest.raises(BackhaulError, match="may have been carried out"):
                await asking
        with pytest.raises(Busy):
            await asked.answer(claimed.id, RequestState.DONE, {})


class TwoOwners:
    """Member `a` owns the database and store `main`, member `b` store `other`.

    `acted` lists who did which action. Member `b` refuses with `refusal`.
    """

    def __init__(self, router: Router) -> None:
        self.actions = router.actions()
        self.acted: list[tuple[str, Any]] = []
        self.refusal: Exception | None = None


@asynccontextmanager
async def two_owners(url: str, folder: Path, *verbs: str) -> AsyncIterator[TwoOwners]:
    def acting(member: str) -> dict[str, Action]:
        async def act(asked: Mapping[str, Any]) -> Answer:
            if member == "b" and two.refusal is not None:
                raise two.refusal
            two.acted.append((member, {n: v for n, v in asked.items() if n != "who"}))
            return {"done": [member]}

        return dict.fromkeys(verbs, act)

    both = "main", "other"
    async with joined(url, "a", *both) as first, joined(url, "b", *both) as second:
        assert DATABASE in (await first.ownership.balance()).taken
        assert (await second.ownership.balance()).taken == ("other",)
        assert second.requests is not None
        running = asyncio.create_task(working(second.requests, acting("b")).run())
        given = settings(folder), first, relay(first), acting("a"), using
        two = TwoOwners(Router(*given))
        yield two
        running.cancel()


async def test_each_owner_changes_the_jobs_of_its_stores(
    url: str, tmp_path: Path
) -> None:
    async with two_owners(url, tmp_path, "jobs/pause") as two:
        pause = two.actions["jobs/pause"]
        job = {"name": "reconcile_full"}
        assert await pause({**ASKED, **job}) == {"done": ["a", "b"]}
        main, other = ({**job, "store": name} for name in ("main", "other"))
        assert two.acted == [("a", main), ("b", other)]
        two.acted.clear()
        await pause({**ASKED, **job, "store": "other"})
        await pause(ASKED)
        assert two.acted == [("b", other), ("a", {"name": "prune", "store": ""})]


@pytest.mark.parametrize(
    ("refusal", "error"),
    [(BackhaulError("no such job"), BackhaulError), (Busy("the disk is full"), Busy)],
)
async def test_an_error_of_one_owner_stops_no_other_and_says_where_it_was_done(
    url: str, tmp_path: Path, refusal: Exception, error: type[Exception]
) -> None:
    async with two_owners(url, tmp_path, "jobs/pause") as two:
        two.refusal = refusal
        with pytest.raises(error) as found:
            await two.actions["jobs/pause"]({**ASKED, "name": "reconcile_full"})
        assert type(found.value) is error
        answer = f"not done for all stores: other: {refusal}. It was done for main"
        assert str(found.value) == answer
        assert [member for member, _ in two.acted] == ["a"]


async def test_every_owner_indexes_its_stores_again(url: str, tmp_path: Path) -> None:
    async with two_owners(url, tmp_path, "search/rebuild") as two:
        await two.actions["search/rebuild"]({})
        wake = {"only_wake": True}
        assert two.acted[1:] == [("a", wake), ("b", wake)]
        assert two.acted[0] == ("a", {})


async def test_the_owner_of_its_store_decides_about_a_delivery(
    url: str, tmp_path: Path
) -> None:
    with writer(url) as connection:
        connection.execute(
            "INSERT INTO deliveries (seq, id, instance, store, topic, object_id,"
            " change_id, state, created_at, due_at) VALUES (7, 'd', 'books', 'other',"
            " 't', 'o', 1, 'parked', '2026', '2026')"
        )
    async with two_owners(url, tmp_path, "connectors/resolve") as two:
        settle = two.actions["connectors/resolve"]
        await settle({"delivery": 7})
        await settle({"delivery": 8})
        assert [member for member, _ in two.acted] == ["b", "a"]


async def test_a_request_for_a_released_store_is_not_carried_out(
    url: str,
) -> None:
    async with (
        joined(url, "a", LEAVING) as owner,
        joined(url, "b", LEAVING) as other,
        serving(owner, jobs_pause=Pausing()),
    ):
        with pytest.raises(Busy, match="nothing was changed"):
            await relay(other).act("jobs/pause", ASKED, LEAVING)


def settings(folder: Path) -> Settings:
    shop = {"base_url": "https://shop.example", "api_key": "k"}
    connector = {"type": "file_drop", "store": "other"}
    return Settings.model_validate(
        {
            "state_dir": folder,
            "stores": {"main": shop, "other": shop},
            "connectors": {"courier": connector},
        }
    )


async def test_members_show_the_state_that_the_owner_published(
    url: str, tmp_path: Path
) -> None:
    own = settings(tmp_path)
    status = unpublished(own)
    status["stores"]["main"] = {"sending": 3, "stopped": {}, "paused": None}
    status["connectors"] = {"courier": {"up": True}}
    status["jobs"] = {"push_fulfillments:main": "soon", "prune": None}

    async def current() -> dict[str, Any]:
        return status

    async def merged_at(store: PostgresStore) -> dict[str, Any]:
        assert store.requests is not None
        states = await store.requests.published()
        return merged(own, states, unpublished(own), store.ownership.owns)

    def published() -> dict[str, str]:
        found = rows(url, "SELECT store, xmin::text FROM published_states")
        return {str(store): str(version) for store, version in found}

    both = "main", "other"
    async with (
        joined(url, "a", *both) as owner,
        joined(url, "b", *both, roles=("admin",)) as standby,
    ):
        assert len((await owner.ownership.balance()).taken) == 3
        assert owner.requests is not None
        assert standby.requests is not None
        nobody = await merged_at(standby)
        assert "No daemon owns a store now" in nobody["standby"]
        assert "no owner has published" in str(nobody["stores"]["main"]["stopped"])
        publisher = StatePublisher(own, owner, owner.requests, current, SystemClock())
        running = asyncio.create_task(publisher.run())
        await until(published, "it is published")
        shown = await merged_at(standby)
        assert {name: shown[name] for name in status} == status
        assert "The owners are on host-a" in shown["standby"]
        assert shown["ownerless"] == []
        before = published()
        status["stores"]["other"] = {"sending": 1, "stopped": {}, "paused": None}
        await until(lambda: published() != before, "the change is published")
        running.cancel()
        changed = {
            store for store, version in published().items() if before[store] != version
        }
        assert changed == {"other"}, "only a row that changed is written"
        with writer(url) as connection:
            connection.execute(
                "UPDATE members SET beat_at = '-infinity' WHERE id = 'a'"
            )
        silent = await merged_at(standby)
        assert "No daemon owns a store now" in silent["standby"]
        assert silent["stores"]["main"]["sending"] == 3
        assert silent["ownerless"] == ["*", "main", "other"]


@pytest.mark.parametrize("rows", ["quarantine", "commands", "deliveries"])
async def test_each_owner_changes_the_selected_rows_of_its_stores(
    rows: str, url: str, tmp_path: Path
) -> None:
    async with two_owners(url, tmp_path, verb := f"{rows}/change") as two:
        asked = {"where": "", "expected": {"main": 1, "other": 2, "removed": 4}}
        answer = await two.actions[verb](asked | {"who": "ann"})
        acted = [(member, part["store"]) for member, part in two.acted]
    assert acted == [("a", "main"), ("b", "other"), ("a", "removed")]
    assert answer == {"done": ["a", "b", "a"]}
    both = [{"waiting": 3, "problems": ["a"]}, {"waiting": 4, "problems": ["b"]}]
    assert combined(both) == {"waiting": 7, "problems": ["a", "b"]}
