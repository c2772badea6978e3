"""A restore that fails or is killed leaves the old or the restored database."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.doctor import State
from backhaul.doctor.storage import check_database as check
from backhaul.errors import BackhaulError
from backhaul.store.sqlite import (
    backup_manifest,
    file_backup,
    file_replacement,
    restoring,
)
from backhaul.store.sqlite.opening import open_store
from scenes.databases import rows
from scenes.restore_places import (
    ABSENT,
    CLOCK,
    FOREIGN,
    OWN,
    WORST,
    Files,
    list_place,
    make_files,
    place_files,
    require_equal,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("files"))


class Failure(OSError):
    """The error of a disk."""


@pytest.mark.parametrize("state", WORST[:6], ids="-".join)
def test_a_step_that_fails_leaves_all_as_it_was(
    files: Files, tmp_path: Path, state: tuple[str, ...], monkeypatch: Any
) -> None:
    """Each rename, each flush and each check of a restore fails once."""
    place = tmp_path / "backhaul.db"
    place_files(files, place, state)
    before = list_place(place)
    for failing in range(1, 100):
        steps = 0

        def counted(real: Callable[..., Any]) -> Callable[..., Any]:
            def step(*args: Any, **options: Any) -> Any:
                nonlocal steps
                steps += file_replacement.is_interrupted(place)
                if steps == failing:  # noqa: B023 - used within the round
                    steps += 1
                    raise Failure(5, "Input/output error", str(place))
                return real(*args, **options)

            return step

        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", counted(Path.rename))
            patched.setattr(file_backup, "sync", counted(file_backup.sync))
            patched.setattr(file_backup, "check", counted(file_backup.check))
            patched.setattr(
                backup_manifest, "sha256_of", counted(backup_manifest.sha256_of)
            )
            try:
                restoring.restore(files.backup, place, ["main"], CLOCK)
            except BackhaulError as error:
                said = str(error)
            else:
                break
        assert "the database is unchanged" in said
        assert list_place(place) == before
        assert sorted(tmp_path.iterdir()) == [
            file_replacement.part(place, suffix) for suffix in sorted(before)
        ]
    assert failing > 5
    require_equal(place, files.backup)


def killed_at(line: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that is killed before a line of `placing`.

    Return True if it was killed; False means that the work has fewer lines.
    """
    child = os.fork()
    if child == 0:
        left = line

        def tracing(frame: FrameType, event: str, _: object) -> Any:
            nonlocal left
            if frame.f_code.co_filename != file_replacement.__file__:
                return None
            if event == "line":
                left -= 1
                if left <= 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return tracing

        with suppress(BaseException):
            sys.settrace(tracing)
            work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize(
    "state",
    [(OWN, OWN, OWN, ABSENT), (ABSENT, OWN, ABSENT, FOREIGN), (OWN,) + (ABSENT,) * 3],
    ids="-".join,
)
def test_a_kill_leaves_the_old_place_or_the_restored_one(
    files: Files, tmp_path: Path, state: tuple[str, ...]
) -> None:
    """The kill comes before each line that moves a file, also during the undo."""
    restored = {"": files.backup.read_bytes()}
    ends = set()
    for line in range(1, 1_000):
        place = tmp_path / str(line) / "backhaul.db"
        place.parent.mkdir()
        place_files(files, place, state)
        before = list_place(place)
        if not killed_at(line, partial(replace, files.backup, place)):
            break
        was_interrupted = file_replacement.is_interrupted(place)
        for again in range(1, 12):
            if file_replacement.is_interrupted(place):
                undo = partial(
                    file_replacement.undo_interrupted, place, may_be_absent=True
                )
                killed_at(1 + again * 5 % 37, undo)
        file_replacement.undo_interrupted(place, may_be_absent=True)
        assert list_place(place) in (before, restored)
        ends.add((was_interrupted, list_place(place) == restored))
    assert list_place(place) == restored
    assert ends == {(False, False), (True, False), (False, True)}


def replace(backup: Path, place: Path) -> None:
    """Restore a backup without the checks, which take long."""
    fresh = place.with_name("fresh")
    fresh.write_bytes(backup.read_bytes())
    file_replacement.put_in_place(fresh, place, place.with_name("aside"), lambda: None)


