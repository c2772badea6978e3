"""`backhaul demo`, as a user runs it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest

from backhaul.demo import tryton_server
from backhaul.demo.demo_folder import ports_from
from backhaul.errors import BackhaulError
from scenes.ports import free_port
from scenes.stored import COMMANDS_AND_TARGETS, rows_of
from scenes.tryton import bare_database, common_folder
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.programs

Demo = subprocess.Popen[str]
WRONG = ("lost", "doubled", "unexpected", "differing", "parked")
PLACES = ("the store's shop page", "the store's dashboard", "the daemon's dashboard")
ROW = re.compile(r"^ *(\S.*?) {2,}(\S.*?) *$", re.MULTILINE)


@contextmanager
def running(*arguments: str, cache: Path | None = None) -> Iterator[Demo]:
    """Start a demo; it is killed if the test leaves it running."""
    process = subprocess.Popen(
        [sys.executable, "-m", "backhaul", "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | ({"XDG_CACHE_HOME": str(cache)} if cache else {}),
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def sources(kept: Path) -> set[tuple[str, str]]:
    """Return who brought what, a scanner by its device."""
    path = kept / "daemon" / "backhaul.db"
    kinds: dict[str, str] = dict(rows_of(path, COMMANDS_AND_TARGETS, "id", "kind"))
    records = rows_of(path, "records", "instance", "locator", "command_id")
    return {
        (f"{name} {locator.split()[-1]}" if name == "scanner" else name, kinds[command])
        for name, locator, command in records
        if command in kinds
    }


def read_until(stream: IO[str] | None, words: str) -> str:
    """Read lines until one holds the words."""
    assert stream is not None
    for line in stream:
        if words in line:
            return line
    pytest.fail(f"the output ended without {words!r}")


def test_once_balances(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with running("--once", "--orders", "40", "--keep", str(kept)) as demo:
        output, errors = demo.communicate(timeout=HANG_SECONDS)
    assert (demo.returncode, errors) == (0, "")
    ledger = dict(ROW.findall(output))
    assert [ledger[name] for name in WRONG] == ["0"] * 5
    assert ledger["orders"] == "40"
    assert int(ledger["commands"]) > 30
    assert ledger["placed to mirrored"].endswith(" of 40")
    assert "p99" in ledger["scanned to fulfilled"]
    assert (kept / "daemon" / "backhaul.db").exists()
    assert sources(kept) == {
        ("courier", "fulfill"),
        ("courier", "cancel"),
        ("courier", "adjust"),
        ("erp", "fulfill"),
        ("erp", "target"),
        ("scanner handheld-1", "fulfill"),
        ("scanner handheld-2", "fulfill"),
        ("scanner packing-station", "fulfill"),
    }


@pytest.mark.timeout(900)
def test_a_tryton_feeds_the_same_store_as_the_others(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept, cache = tmp_path / "kept", common_folder(tmp_path_factory)
    bare_database(cache)
    arguments = ["--once", "--orders", "24", "--with-tryton", "--keep", str(kept)]
    with running(*arguments, cache=cache) as demo:
        output, errors = demo.communicate(timeout=HANG_SECONDS)
    assert (demo.returncode, errors) == (0, "")
    ledger = dict(ROW.findall(output))
    assert [ledger[name] for name in WRONG] == ["0"] * 5
    brought = sources(kept)
    assert {("tryton", "fulfill"), ("tryton", "target")} <= brought
    names = {name.partition(" ")[0] for name, _ in brought}
    assert names == {"courier", "erp", "scanner", "tryton"}


def test_without_tryton_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tryton_server, "PACKAGES", ("no-such-package",))
    with pytest.raises(BackhaulError, match=r"pip install 'trytond-sale.*' 'proteus"):
        tryton_server.keep_database(pytest.fail)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_both_programs(number: signal.Signals, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with running("--keep", str(kept)) as demo:
        places = [read_until(demo.stdout, name).split()[-1] for name in PLACES]
        statuses = [httpx.get(url, follow_redirects=True).status_code for url in places]
        read_until(demo.stdout, f"backhaul why order 1001 --config {kept}/")
        demo.send_signal(number)
        output, errors = demo.communicate(timeout=HANG_SECONDS)
    assert statuses == [200] * 3
    assert (demo.returncode, errors) == (0, "")
    assert "both programs are stopped" in output
    assert f"the data, logs and configuration are in {kept}" in output
    assert '"daemon.stopped"' in (kept / "daemon.log").read_text()


def test_the_ports_can_be_chosen(tmp_path: Path) -> None:
    first = free_row()
    with running("--keep", str(tmp_path / "kept"), "--port", str(first)) as demo:
        places = [read_until(demo.stdout, name).split()[-1] for name in PLACES]
        # Each event has a line with its address, and figures come every five seconds.
        line = read_until(demo.stdout, "received  http://")
        page = httpx.get(line.split()[-1], follow_redirects=True)
        read_until(demo.stdout, "placed 1")
        demo.send_signal(signal.SIGINT)
        output, errors = demo.communicate(timeout=HANG_SECONDS)
    assert [urlsplit(url).port for url in places] == [first, first + 1, first + 3]
    assert (demo.returncode, errors) == (0, "")
    assert re.fullmatch(r"\d\d:\d\d:\d\d  demo  order #\d+ received  \S+\n", line)
    assert page.status_code == 200
    summary = dict(ROW.findall(output.partition("are stopped\n")[2]))
    assert int(summary["orders placed"]) > 0
    assert summary["orders received"] == summary["orders placed"]
    assert [summary[name] for name in WRONG] == ["0"] * 5


def free_row() -> int:
    """Return a port that nobody listens on, and nobody on the four after it."""
    while True:
        first = free_port()
        try:
            ports_from(first)
        except BackhaulError:
            continue
        return first


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        first = min(port - 2, 65_531)
        with running("--keep", str(tmp_path / "kept"), "--port", str(first)) as demo:
            output, errors = demo.communicate(timeout=HANG_SECONDS)
    assert (demo.returncode, output) == (1, "")
    assert f"another program listens on port {port}" in " ".join(errors.split())


def test_once_that_is_interrupted_gives_no_verdict(tmp_path: Path) -> None:
    arguments = ["--once", "--orders", "5000", "--keep", str(tmp_path / "kept")]
    with running(*arguments) as demo:
        read_until(demo.stdout, "simulating 5000 orders")
        demo.send_signal(signal.SIGINT)
        output, errors = demo.communicate(timeout=HANG_SECONDS)
    assert (demo.returncode, errors) == (130, "")
    assert "comparison of both sides" not in output


def test_a_program_that_dies_is_reported(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with running("--keep", str(kept)) as demo:
        read_until(demo.stdout, "backhaul why")
        lock = kept / "daemon" / "backhaul.lock"
        subprocess.run(["kill", "-KILL", lock.read_text().strip()], check=True)
        _, errors = demo.communicate(timeout=HANG_SECONDS)
    assert demo.returncode == 1
    assert "the daemon ended with exit code -9" in errors
    assert f"(see {kept / 'daemon.log'})" in errors


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs.txt").touch()
    with running("--keep", str(tmp_path)) as demo:
        _, errors = demo.communicate(timeout=HANG_SECONDS)
    assert demo.returncode == 1
    assert (
        errors
        == f"the folder {tmp_path} is not empty; give a new or an empty folder with"
        " --keep\n"
    )


def test_a_closed_output_ends_the_demo_quietly(tmp_path: Path) -> None:
    with running("--keep", str(tmp_path / "kept")) as demo:
        read_until(demo.stdout, "webhooks are received at")
        assert demo.stdout is not None
        demo.stdout.close()
        assert demo.stderr is not None
        assert demo.stderr.read() == ""
        assert demo.wait(timeout=HANG_SECONDS) == 1
