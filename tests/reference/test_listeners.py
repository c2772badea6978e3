"""What the server reports when it cannot listen on an address."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from backhaul_reference import server


@contextmanager
def no_more_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_port_in_use_is_named() -> None:
    taken = server.bind("127.0.0.1", 0)
    port = taken.socket.getsockname()[1]
    words = f"^cannot listen on 127.0.0.1:{port}: Address already in use$"
    with pytest.raises(server.PortInUseError, match=words):
        server.bind("127.0.0.1", port)
    taken.close()


def test_without_a_socket_the_reason_is_reported() -> None:
    words = "^cannot listen on 127.0.0.1:80: Too many open files$"
    with no_more_files(), pytest.raises(server.PortInUseError, match=words):
        server.bind("127.0.0.1", 80)
