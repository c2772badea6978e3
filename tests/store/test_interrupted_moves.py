"""A database move that is killed at any step leaves exactly one database in use."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.errors import BackhaulError
from backhaul.store import moving
from backhaul.store.postgres import moving as in_server
from backhaul.store.sqlite import moved_files
from backhaul.store.sqlite import moving as in_file
from scenes.postgres import postgres
from scenes.waiting import await_true
from store.move_places import contents, fill, is_usable, move, some_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from backhaul.store import Place
    from backhaul.store.moving import Mark, Row
    from scenes.postgres import Postgres

pytestmark = pytest.mark.programs

KINDS = (
    in_file.SqliteSource,
    in_file.SqliteTarget,
    in_server.PostgresSource,
    in_server.PostgresTarget,
    in_server.LiveTarget,
)
STEPS = ("begin", "receive", "complete", "commit", "put_mark", "finish", "rename")
POINTS = [f"{step}:{when}" for step in STEPS for when in ("before", "after")]
UNTOUCHED = POINTS[: POINTS.index("put_mark:after")]
"""The source does not change before its mark is written."""
WATCHED = {module.__file__ for module in (moving, in_server, in_file, moved_files)}
_OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid != pg_backend_pid()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


def places(to: str, server: Postgres, folder: Path) -> tuple[Place, Place]:
    """Return a source with rows, and a new target."""
    path = folder / "backhaul.db"
    fill(path, some_rows())
    if to == "PostgreSQL":
        return path, server.empty()
    url = server.empty()
    move(path, url)
    return url, folder / "back.db"


def in_a_process(server: Postgres, work: Callable[[], object]) -> bool:
    """Do the work in a new process; return whether it was killed."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    # The server ends a killed program's session only when it next uses the socket.
    with closing(server.connect("public")) as connection:
        await_true(
            lambda: connection.execute(_OTHERS).fetchone() == (0,), "it is alone"
        )
    return os.WIFSIGNALED(status)


def move_killed_at(
    point: str,
    source: Place,
    target: Place,
    move: Callable[[Place, Place], object] = move,
) -> None:
    """Move, and kill the process before or after a step (the middle one of several)."""
    step, _, when = point.partition(":")
    met = 0

    def mortal(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            nonlocal met
            met += 1
            is_now = met == (20 if step == "receive" else 1)
            if is_now and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*given)
            if is_now:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for kind in KINDS:
        if step in vars(kind):
            setattr(kind, step, mortal(vars(kind)[step]))
    move(source, target)


def move_killed_in(line: int, source: Place, target: Place) -> None:
    """Move, and kill the process before the `line`-th new line of the last steps."""
    seen: set[tuple[str, int]] = set()

    def tracing(frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        if code.co_filename not in WATCHED or not (seen or code.co_name == "commit"):
            return None
        if event == "line":
            seen.add((code.co_filename, frame.f_lineno))
            if len(seen) == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return tracing

    sys.settrace(tracing)
    move(source, target)


def require_one_in_use(source: Place, target: Place, rows: dict[str, list[Row]]) -> str:
    """Check that at most one of both is usable, with all rows; return it."""
    usable = [place for place in (source, target) if is_usable(place)]
    assert len(usable) <= 1
    for place in usable:
        assert contents(place) == rows
    return "".join("source" if place == source else "target" for place in usable)


def complete(source: Place, target: Place, rows: dict[str, list[Row]]) -> None:
    """Run the move again, unless the kill came after its last step."""
    if isinstance(source, str) or source.exists():
        move(source, target)
    assert require_one_in_use(source, target, rows) == "target"


@pytest.mark.parametrize("to", ["PostgreSQL", "file"])
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_move_is_run_again(
    point: str, to: str, server: Postgres, tmp_path: Path
) -> None:
    source, target = places(to, server, tmp_path)
    rows = contents(source)
    file = None if isinstance(source, str) else source.read_bytes()
    work = partial(move_killed_at, point, source, target)
    assert in_a_process(server, work)
    if point in UNTOUCHED:
        if not isinstance(source, str):
            assert source.read_bytes() == file
        assert require_one_in_use(source, target, rows) == "source"
    else:
        assert require_one_in_use(source, target, rows) != "source"
    complete(source, target, rows)


def test_a_kill_in_the_last_steps_never_leaves_two_databases_in_use(
    server: Postgres, tmp_path: Path
) -> None:
    """A move from a file changes a mark, a log and a name one after the other."""
    ends = []
    for line in range(1, 1_000):
        source, target = places("PostgreSQL", server, tmp_path / f"{line}")
        rows = contents(source)
        killed = in_a_process(server, partial(move_killed_in, line, source, target))
        ends.append(require_one_in_use(source, target, rows))
        complete(source, target, rows)
        if not killed:
            break
    assert ends == sorted(ends, key=["source", "", "target"].index)
    assert set(ends) == {"source", "", "target"}


def test_a_server_that_dies_leaves_the_source_in_use(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, url = tmp_path / "backhaul.db", server.empty()
    fill(path, some_rows())
    rows, file = contents(path), path.read_bytes()
    commit = in_server.PostgresTarget.commit

    def after_the_end(target: in_server.PostgresTarget, mark: Mark) -> None:
        server.kill()
        commit(target, mark)

    with monkeypatch.context() as patched:
        patched.setattr(in_server.PostgresTarget, "commit", after_the_end)
        with pytest.raises(BackhaulError, match="Run the command again"):
            move(path, url)
    server.start()
    assert path.read_bytes() == file
    assert require_one_in_use(path, url, rows) == "source"
    complete(path, url, rows)
