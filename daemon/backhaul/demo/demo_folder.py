"""Folders, secrets, ports and configuration of a demo, and access to its stores."""

from __future__ import annotations

import json
import os
import secrets
import socket
from typing import TYPE_CHECKING, Any

import httpx
from msgspec import Struct
from msgspec.structs import replace

from backhaul.core.webhook import TOPICS
from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

HOST = "127.0.0.1"
STORE = "demo"
SCANNER, COURIER, ERP, TRYTON = "scanner", "courier", "erp", "tryton"
KEPT_BY_TRYTON = 3
"""Articles that are in Tryton's house, as many as a cart holds."""
DEVICES = ("handheld-1", "handheld-2")
STATION = "packing-station"
"""It sends lines over TCP, and is known by its address."""
FIRST_PORT, PORTS = 20_000, 12_000
"""Below the range from which outgoing connections take theirs: a program that is down
for a moment must find its port free."""


class Ports(Struct, frozen=True):
    """The five listeners. A restart uses the same ones."""

    reference: int
    control: int
    public: int
    admin: int
    lines: int


class DemoFolder(Struct, frozen=True):
    """The folder of one demo."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "backhaul.toml"

    @property
    def reference_data(self) -> Path:
        return self.path / "reference"

    @property
    def state_dir(self) -> Path:
        return self.path / "daemon"

    @property
    def database(self) -> Path:
        return self.state_dir / "backhaul.db"

    @property
    def drop(self) -> Path:
        return self.path / "drop"

    @property
    def erp(self) -> Path:
        return self.path / "erp.db"

    def secret(self, name: str) -> Path:
        return self.path / "secrets" / name

    def prepare(self) -> None:
        """Make the folders. Raises BackhaulError when something is there already."""
        if self.path.is_dir() and any(self.path.iterdir()):
            raise BackhaulError(
                f"the folder {self.path} is not empty; give a new or an empty"
                " folder with --keep"
            )
        for folder in (self.path, self.path / "secrets", self.drop):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def keep_secret(self, name: str, lines: Iterable[str]) -> None:
        """Write a file that only its owner may open."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        descriptor = os.open(self.secret(name), flags, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    def make_device_tokens(self) -> dict[str, str]:
        """Give each scanner a token, and keep them for the daemon."""
        tokens = {device: secrets.token_urlsafe(24) for device in DEVICES}
        lines = [f"{device}={token}" for device, token in tokens.items()]
        self.keep_secret("scanner_tokens", lines)
        return tokens

    def write_config(
        self,
        ports: Ports,
        base_url: str,
        *,
        with_erp: bool = False,
        tryton: int | None = None,
    ) -> None:
        """Write the daemon's configuration; it holds no secret itself.

        `tryton` is the port of a Tryton server.
        """
        template = _CONFIG
        template += _ERP if with_erp else ""
        template += "" if tryton is None else _TRYTON
        values = self._values(ports, base_url) | {"tryton": tryton}
        self.config.write_text(template.format(**values), encoding="utf-8")

    def _values(self, ports: Ports, base_url: str) -> dict[str, object]:
        texts = {
            "state_dir": self.state_dir,
            "drop": self.drop,
            "base_url": base_url,
            "api_key": self.secret("api_key"),
            "webhook_secrets": self.secret("webhook_secrets"),
            "tokens": self.secret("scanner_tokens"),
            "erp": f"sqlite:///{self.erp}",
            "tryton_password": self.secret("tryton_password"),
        }
        quoted = {
            name: json.dumps(str(text), ensure_ascii=False)
            for name, text in texts.items()
        }
        return {
            **quoted,
            "public": ports.public,
            "admin": ports.admin,
            "lines": ports.lines,
        }


ASK_SECONDS = 30.0


