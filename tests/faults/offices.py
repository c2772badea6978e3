"""Back offices as processes that are killed, each with what has arrived there."""

from __future__ import annotations

import json
import subprocess
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from backhaul_connectors.courier import Courier
from backhaul_connectors.courier.settings import Settings as CourierSettings
from backhaul_connectors.file_drop import FileDrop
from backhaul_connectors.file_drop.settings import Settings as FileSettings
from backhaul_connectors.http_json import HttpJson
from backhaul_connectors.http_json.settings import Settings as HttpSettings
from backhaul_connectors.webhook_out import WebhookOut
from backhaul_connectors.webhook_out.connector import Settings as WebhookSettings
from connectors import backoffice
from connectors.tables import NEWS, ORDERS, PostgresTables
from faults.office import SECRET, TOKEN, came
from scenes.ports import accepts, free_port, unless_ended
from scenes.postgres import postgres
from scenes.sshd import Sshd
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backhaul_sdk import Connector

TESTS = Path(__file__).resolve().parents[1]


class Office(ABC):
    """The system on the other side of a connector; it runs from the start."""

    repeats = False
    """True if it may get a notification twice, and recognises the id."""
    names = "id"
    """The member of a delivery by which it identifies a notification."""
    orders_a_life = 10
    busy_seconds = 0.05
    """It is killed within this time after an order: about the time of one order."""

    @abstractmethod
    def start(self) -> None:
        """Start the system, and wait until it answers."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the system."""

    @abstractmethod
    def connector(self) -> Connector[Any]:
        """Return a connector for the system."""

    @abstractmethod
    def came(self) -> list[str]:
        """Return the received notifications with repetitions; only while it runs."""

    def close(self) -> None:
        """Remove everything of the system."""
        self.kill()


class WebOffice(Office):
    """The program `faults.office`."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "office.txt"
        self._port = free_port()
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "faults.office", str(self._port)]
        self._server = subprocess.Popen([*command, str(self._file)], cwd=TESTS)
        ready = unless_ended(self._server.poll, lambda: accepts(self._port))
        await_true(ready, "the office listens")

    def kill(self) -> None:
        self._server.kill()
        self._server.wait()

    def came(self) -> list[str]:
        return came(self._file)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def network(self) -> dict[str, Any]:
        return {"allow": ["127.0.0.1"], "ports": [self._port], "allow_http": True}


class Webhooks(WebOffice):
    """A receiver of webhooks."""

    repeats = True

    def connector(self) -> Connector[Any]:
        told: dict[str, Any] = {"url": f"{self.url}/news", "secrets": [SECRET]}
        told["network"] = self.network
        return WebhookOut("office", WebhookSettings.model_validate(told))


class Rest(WebOffice):
    """Accepts orders over HTTP, and has a lookup."""

    does: ClassVar[Mapping[str, Any]] = {"pushes": {"order.placed": backoffice.ORDERS}}

    def connector(self) -> Connector[Any]:
        told = {"base_url": self.url, "auth": "bearer", "token": TOKEN, **self.does}
        told |= {"network": self.network}
        settings = HttpSettings.model_validate(told)
        return HttpJson("office", settings, clock=backoffice.hurried())


class Shipments(Rest):
    """Lists its shipments, with the start of the next page."""

    _own: ClassVar[Mapping[str, Any]] = {
        "kind": "fulfillment",
        "path": "/shipments",
        "items": "data",
        "key": "id",
        "fields": {"order": "order", "tracking_number": "parcel.number"},
        "paging": "cursor",
        "page_parameter": "after",
        "next": "next",
        "keep_cursor": True,
    }
    does: ClassVar[Mapping[str, Any]] = {"lists": {"shipments": _own}}


class Parcels(WebOffice):
    """A courier with a lookup of parcels."""

    def connector(self) -> Connector[Any]:
        told: dict[str, Any] = {"vendor": "sendcloud", "api_url": self.url}
        told |= {"api_key": "key", "api_secret": "other", "network": self.network}
        return Courier("office", CourierSettings.model_validate(told))


class Database(Office):
    """A PostgreSQL server with two tables for an order."""

    def __init__(self, _: Path) -> None:
        self._made = postgres()
        self._server = self._made.__enter__()
        self._tables = PostgresTables(self._server)
        self._tables.run("CREATE TABLE came (id text)")
        self._when("orders", "INSERT INTO came (id) VALUES (new.change_id);")
        # it pauses between the two tables, so that kills happen there
        self._when("news", "PERFORM pg_sleep(0.01);")

    def start(self) -> None:
        self._server.start()

    def kill(self) -> None:
        self._server.kill()

    def connector(self) -> Connector[Any]:
        return self._tables.connector(write=[ORDERS, NEWS])

    def came(self) -> list[str]:
        both = "SELECT id, change_id FROM came FULL JOIN news ON id = change_id"
        found = self._tables.rows(both)
        assert all(one == other for one, other in found), "half an order"
        return [one for one, _ in found]

    def close(self) -> None:
        self._made.__exit__(None, None, None)

    def _when(self, table: str, happens: str) -> None:
        """Execute something before each write to a table."""
        self._tables.run(
            f"CREATE FUNCTION before_{table}() RETURNS trigger LANGUAGE plpgsql "
            f"AS $$ BEGIN {happens} RETURN new; END $$"
        )
        self._tables.run(
            f"CREATE TRIGGER happens BEFORE INSERT OR UPDATE ON {table} "
            f"FOR EACH ROW EXECUTE FUNCTION before_{table}()"
        )


class Folder(Office):
    """A folder behind sshd, from which an ERP takes files."""

    orders_a_life = 3
    busy_seconds = 0.3

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "drop"
        self._outbox = self._folder / "outbox"
        self._outbox.mkdir(parents=True)
        self._taken: list[str] = []
        self._server = Sshd(folder)
        self.start()

    def start(self) -> None:
        self._server.start()

    def kill(self) -> None:
        self._server.kill()

    def connector(self) -> Connector[Any]:
        told = {"path": self._folder, "exports": "outbox", "export_format": "jsonl"}
        settings = FileSettings.model_validate({**told, **self._server.settings()})
        return FileDrop("office", settings)

    def came(self) -> list[str]:
        self._taken += self._take()
        return self._taken

    def _take(self) -> Iterator[str]:
        for path in sorted(self._outbox.glob("[!.]*.jsonl")):
            yield json.loads(path.read_text())["id"]
            path.unlink()
