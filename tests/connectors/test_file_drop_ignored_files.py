"""Entries of a drop folder that are not read are reported once and never opened."""

from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest

from backhaul_connectors.file_drop.files import FileNames, Fingerprint
from backhaul_connectors.file_drop.folder import FolderEntry, listed, sentences
from backhaul_connectors.file_drop.parsing import file_kinds
from backhaul_connectors.file_drop.settings import Settings
from connectors.dropping import FULFILLMENTS, Drop
from scenes.sshd import Sshd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ONE = f"{FULFILLMENTS}1001,BlueDart,BD1\n"
NAME = "fulfillments-1.csv"


@pytest.fixture(
    params=["folder", pytest.param("sftp", marks=pytest.mark.programs)], name="drop"
)
def drop_here_or_there(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Drop]:
    if request.param == "folder":
        yield Drop(tmp_path)
        return
    server = Sshd(tmp_path_factory.mktemp("sshd"))
    server.start()
    yield Drop(tmp_path, dict(server.settings()))
    server.kill()


def make_socket(path: Path) -> None:
    # The path of a socket must be short.
    before = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.fchdir(before)
    os.close(before)


def make_link(path: Path) -> None:
    target = path.parent / ".elsewhere"
    target.write_text(ONE)
    path.symlink_to(target)


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


KINDS: list[tuple[Callable[[Path], object], str]] = [
    (make_link, "is not read: a link is never followed"),
    (make_dangling_link, "is not read: a link is never followed"),
    (os.mkfifo, "is not read: a named pipe is never opened"),
    (make_socket, "is not read: a socket is never opened"),
    (os.mkdir, "is not read: folders are not read"),
    (lambda path: path.touch(), "is not read: the file is empty"),
]


@pytest.mark.parametrize(("make", "says"), KINDS)
async def test_an_entry_that_is_no_file_is_reported_and_the_others_are_read(
    drop: Drop, make: Callable[[Path], object], says: str
) -> None:
    make(drop.path / NAME)
    drop.put("fulfillments-2.csv", ONE)
    connector = drop.connector()
    await connector.open()
    for _ in range(3):
        await drop.host.pull(connector)
    assert connector.notices() == []  # it may be a program's way to write a file
    drop.seconds += 60
    await drop.host.pull(connector)
    assert [says in notice for notice in connector.notices()] == [True]
    assert NAME in connector.notices()[0]
    assert len(drop.records()) == 1
    (drop.path / NAME).rename(drop.path / ".gone")
    await drop.host.pull(connector)
    assert connector.notices() == []
    await connector.close()


async def test_check_names_the_files_that_no_pattern_matches(drop: Drop) -> None:
    connector = drop.connector()
    await connector.open()
    drop.put("versand-0331.csv", ONE)
    drop.put("x.part", ONE)
    (drop.path / "fulfillments-new.csv").touch()
    await connector.check()
    (notice,) = connector.notices()
    assert notice.startswith(
        "'versand-0331.csv' is not read: no pattern matches this name"
    )
    assert "set a pattern" in notice
    await connector.close()


async def test_our_own_folders_and_markers_are_not_reported(drop: Drop) -> None:
    drop.options |= {"exports": "outbox"}
    drop.put(f"{NAME}.done", "")
    drop.put(".hidden", "")
    connector = drop.connector()
    await connector.open()
    await connector.check()
    assert connector.notices() == []
    await connector.close()


def names(**options: object) -> FileNames:
    settings = Settings.model_validate({"path": "/nowhere", **options})
    return FileNames(file_kinds(settings), settings.unfinished, settings.done_file)


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (stat.S_IFBLK, "a device is never opened"),
        (stat.S_IFCHR, "a device is never opened"),
        (0, "the server does not say that this is a file"),
    ],
)
def test_devices_and_unknown_kinds_are_reported(mode: int, says: str) -> None:
    entry = FolderEntry(NAME, mode, Fingerprint(1, 1))
    listing = listed([entry], names(), ())
    assert listing.found == []
    assert says in listing.strays[0].why


def test_many_names_are_one_sentence() -> None:
    entries = [
        FolderEntry(f"versand-{n}.csv", stat.S_IFREG, Fingerprint(1, 1))
        for n in range(9)
    ]
    (said,) = sentences(listed(entries, names(), ()).strays)
    assert said.startswith(
        "'versand-0.csv', 'versand-1.csv', 'versand-2.csv' and 6 more are not read: "
    )


def test_a_link_to_another_place_is_reported_and_never_opened() -> None:
    for name in ("../fulfillments.csv", "a\\fulfillments.csv", "x\0fulfillments.csv"):
        listing = listed(
            [FolderEntry(name, stat.S_IFREG, Fingerprint(1, 1))], names(), ()
        )
        if not name.startswith("."):
            assert "slash" in listing.strays[0].why
        assert listing.found == []


async def test_a_pipe_in_the_place_of_a_rejected_file_blocks_nothing(
    tmp_path: Path,
) -> None:
    drop = Drop(tmp_path)
    drop.put(NAME, f"{FULFILLMENTS},BlueDart,BD1\n")
    await drop.pull()
    os.mkfifo(drop.path / "rejected" / "fulfillments-1.rejected.csv")
    with pytest.raises(Exception, match="is not a regular file, but"):
        await drop.report()
