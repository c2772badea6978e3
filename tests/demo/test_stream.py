"""What `backhaul demo` prints in a terminal, and what it prints at Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from backhaul.demo.activity import Activity
from backhaul.store.testing.command_scenes import plan
from scenes.clock import VirtualClock
from scenes.damaged_rows import overwrite
from scenes.databases import append, fold_all, started_store
from scenes.payloads import envelope, order
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COLUMNS = 80
_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\]8;[^\x1b]*\x1b\\")
_LINK = re.compile(r"\x1b\]8;[^;]*;(http://[^\x1b]+)\x1b\\")
WRONG = ("lost", "doubled", "unexpected", "differing", "parked")


class Terminal:
    """A demo at a terminal of 80 columns; `text` is all that it has written."""

    def __init__(self, process: subprocess.Popen[bytes], ours: int) -> None:
        self.process = process
        self._ours = ours
        self.text = ""

    def read_until(self, words: str) -> None:
        while words not in _STEERING.sub("", self.text):
            assert self._read(), f"it ended without {words!r}: {self.text}"

    def read_all(self) -> list[str]:
        while self._read():
            pass
        return _STEERING.sub("", self.text).replace("\r", "\n").splitlines()

    def _read(self) -> bool:
        try:
            part = os.read(self._ours, 4_096)
        except OSError:  # Linux: nobody writes any more
            return False
        self.text += part.decode(errors="replace")
        return bool(part)


@contextmanager
def at_a_terminal(*arguments: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environ = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES"}}
    with subprocess.Popen(
        [sys.executable, "-m", "backhaul", "demo", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.STDOUT,
        env=environ | {"TERM": "xterm-256color"},
    ) as process:
        os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            process.kill()
            os.close(ours)


@pytest.mark.programs
def test_a_terminal_shows_a_line_for_each_event_and_a_summary(tmp_path: Path) -> None:
    with at_a_terminal("--keep", str(tmp_path / "kept")) as terminal:
        terminal.read_until("fulfillment pushed")
        terminal.process.send_signal(signal.SIGINT)
        lines = terminal.read_all()
        assert terminal.process.wait(HANG_SECONDS) == 0
    happened = [line for line in lines if re.match(r"\d\d:\d\d:\d\d  demo  ", line)]
    assert any(re.search(r"order #1001 received +/events/\d+$", x) for x in happened)
    assert any(re.search(r"pushed: .* /commands/\w{8}$", x) for x in happened)
    assert {len(line) for line in happened} == {COLUMNS}
    links = set(_LINK.findall(terminal.text))
    assert any(re.fullmatch(r"http://127.0.0.1:\d+/events/\d+", x) for x in links)
    summary = dict(re.findall(r"^(\S.*?) {2,}(\d[\d,]*)$", "\n".join(lines), re.M))
    assert int(summary["orders received"]) == int(summary["orders placed"]) > 0
    assert int(summary["fulfillments pushed"]) > 0
    assert [summary[name] for name in WRONG] == ["0"] * 5


@pytest.mark.programs
def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    with at_a_terminal("--keep", str(tmp_path / "kept")) as terminal:
        terminal.read_until("received")
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_until("Ctrl-C again stops at once")
        terminal.process.send_signal(signal.SIGINT)
        lines = terminal.read_all()
        assert terminal.process.wait(HANG_SECONDS) == 0
    assert "stopped at once, without a comparison" in [line.strip() for line in lines]
    assert not any(line.startswith("lost") for line in lines)


async def test_each_event_is_printed_once(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    async with started_store(path, VirtualClock()) as store:
        activity = Activity(path)
        assert activity.latest() == []
        await append(store, [envelope("orders/create", order("ord_1", number=1001))])
        assert activity.latest() == [], "the mirror does not have the order yet"
        await fold_all(store)
        (received,) = activity.latest()
        assert (received.text, received.path) == ("order #1001 received", "/events/1")
        command = await plan(store)
        await append(store, [b"not json"])
        await fold_all(store)
        (row,) = activity.latest()
        assert row.text.startswith("row quarantined: ")
        assert row.path == "/quarantine/1"
        overwrite(path, "commands", {"state": "uncertain", "reason": "no answer"})
        (unsure,) = activity.latest()
        assert unsure.text.endswith("outcome unknown, will be checked: no answer")
        overwrite(path, "commands", {"state": "applied"})
        (pushed,) = activity.latest()
        assert pushed.text.startswith("fulfillment pushed: #1001, ")
        assert pushed.path == f"/commands/{command[:8]}"
        assert activity.latest() == []