def _die(_: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def interrupted(files: Files, tmp_path: Path) -> Path:
    """Return a place where a restore was killed after it placed the backup."""
    place = tmp_path / "backhaul.db"
    place_files(files, place, (OWN, OWN, OWN, ABSENT))

    def work() -> None:
        file_replacement._remove_intent = _die
        restoring.restore(files.backup, place, ["main"], CLOCK)

    assert killed_at(10_000, work)
    assert file_replacement.is_interrupted(place)
    return place


def test_a_start_undoes_a_restore_that_was_interrupted(interrupted: Path) -> None:
    open_store(interrupted, CLOCK)
    assert rows(interrupted, "SELECT count(*) FROM inbox") == [(55,)]
    assert not file_replacement.is_interrupted(interrupted)


def test_doctor_reports_an_interrupted_restore(interrupted: Path) -> None:
    (found,) = check(interrupted)
    assert (found.state, found.check) == (State.FAIL, "database")
    assert "a restore into" in found.said
    assert "backhaul restore FILE" in found.fix


def test_the_next_restore_undoes_an_interrupted_one_and_says_so(
    interrupted: Path, files: Files
) -> None:
    done = restoring.restore(files.backup, interrupted, ["main"], CLOCK)
    require_equal(interrupted, files.backup)
    assert done.undid
    assert done.aside is not None
    assert rows(done.aside, "SELECT count(*) FROM inbox") == [(55,)]


def test_a_database_that_was_put_there_since_is_not_removed(
    interrupted: Path, files: Files
) -> None:
    interrupted.unlink()
    interrupted.with_name("other").touch()  # so that the inode is not reused
    interrupted.write_bytes(files.backup.read_bytes())
    with pytest.raises(
        BackhaulError, match="another program has replaced this file since then"
    ):
        open_store(interrupted, CLOCK)
    assert interrupted.read_bytes() == files.backup.read_bytes()


def test_no_start_with_an_empty_database_where_a_restore_was_interrupted(
    files: Files, tmp_path: Path
) -> None:
    """The restore must be run again, or the operator decides otherwise."""
    place = tmp_path / "backhaul.db"

    def work() -> None:
        file_replacement._remove_intent = _die
        restoring.restore(files.backup, place, ["main"], CLOCK)

    assert killed_at(10_000, work)
    for _ in range(2):
        with pytest.raises(BackhaulError, match=r"no database before the restore"):
            open_store(place, CLOCK)
        assert file_replacement.parts_of(place) == ()
    assert restoring.restore(files.backup, place, ["main"], CLOCK).undid
    require_equal(place, files.backup)


def test_a_log_of_the_restored_database_does_not_stay_beside_the_old_one(
    files: Files, tmp_path: Path
) -> None:
    """A program may have opened the database before the restore was undone."""
    place = tmp_path / "backhaul.db"
    place_files(files, place, (OWN, ABSENT, ABSENT, ABSENT))
    before = list_place(place)

    def work() -> None:
        file_replacement._remove_intent = _die
        restoring.restore(files.backup, place, ["main"], CLOCK)

    assert killed_at(10_000, work)
    place_files(files, place, (ABSENT, FOREIGN, FOREIGN, FOREIGN))
    assert file_replacement.undo_interrupted(place)
    assert list_place(place) == before


@pytest.mark.parametrize("suffix", [*file_backup.SIDES, ""])
@pytest.mark.parametrize("state", WORST[:5], ids="-".join)
def test_a_disturbed_place_before_the_check_undoes_the_restore(
    files: Files,
    tmp_path: Path,
    state: tuple[str, ...],
    suffix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The place has a foreign log again, or one character of a row changed."""
    place = tmp_path / "backhaul.db"
    place_files(files, place, state)
    before, check = list_place(place), file_backup.check

    def disturbed(path: Path, *options: Any) -> None:
        if path == place and suffix:
            file_replacement.part(place, suffix).write_bytes(
                files.parts[suffix, FOREIGN]
            )
        elif path == place:
            text = place.read_bytes()
            place.write_bytes(text.replace(b"7 of 40", b"8 of 40"))
        check(path, *options)

    monkeypatch.setattr(file_backup, "check", disturbed)
    with pytest.raises(BackhaulError):
        restoring.restore(files.backup, place, ["main"], CLOCK)
    assert list_place(place) == before
    assert not file_replacement.is_interrupted(place)
