"""The measured reference server: starts it, asks it things, reads its books."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import urllib.request
from contextlib import closing, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import uvloop

from bench import servers
from bench.results import CountsDisagreeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SUBDOMAIN = "demo"
PAGE = 100
POLL_SECONDS = 0.05
STALL_SECONDS = 60
OWED = """SELECT (SELECT count(*) FROM delivery WHERE status = 'PENDING'),
    (SELECT count(*) FROM mail WHERE status = 'PENDING')"""


@dataclass(frozen=True, slots=True)
class Shop:
    """A running reference server with one store."""

    port: int
    pid: int
    folder: Path
    key: str

    @property
    def shopper(self) -> dict[str, str]:
        return {"x-subdomain": SUBDOMAIN}

    @property
    def office(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def ask(
        self, path: str, headers: Mapping[str, str], sent: Any = None
    ) -> tuple[int, bytes]:
        return ask(self.port, path, headers, sent)

    def every(self, path: str, headers: Mapping[str, str], most: int) -> list[Any]:
        """Walk through a list, up to so many."""
        found: list[Any] = []
        more, page = True, 0
        while more and len(found) < most:
            page += 1
            _, body = self.ask(f"{path}?limit={PAGE}&page={page}", headers)
            answer = json.loads(body)
            found += answer["data"]
            more = answer["meta"]["hasMore"]
        return found[:most]

    def count(self, table: str) -> int:
        """Count the rows of a table, whatever the server says."""
        sql = f"SELECT count(*) FROM {table}"  # noqa: S608 - constants
        return int(self._row(sql)[0])

    def owed(self) -> tuple[int, int]:
        """Return how many deliveries and how many mails still wait."""
        deliveries, mails = self._row(OWED)
        return deliveries, mails

    def wait_until_idle(self) -> float:
        """Wait until nothing is owed; return how many seconds that took."""
        return uvloop.run(_until_nothing_is_owed(self))

    def _row(self, sql: str) -> Any:
        with closing(sqlite3.connect(self.folder / "reference.db")) as connection:
            return connection.execute(sql).fetchone()


def ask(
    port: int, path: str, headers: Mapping[str, str], sent: Any = None
) -> tuple[int, bytes]:
    """Send one request: a POST where there is something to send."""
    body = None if sent is None else json.dumps(sent).encode()
    typed = {**headers, "Content-Type": "application/json"}
    url = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(url, body, typed)
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own servers
        return answer.status, answer.read()


@contextmanager
def open_shop(folder: Path, fixture: str) -> Iterator[Shop]:
    """Run the server as it ships, without limits on how often one may ask."""
    options = ("--data", str(folder), "--port", "0", "--control-port", "0")
    settings = ("--fixture", fixture, "--limits", "off", "--log-level", "error")
    command = ("backhaul_reference", *options, *settings)
    with servers.running("reference", *command) as (line, pid):
        access = json.loads((folder / "access.json").read_text())
        port = int(line.rpartition(":")[2])
        yield Shop(port, pid, folder, access["stores"][0]["api_key"])


async def _until_nothing_is_owed(shop: Shop) -> float:
    started = moved_at = perf_counter()
    left = shop.owed()
    while any(left):
        await asyncio.sleep(POLL_SECONDS)
        before, left = left, shop.owed()
        if left != before:
            moved_at = perf_counter()
        elif perf_counter() - moved_at > STALL_SECONDS:
            raise CountsDisagreeError(f"deliveries and mails still owed: {left}")
    return perf_counter() - started
