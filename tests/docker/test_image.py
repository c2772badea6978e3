"""The image is built as docker/README.md says, and daemon and server run in it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docker.building import Buildah, network
from scenes.requirements import require, require_root
from scenes.waiting import await_true
from service.machine import prepared

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.faults, pytest.mark.long, pytest.mark.timeout(900)]

USER = 8750
STOP_SECONDS = 20
ENVIRONMENT = {
    "BACKHAUL_STORES__MAIN__API_KEY_FILE": "/handed/main_api_key",
    "BACKHAUL_STORES__MAIN__BASE_URL": "http://127.0.0.1:8760",
    "BACKHAUL_PUBLIC__URL": "http://127.0.0.1:8750",
}


@pytest.fixture(scope="module")
def buildah() -> Iterator[Buildah]:
    require("buildah")
    require_root("buildah unpacks files of many users")
    tree, wheels = prepared()
    with tempfile.TemporaryDirectory(prefix="image-", ignore_cleanup_errors=True) as at:
        made = Buildah(Path(at))
        made.base(tree)
        made.build(wheels)
        yield made


def test_the_image_declares_how_it_is_run(buildah: Buildah) -> None:
    facts = buildah.facts()
    assert (facts["User"], facts["Entrypoint"], facts["Cmd"]) == (
        "8750",
        ["backhaul"],
        ["run"],
    )
    assert set(facts["ExposedPorts"]) == {"8750/tcp"}
    assert set(facts["Volumes"]) == {"/var/lib/backhaul"}
    assert "urlopen" in facts["Healthcheck"]["Test"][-1]


def test_the_image_contains_only_the_program(buildah: Buildah) -> None:
    with buildah.container() as (_, root):
        assert not (root / "source").exists()
        assert list(root.rglob("secret.env")) == []
        assert not list((root / "opt/backhaul/bin").glob("pip*"))
        assert (root / "var/lib/backhaul").stat().st_uid == USER


def test_the_pair_runs_in_it_and_ends_in_order(
    buildah: Buildah, tmp_path: Path
) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    with (
        ExitStack() as ended,
        network() as inside,
        buildah.container() as (shop, _),
        buildah.container() as (office, root),
    ):
        at_shop = volume(tmp_path / "shop")
        serve = ["reference", "--data", "/var/lib/backhaul", "--fixture", "demo"]
        run = buildah.run(shop, [mounted(at_shop)], "backhaul", *serve)
        store = start(inside, run, tmp_path / "store.log", ended)
        access = at_shop / "access.json"
        await_true(access.exists, "the store runs", 60)
        hand_over(json.loads(access.read_text())["stores"][0]["api_key"], secrets)
        before = written(root)
        # In /run buildah puts something of its own.
        options = [f"--volume={secrets}:/handed:ro"]
        options += [f"--env={name}={value}" for name, value in ENVIRONMENT.items()]
        run = buildah.run(office, options, "backhaul", "run")
        daemon = start(inside, run, tmp_path / "log", ended)
        *_, check = buildah.facts()["Healthcheck"]["Test"]
        health = [*inside, *buildah.run(office, [], "python3", "-c", check)]
        await_true(lambda: succeeds(health), "it is healthy", 240)
        said = tmp_path / "log"
        await_true(lambda: "orders read" in said.read_text(), "orders are mirrored", 60)
        first = process("run")
        assert Path(f"/proc/{first}").stat().st_uid == USER
        assert written(root) == before
        end(first, daemon)
        assert "daemon.stopped" in said.read_text()
        end(process("backhaul_reference"), store)


def volume(folder: Path) -> Path:
    folder.mkdir()
    shutil.chown(folder, USER, USER)
    return folder


def mounted(folder: Path) -> str:
    return f"--volume={folder}:/var/lib/backhaul"


def start(
    inside: list[str], command: list[str], log: Path, ended: ExitStack
) -> subprocess.Popen[bytes]:
    with log.open("w") as out:
        started = subprocess.Popen(
            [*inside, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    ended.callback(put_an_end_to, started)
    return started


def put_an_end_to(started: subprocess.Popen[bytes]) -> None:
    """End the program as well, which would outlive what runs it."""
    if started.poll() is None:
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children")
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGTERM)
        started.terminate()
        started.wait()


def end(pid: int, runner: subprocess.Popen[bytes]) -> None:
    """Send what `docker stop` sends to the first process."""
    Path(f"/proc/{pid}").stat()
    subprocess.run(["kill", f"-{signal.SIGTERM}", str(pid)], check=True)
    assert runner.wait(STOP_SECONDS) == 0


def hand_over(key: str, secrets: Path) -> None:
    file = secrets / "main_api_key"
    file.touch(0o600)
    file.write_text(key)
    shutil.chown(file, USER, USER)
    shutil.chown(secrets, USER, USER)


def succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def process(word: str) -> int:
    """Return the id of the image's program with this word in its command."""
    (found,) = (
        int(entry.name)
        for entry in Path("/proc").glob("[0-9]*")
        if is_ours((entry / "cmdline").read_bytes().decode().split("\0"), word)
    )
    return found


def is_ours(words: list[str], word: str) -> bool:
    return words[0].startswith("/opt/backhaul/bin/python") and word in words


def written(root: Path) -> set[str]:
    """Return every file outside of what may be written, with its time and size."""
    may = {root / part for part in ("var/lib/backhaul", "tmp", "run", "proc", "sys")}
    found = set()
    for at, names, files in os.walk(root):
        folder = Path(at)
        names[:] = [name for name in names if folder / name not in may]
        for name in files:
            told = (folder / name).lstat()
            found.add(f"{folder / name} {told.st_mtime_ns} {told.st_size}")
    return found
