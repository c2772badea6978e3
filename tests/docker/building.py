"""Builds the image with buildah, on a Debian of its own, and runs what is in it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenes.requirements import require
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = (
    "daemon",
    "connectors",
    "docker",
    "requirements.lock",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)
BASE, IMAGE = "localhost/debian", "localhost/backhaul"
# A network of its own, so that the ports of the image are free; without root in it.
ALONE = """
import fcntl, os, socket, struct, sys
with socket.socket() as any_socket:
    up = struct.pack("16sH14x", b"lo", 1)
    fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS, IFF_UP
os.execvp(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True, slots=True)
class Buildah:
    """One storage of images and containers, in a folder of its own."""

    folder: Path

    def say(self, *arguments: str) -> str:
        """Run a command of buildah; return what it prints."""
        done = subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
        return done.stdout.strip()

    def command(self, *arguments: str) -> list[str]:
        storage = ["--root", str(self.folder / "root"), "--storage-driver", "overlay"]
        return [
            require("buildah"),
            *storage,
            "--runroot",
            str(self.folder / "run"),
            *arguments,
        ]

    def base(self, tree: Path) -> None:
        """Make an image of a root file system."""
        made = self.say("from", "scratch")
        self.say("add", "--quiet", made, f"{tree}/", "/")
        self.say("commit", "--quiet", "--disable-compression", "--rm", made, BASE)

    def build(self, wheels: Path) -> None:
        """Build the image from a copy of the sources, without an index."""
        context = self.folder / "context"
        for name in CONTEXT:
            copied = context / name
            copied.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, copied, ignore=ignored)
            else:
                shutil.copy(ROOT / name, copied)
        (context / "secret.env").write_text("not for the image")
        options = ["--isolation", "chroot", "--format", "docker", "--tag", IMAGE]
        options += ["--file", str(context / "docker/Dockerfile")]
        options += ["--ignorefile", str(context / "docker/Dockerfile.dockerignore")]
        options += ["--volume", f"{wheels}:/wheels:ro"]
        for argument in (f"BASE={BASE}", "PIP_NO_INDEX=1", "PIP_FIND_LINKS=/wheels"):
            options += ["--build-arg", argument]
        self.say("build", *options, str(context))

    def facts(self) -> dict[str, Any]:
        """Return what the image says of itself."""
        told: dict[str, Any] = json.loads(self.say("inspect", "--type", "image", IMAGE))
        config: dict[str, Any] = told["Docker"]["config"]
        return config

    @contextmanager
    def container(self) -> Iterator[tuple[str, Path]]:
        """Yield a container's name, and where its root is."""
        name = self.say("from", IMAGE)
        try:
            yield name, Path(self.say("mount", name))
        finally:
            self.say("rm", name)

    def run(self, name: str, options: Sequence[str], *command: str) -> list[str]:
        """Return what runs a command in a container, in the network of the caller."""
        isolated = ["run", "--isolation", "chroot", *options, name, "--", *command]
        return self.command(*isolated)


@contextmanager
def network() -> Iterator[list[str]]:
    """Yield what runs a command in a network of its own."""
    require("unshare")
    holder = subprocess.Popen(
        ["unshare", "--net", sys.executable, "-c", ALONE, "sleep", "infinity"]
    )
    try:
        name = Path(f"/proc/{holder.pid}/comm")
        await_true(lambda: name.read_text().strip() == "sleep", "the network is up", 20)
        yield [require("nsenter"), "--target", str(holder.pid), "--net", "--"]
    finally:
        holder.kill()
        holder.wait()
