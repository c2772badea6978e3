"""The daemon answers or refuses requests on its control socket."""

from __future__ import annotations

import asyncio
import gc
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from backhaul.admin import routes
from backhaul.alerting.problem import Problem, Severity
from backhaul.app import sockets
from backhaul.app.control_socket import (
    SOCKET_NAME,
    ConnectionLost,
    Control,
    NoDaemon,
)
from backhaul.errors import BackhaulError, Busy, Unusable
from backhaul.sync.on_demand import SyncEndpoint
from backhaul.sync.resource_types import PATH, SyncRequest
from scenes.requirements import not_almighty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

REASONS = {"busy": Busy("the disk is full"), "unusable": Unusable("nobody is called x")}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a path that is short enough for a socket."""
    made = Path(tempfile.mkdtemp(prefix="bh-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


async def refuse(asked: Mapping[str, Any]) -> dict[str, Any]:
    raise REASONS[asked["reason"]]


async def give_back(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"asked": dict(asked)}


async def status() -> dict[str, Any]:
    return {"started_at": "noon"}


async def numbers() -> bytes:
    return b"backhaul_up 1\n"


async def some() -> list[Problem]:
    parked = Severity.PARKED
    return [
        Problem("backup", "no backup"),
        *(Problem(f"parked cmd_{n}", "unknown", severity=parked) for n in range(2)),
    ]


async def unreadable() -> list[Problem]:
    raise Busy("the database is locked")


async def without_disk() -> list[Problem]:
    raise OSError(5, "Input/output error")


async def endless() -> list[Problem]:
    await asyncio.sleep(3_600)
    return []


@pytest.fixture
async def control(folder: Path) -> AsyncIterator[Control]:
    """Return a client of the application on the daemon's socket."""
    changes = {"test/refuse": refuse, "test/give": give_back}
    app = routes.build_app(lambda: routes.STARTING, status, changes, numbers, some)
    app.router.add_routes(SyncEndpoint({}).routes())
    listener = sockets.Listener(app)
    await listener.start(sockets.bind_unix(folder / SOCKET_NAME))
    yield Control(folder)
    await listener.stop()


KINDS = [
    {"kind": "backup", "severity": "fail", "count": 1},
    {"kind": "parked", "severity": "parked", "count": 2},
]


@pytest.mark.parametrize(
    ("problems", "shown"),
    [(some, KINDS), (unreadable, None), (without_disk, None), (endless, None)],
)
async def test_a_health_check_counts_problems_and_never_fails(
    problems: Callable[[], Awaitable[list[Problem]]],
    shown: list[dict[str, Any]] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "HEALTH_SECONDS", 0.1)
    app = routes.build_app(lambda: routes.READY, status, {}, numbers, problems)
    async with TestClient(TestServer(app)) as client:
        answer = await client.get("/healthz")
        assert answer.status == 200
        assert await answer.json() == {"status": "ok", "problems": shown}


async def ask_in_thread(ask: Callable[[], Any]) -> Any:
    """Send a request from another thread, because the daemon answers in this one."""
    return await asyncio.to_thread(ask)


async def test_a_request_is_answered(control: Control) -> None:
    assert await ask_in_thread(partial(control.get, "/api/status")) == {
        "started_at": "noon"
    }
    post = partial(control.post, "/api/changes/test/give", {"sku": "A"})
    assert await ask_in_thread(post) == {"asked": {"sku": "A"}}
    run = control.follow(PATH, SyncRequest("full"))
    assert await ask_in_thread(lambda: list(run)) == []


async def test_a_refusal_is_reported_in_the_words_of_the_daemon(
    control: Control,
) -> None:
    path = "/api/changes/test/refuse"
    with pytest.raises(Busy, match="the disk is full"):
        await ask_in_thread(partial(control.post, path, {"reason": "busy"}))
    with pytest.raises(BackhaulError, match="nobody is called x"):
        await ask_in_thread(partial(control.post, path, {"reason": "unusable"}))
    run = control.follow(PATH, SyncRequest("full", (), ("parcels",)))
    with pytest.raises(BackhaulError, match="'parcels' must be one of"):
        await ask_in_thread(lambda: list(run))


async def test_an_answer_of_another_version_is_reported(control: Control) -> None:
    with pytest.raises(BackhaulError, match=r"answered 404 without an error text"):
        await ask_in_thread(partial(control.get, "/api/of/tomorrow"))
    with pytest.raises(Busy, match="answered 503"):
        await ask_in_thread(partial(control.get, "/readyz"))


def test_the_socket_of_a_daemon_that_ended_leaves_nothing_open(folder: Path) -> None:
    """Python warns of a socket that is not closed, which fails the tests of users."""
    with socket.socket(socket.AF_UNIX) as ended:
        ended.bind(str(folder / SOCKET_NAME))
    with pytest.raises(NoDaemon):
        Control(folder).get("/healthz")
    gc.collect()


def test_a_path_that_is_too_long_for_a_socket_has_no_daemon(folder: Path) -> None:
    with pytest.raises(NoDaemon):
        Control(folder / ("x" * 200)).get("/healthz")


ASK = """
import sys
from types import SimpleNamespace
from pathlib import Path
from backhaul.doctor.daemon import ask

print(*ask(SimpleNamespace(state_dir=Path(sys.argv[1]))), sep="\\n")
"""


@pytest.mark.parametrize("closed", ["the folder", "the socket"])
def test_a_daemon_of_another_user_is_not_taken_for_none(
    folder: Path, closed: str
) -> None:
    """A command that saw no daemon would act by itself, beside the one that runs."""
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(folder / SOCKET_NAME))
        daemon.listen()
        shut = folder if closed == "the folder" else folder / SOCKET_NAME
        shut.chmod(0)
        said = subprocess.run(
            [*not_almighty(), sys.executable, "-c", ASK, str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        shut.chmod(0o700)
    assert said.stderr == ""
    assert f"said='{folder}/{SOCKET_NAME}: Permission denied'" in said.stdout
    assert "run the command as the daemon's user" in said.stdout


def test_a_missing_daemon_is_reported(folder: Path) -> None:
    with pytest.raises(NoDaemon, match=f"{folder}/{SOCKET_NAME}; start it with"):
        Control(folder).get("/api/status")


@asynccontextmanager
async def breaking_off(folder: Path, said: bytes) -> AsyncIterator[Control]:
    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    server = await asyncio.start_unix_server(answer, folder / SOCKET_NAME)
    async with server:
        yield Control(folder)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{",
    ],
    ids=["nothing", "cut", "no JSON"],
)
async def test_a_daemon_that_ends_during_a_request_is_reported(
    said: bytes, folder: Path
) -> None:
    async with breaking_off(folder, said) as control:
        with pytest.raises(
            ConnectionLost, match="the connection to the daemon was lost"
        ):
            await ask_in_thread(partial(control.get, "/api/status"))
        with pytest.raises(
            ConnectionLost, match="the connection to the daemon was lost"
        ):
            await ask_in_thread(lambda: list(control.follow(PATH, SyncRequest("full"))))