class Access(Struct, frozen=True):
    """How to reach the store that the reference server plays."""

    public_url: str
    control_url: str
    control_token: str
    subdomain: str
    api_key: str

    @property
    def shop_url(self) -> str:
        """Where people buy from the store."""
        return f"{self.public_url}/shop/{self.subdomain}"

    @classmethod
    def read(cls, home: DemoFolder) -> Access:
        """Read what the reference server wrote for scripts."""
        found = json.loads((home.reference_data / "access.json").read_text())
        store = found["stores"][0]
        return cls(
            found["public_url"],
            found["control_url"],
            found["control_token"],
            store["subdomain"],
            store["api_key"],
        )

    async def state(self) -> dict[str, Any]:
        """Return the whole state of the store. Raises httpx.HTTPError."""
        url = f"{self.control_url}/_control/stores/{self.subdomain}/state"
        async with httpx.AsyncClient(timeout=ASK_SECONDS, trust_env=False) as client:
            answer = await client.get(url, headers=self.control_headers)
            found: dict[str, Any] = answer.raise_for_status().json()
            return found

    async def another_store(self, subdomain: str) -> Access:
        """Create one more store with the same goods. Raises BackhaulError."""
        body = {"subdomain": subdomain, "fixture": "fresh"}
        async with httpx.AsyncClient(timeout=ASK_SECONDS, trust_env=False) as client:
            url = f"{self.control_url}/_control/stores"
            answer = await client.post(url, json=body, headers=self.control_headers)
        if not answer.is_success:
            raise BackhaulError(
                "the reference server refused to create a store: status"
                f" {answer.status_code}"
            )
        key = answer.json()["data"]["apiKey"]
        return replace(self, subdomain=subdomain, api_key=key)

    async def subscribe(self, address: str) -> str:
        """Ask for every topic; return the secret that signs the deliveries."""
        headers = {"Authorization": f"Bearer {self.api_key}"}
        body = {"address": address, "topics": list(TOPICS)}
        async with httpx.AsyncClient(timeout=ASK_SECONDS, trust_env=False) as client:
            url = f"{self.public_url}/api/v1/webhooks"
            answer = await client.post(url, json=body, headers=headers)
        if not answer.is_success:
            raise BackhaulError(
                "the reference server refused the webhook subscription: status"
                f" {answer.status_code}"
            )
        secret: str = answer.json()["data"]["secret"]
        return secret

    @property
    def control_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.control_token}"}


def ports_from(first: int) -> Ports:
    """Return five ports in a row. Raises BackhaulError if one is taken."""
    ports = range(first, first + 5)
    if taken := [str(port) for port in ports if not _is_free(port)]:
        raise BackhaulError(
            f"another program listens on port {', '.join(taken)}; the demo needs the"
            f" ports {first} to {first + 4}: choose others with --port"
        )
    return Ports(*ports)


def free_ports() -> Ports:
    """Choose five ports that nobody listens on."""
    chosen: set[int] = set()
    while len(chosen) < 5:
        chosen.add(free_port())
    return Ports(*chosen)


def free_port() -> int:
    """Choose a port that nobody listens on."""
    while not _is_free(port := FIRST_PORT + secrets.randbelow(PORTS)):
        pass
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


_CONFIG = f"""\
# Written by `backhaul demo`.
state_dir = {{state_dir}}

[public]
host = "{HOST}"
port = {{public}}

[admin]
port = {{admin}}

[push]
retry_base = "200ms"
retry_cap = "2s"

[stores.{STORE}]
base_url = {{base_url}}
api_key_file = {{api_key}}
webhook_secrets_file = {{webhook_secrets}}
test_store = true

[connectors.{SCANNER}]
type = "scanner"
tokens_file = {{tokens}}
tcp_port = {{lines}}
tcp_addresses = {{{{ {STATION} = "{HOST}" }}}}

# Files are moved in whole, so none has to be watched until it stops growing.
[connectors.{COURIER}]
type = "file_drop"
path = {{drop}}
every = "250ms"
unchanged_seconds = 0
key_columns = ["document"]
"""
_ERP = f"""
# Rows are taken by their mark, so none has to lie until late ones are committed.
[connectors.{ERP}]
type = "sql"
url = {{erp}}
every = "250ms"
begin = "all"

[connectors.{ERP}.fulfillments]
table = "shipments"
processed_at = "taken_at"

[connectors.{ERP}.stock_levels]
table = "counts"
processed_at = "taken_at"
columns = {{{{ as_of = "counted_at" }}}}

[[connectors.{ERP}.write]]
topics = ["order.placed", "order.cancelled"]
table = "shop_orders"
object_column = "order_id"
columns = {{{{ number = "number", status = "status" }}}}

[[connectors.{ERP}.write]]
topics = ["order.placed", "order.cancelled"]
table = "shop_news"
columns = {{{{ topic = "@topic", order_id = "@object" }}}}
"""
_TRYTON = f"""
# Its people work all the time, so it is read more often than a merchant would.
[connectors.{TRYTON}]
type = "tryton"
every = "500ms"
url = "http://{HOST}:{{tryton}}"
database = "erp"
user = "admin"
password_file = {{tryton_password}}
customer = "SHOP"
stock_seconds = 5
lag_seconds = 1
in_flight_seconds = 2
network = {{{{ allow = ["{HOST}"], ports = [{{tryton}}], allow_http = true }}}}
counts = {{{{ quantity_means = "on_hand" }}}}
begin = "all"
"""
