"""bootstrap.py with a local package index."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from repository.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WHEEL = b"the bytes of a wheel"
NAME = "pip-99.1-py3-none-any.whl"
PAGE = f'<a href="pip-9.tar.gz">9</a> <a href="../../files/{NAME}#sha256=0">w</a>'
DIGEST = hashlib.sha256(WHEEL).hexdigest()
LOCK = f"""\
piper==1.0 \\
    --hash=sha256:{"1" * 64}
pip==99.1 \\
    --hash=sha256:{"2" * 64} \\
    --hash=sha256:{DIGEST}
    # via something
"""


class Index:
    """What the server answers, and what it was asked."""

    def __init__(self) -> None:
        self.pages = {
            "/mirror/simple/pip/": PAGE.encode(),
            f"/mirror/files/{NAME}": WHEEL,
        }
        self.failures: list[int] = []
        self.asked: list[tuple[str, str | None]] = []
        self.port = 0

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        self.asked.append((path, authorization))
        if self.failures:
            return self.failures.pop(0), b"try later"
        found = self.pages.get(path)
        return (404, b"") if found is None else (200, found)

    def url(self, user: str = "") -> str:
        return f"http://{user}127.0.0.1:{self.port}/mirror/simple"


@contextmanager
def serving(index: Index) -> Iterator[Index]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = index.answer(self.path, self.headers["Authorization"])
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        index.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def index() -> Iterator[Index]:
    with serving(Index()) as running:
        yield running


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return tmp_path / "pip.whl"


def bootstrap(wheel: Path, lock: str = LOCK, **settings: str) -> str:
    """Run it in a process of its own; return what it complains about."""
    lock_file = wheel.with_name("requirements-dev.lock")
    lock_file.write_text(lock)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    home = {"HOME": str(wheel.parent), "no_proxy": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, ROOT / "bootstrap.py", lock_file, wheel],
        env=kept | home | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) == bool(done.stderr)
    return done.stderr


def test_the_pinned_wheel_is_fetched(index: Index, wheel: Path) -> None:
    assert bootstrap(wheel, PIP_INDEX_URL=index.url()) == ""
    assert wheel.read_bytes() == WHEEL
    assert [path for path, _ in index.asked] == list(index.pages)


def test_a_wheel_that_is_there_is_not_fetched_again(index: Index, wheel: Path) -> None:
    wheel.write_bytes(WHEEL)
    assert bootstrap(wheel, PIP_INDEX_URL=index.url()) == ""
    assert index.asked == []


def test_another_wheel_in_its_place_is_replaced(index: Index, wheel: Path) -> None:
    wheel.write_bytes(b"half a whe")
    assert bootstrap(wheel, PIP_INDEX_URL=index.url()) == ""
    assert wheel.read_bytes() == WHEEL


def test_a_forged_wheel_is_refused(index: Index, wheel: Path) -> None:
    index.pages[f"/mirror/files/{NAME}"] = b"forged"
    complaint = bootstrap(wheel, PIP_INDEX_URL=index.url())
    assert complaint == f"bootstrap: {NAME} is not the file that the lock pins\n"
    assert not wheel.exists()


def test_a_temporary_failure_is_retried(index: Index, wheel: Path) -> None:
    index.failures = [503]
    assert bootstrap(wheel, PIP_INDEX_URL=index.url()) == ""
    assert len(index.asked) == 3


def test_a_permanent_failure_is_not_retried(index: Index, wheel: Path) -> None:
    index.pages.clear()
    complaint = bootstrap(wheel, PIP_INDEX_URL=index.url())
    assert complaint.endswith("/mirror/simple/pip/: HTTP Error 404: Not Found\n")
    assert len(index.asked) == 1


def test_an_index_without_that_version_is_named(index: Index, wheel: Path) -> None:
    index.pages["/mirror/simple/pip/"] = b'<a href="pip-9.tar.gz">9</a>'
    complaint = bootstrap(wheel, PIP_INDEX_URL=index.url())
    assert complaint == f"bootstrap: {index.url()}/pip/ does not list {NAME}\n"


def test_credentials_are_sent_and_never_shown(index: Index, wheel: Path) -> None:
    index.failures = [404]
    complaint = bootstrap(wheel, PIP_INDEX_URL=index.url("ann:s%40cret@"))
    assert complaint.startswith(f"bootstrap: {index.url()}/pip/: ")
    assert index.asked[0][1] == "Basic YW5uOnNAY3JldA=="


def test_the_index_of_pip_conf_is_used(index: Index, wheel: Path) -> None:
    config = wheel.with_name("pip.conf")
    config.write_text(f"[global]\nindex-url = {index.url()}\n")
    assert bootstrap(wheel, PIP_CONFIG_FILE=str(config)) == ""
    assert wheel.read_bytes() == WHEEL


def test_certificates_come_from_pips_setting(index: Index, wheel: Path) -> None:
    missing = str(wheel.with_name("no-such.pem"))
    complaint = bootstrap(wheel, PIP_INDEX_URL=index.url(), PIP_CERT=missing)
    assert complaint == f"bootstrap: no certificates at {missing} (PIP_CERT)\n"


def test_a_lock_without_pip_is_named(wheel: Path) -> None:
    complaint = bootstrap(wheel, lock="piper==1.0 \\\n    --hash=sha256:00\n")
    assert complaint == "bootstrap: the lock pins no pip; run `make lock`\n"
