"""`backhaul status` beside a daemon that hangs up."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from backhaul.control import SOCKET_NAME
from support.daemon import in_process
from support.mirrored import fill, lone_office, orders


def hang_up(listener: socket.socket) -> None:
    listener.accept()[0].close()


def test_a_daemon_that_does_not_answer_is_not_said_to_be_away() -> None:
    with (
        lone_office() as office,
        socket.socket(socket.AF_UNIX) as listener,
        ThreadPoolExecutor(1) as thread,
    ):
        asyncio.run(fill(office, *orders(2)))
        listener.bind(str(office.folder / "state" / SOCKET_NAME))
        listener.listen()
        gone = thread.submit(hang_up, listener)
        said = in_process("status", config=office.config)
        gone.result()
    assert said.code == 0, said.err
    assert "does not answer: the daemon went away" in said.out
    assert "2 orders" in said.out
