"""Runs programs at a terminal of a given size, and reads the terminal's text."""

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
from typing import TYPE_CHECKING

from scenes.waiting import HANG_SECONDS, await_true

if TYPE_CHECKING:
    from pathlib import Path

_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def terminal_lines(
    *arguments: str, config: Path, columns: int, lines: int
) -> list[str]:
    """Run `backhaul` at a terminal; return the lines, without their colors."""
    ours, theirs = pty.openpty()
    size = struct.pack("HHHH", lines, columns, 0, 0)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    environ = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES"}}
    with subprocess.Popen(
        [sys.executable, "-m", "backhaul", *arguments, "--config", str(config)],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.STDOUT,
        env=environ | {"TERM": "xterm-256color"},
    ) as process:
        os.close(theirs)
        text = _all_of(ours).decode()
        assert process.wait(HANG_SECONDS) == 0, text
    assert _STEERING.search(text), "it is no terminal to the program"
    return _STEERING.sub("", text).replace("\r", "").splitlines()


def run_at_terminal(config: Path, answer: bytes, *arguments: str) -> tuple[int, str]:
    """Run `backhaul` with terminal input; return its exit code and output."""
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    done = subprocess.run(
        [sys.executable, "-m", "backhaul", *arguments, "--config", str(config)],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    for end in (ours, theirs):
        os.close(end)
    return done.returncode, done.stdout


def _all_of(ours: int) -> bytes:
    """Read until the other end is closed, which Linux reports as an error."""
    found = b""
    try:
        while part := os.read(ours, 4_096):
            found += part
    except OSError:
        pass
    finally:
        os.close(ours)
    return found


class Typist:
    """Types answers at a program's prompts, and reads what the terminal echoes."""

    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.seen = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "backhaul", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,  # so that getpass finds no other terminal
        )
        os.close(theirs)

    def await_text(self, text: str) -> None:
        """Wait until the program prints this text once more."""
        before = len(self.seen)
        while text not in self.seen[before:]:
            self.seen += os.read(self._ours, 4_096).decode()

    def answer(self, question: str, text: str) -> None:
        """Wait for a prompt that was not answered yet, and type a line."""
        self.await_text(question)
        # A prompt for a secret discards earlier input.
        _await_prompt(self._ours, hidden="invisible" in question)
        os.write(self._ours, f"{text}\n".encode())

    def interrupt(self) -> int:
        """Press Ctrl-C; return the exit code."""
        self._process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> int:
        """Read to the end; return the exit code."""
        self.seen += _all_of(self._ours).decode()
        return self._process.wait(HANG_SECONDS)


def _await_prompt(terminal: int, *, hidden: bool) -> None:
    """Wait until the terminal echoes, or hides, what is typed."""

    def ready() -> bool:
        return bool(termios.tcgetattr(terminal)[3] & termios.ECHO) is not hidden

    await_true(ready, "the prompt")
