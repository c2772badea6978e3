"""A Debian of its own, booted with systemd: `python -m service.machine` prepares it.

What it is made of is fetched once and kept in the user's cache, by what it is made of;
inside there is no network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scenes.requirements import require, require_root
from scenes.waiting import await_true
from scenes.wheels import CACHE, ROOT, cached, run, wheels

if TYPE_CHECKING:
    from collections.abc import Iterator

SUITE, PYTHON = "bookworm", "3.11"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "python3-venv")
SOURCES = (
    *("config", "connectors", "daemon", "debian", "systemd"),
    *("LICENSE", "README.md", "pyproject.toml"),
)
BOOT = """
mount -t tmpfs tmpfs /run
mkdir /run/systemd
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/up,workdir=$2/work" "$2/root"
exec systemd-nspawn --quiet --boot --register=no --keep-unit --private-network \
  --machine="$3" --directory="$2/root" --bind-ro="$4:/wheels" --console=pipe
"""
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}


def prepared() -> tuple[Path, Path]:
    """Return the tree of the system, and the folder of wheels."""
    require_root("it boots a system in namespaces of its own")
    for tool in ("debootstrap", "systemd-nspawn", "unshare", "nsenter"):
        require(tool)
    debian = cached("debian", f"{SUITE} {PACKAGES}".encode(), _debootstrap)
    return debian, wheels(PYTHON)


def _debootstrap(folder: Path) -> None:
    packages = f"--include={','.join(PACKAGES)}"
    command = ["debootstrap", "--variant=minbase", packages, SUITE, str(folder)]
    run([*command, _mirror()])


def _mirror() -> str:
    """Return where this machine gets its packages from, if that is the suite's."""
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(CODENAME) $(SITE)"],
        capture_output=True,
        text=True,
        check=False,
    )
    sites = [line.split() for line in told.stdout.splitlines()]
    return next((site for codename, site in sites if codename == SUITE), MIRROR)


class Machine:
    """Runs scripts inside; `root` is its file system."""

    def __init__(self, first: int) -> None:
        self._first = first
        self.root = Path(f"/proc/{first}/root")

    def run(self, script: str, seconds: float = 60) -> str:
        """Run lines of a shell as root, in the folder of the sources."""
        done = self.tried(script, seconds)
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def tried(
        self, script: str, seconds: float = 60
    ) -> subprocess.CompletedProcess[str]:
        shell = ["/bin/bash", "-euo", "pipefail", "-c", f"cd /src\n{script}"]
        return subprocess.run(
            [*self.inside("-m", "-u", "-i", "-p", "-n"), *shell],
            env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **OFFLINE},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )

    def inside(self, *namespaces: str) -> list[str]:
        """Return what runs a command in some of its namespaces."""
        return ["nsenter", "--target", str(self._first), *namespaces, "--"]

    def show(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.run(f"systemctl show --value -p {name} {unit}").strip()

    def journal(self, unit: str = "backhaul") -> str:
        return self.run(f"journalctl --no-pager -o cat -u {unit}")


@contextmanager
def machine() -> Iterator[Machine]:
    """Boot it with a copy of the sources, and turn it off."""
    tree, fetched = prepared()
    folder = Path(tempfile.mkdtemp(prefix="machine-", dir=CACHE))
    try:
        with _booted(folder, tree, fetched) as made:
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _booted(folder: Path, tree: Path, fetched: Path) -> Iterator[Machine]:
    for part in ("up/src", "work", "root"):
        (folder / part).mkdir(parents=True)
    _copy_sources(folder / "up/src")
    boot = ["sh", "-e", "-c", BOOT, "boot", str(tree), str(folder)]
    boot += [f"backhaul-{os.getpid()}", str(fetched)]
    with (folder / "console").open("w") as console:
        started = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", *boot],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
        )
    try:
        made = Machine(_first_process(started, folder / "console"))
        await_true(lambda: _is_up(made), "it has booted", 60)
        yield made
    finally:
        started.terminate()
        try:
            started.wait(30)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def _copy_sources(target: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    for name in (*SOURCES, "requirements.lock"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, target / name)


def _first_process(started: subprocess.Popen[bytes], console: Path) -> int:
    """Return the process that is the first one inside."""
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children")

    def look() -> list[str]:
        assert started.poll() is None, console.read_text()
        return [child for child in children.read_text().split() if _is_init(child)]

    return int(await_true(look, "it begins to boot", 60)[0])


def _is_init(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/comm").read_text() == "systemd\n"
    except FileNotFoundError:  # a mount before the boot
        return False


def _is_up(made: Machine) -> bool:
    return made.tried("systemctl is-system-running").stdout.strip() in {
        "running",
        "degraded",
    }


if __name__ == "__main__":
    prepared()
