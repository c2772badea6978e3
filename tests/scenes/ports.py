"""Ports for the servers that tests start, and the wait until a server is ready."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import TYPE_CHECKING

from backhaul.demo import demo_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHOWN = 4_000
"""So many characters of a log are shown."""
_given: set[int] = set()


def free_port() -> int:
    """Choose a port that nobody listens on; each call chooses another one.

    It is none of those from which the kernel takes ports for outgoing connections. A
    server may need seconds until it listens, and a connection must not have its port
    then.
    """
    while (port := demo_folder.free_port()) in _given:
        pass
    _given.add(port)
    return port


def free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]


def accepts(port: int) -> bool:
    """Return True if a program of this machine listens on the port."""
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def unless_ended(
    poll: Callable[[], int | None], ready: Callable[[], bool], log: Path | None = None
) -> Callable[[], bool]:
    """Return a condition to wait for: `ready`, while the server runs.

    Args:
        poll: returns the exit code of the server, and None while it runs.
        ready: whether the server may be used.
        log: what the server has written; its end is shown.

    The condition raises AssertionError if the server has ended.
    """

    def condition() -> bool:
        if (code := poll()) is not None:
            told = "" if log is None else log.read_text("utf-8", "replace")
            raise AssertionError(f"the server ended with {code}: {told[-SHOWN:]}")
        return ready()

    return condition
