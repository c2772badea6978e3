"""The stores that the daemons of a cluster share, each with its own back office."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.demo.demo_folder import Access
from backhaul.demo.workers import Erp

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.demo.daemon_rows import Cause
    from scenes.fault_proxy import LoggedRequest
    from scenes.reference_process import ReferenceProcess

NAMES = ("main", "oslo", "rome", "lima", "bern", "cairo")
"""The first one is the store of `scenes.daemon.Office`, which configures it."""
MAIN = NAMES[0]
DEVICES = ("handheld", "spare")
POLLS = "250ms"
"""How often folders and the ERP's tables are read; each read is a transaction."""
_STORE = """
[stores.{name}]
base_url = "{base_url}"
api_key = "{key}"
webhook_secrets = ["{secret}"]
[connectors.courier_{name}]
type = "file_drop"
store = "{name}"
every = "{polls}"
{drop}
unchanged_seconds = 0
"""
_CONNECTORS = """
[connectors.{scanner}]
type = "scanner"
store = "{name}"
[connectors.{scanner}.devices]
handheld = "{tokens[handheld]}"
spare = "{tokens[spare]}"
[connectors.{erp}]
type = "sql"
store = "{name}"
url = "sqlite:///{erp_file}"
every = "{polls}"
begin = "all"
[connectors.{erp}.fulfillments]
table = "shipments"
processed_at = "taken_at"
[[connectors.{erp}.write]]
topics = ["order.placed", "order.cancelled"]
table = "shop_orders"
object_column = "order_id"
columns = {{ number = "number", status = "status" }}
[[connectors.{erp}.write]]
topics = ["order.placed", "order.cancelled"]
table = "shop_news"
columns = {{ topic = "@topic", order_id = "@object" }}
"""


@dataclass(slots=True)
class ClusterStore:
    """One store and its back office, which every daemon can reach."""

    name: str
    access: Access
    webhook_secret: str
    drop: Path
    erp: Erp
    erp_file: Path
    device_tokens: dict[str, str] = field(
        default_factory=lambda: {each: secrets.token_hex(16) for each in DEVICES}
    )

    def connection(self, kind: str) -> str:
        """Return the name of this store's connection to a kind of system."""
        return kind if self.name == MAIN else f"{kind}_{self.name}"

    def cause(self, said: Cause) -> Cause:
        """Return a problem's cause with the connection's name in this cluster."""
        return replace(said, instance=self.connection(said.instance))

    def sent(self, logged: LoggedRequest) -> bool:
        """Return whether a request to the platform was made for this store."""
        return self.access.api_key.encode() in logged.passing.head

    @property
    def drop_settings(self) -> str:
        return f'path = "{self.drop}"\nkey_columns = ["document"]'

    def settings(self, base_url: str) -> str:
        """Return the configuration tables of this store."""
        text = _CONNECTORS.format(
            name=self.name,
            scanner=self.connection("scanner"),
            erp=self.connection("erp"),
            tokens=self.device_tokens,
            erp_file=self.erp_file,
            polls=POLLS,
        )
        if self.name == MAIN:
            return text
        own = _STORE.format(
            name=self.name,
            base_url=base_url,
            key=self.access.api_key,
            secret=self.webhook_secret,
            drop=self.drop_settings,
            polls=POLLS,
        )
        return own + text


async def open_stores(
    platform: ReferenceProcess,
    folder: Path,
    balancer_url: str,
    count: int,
    clock: Clock,
) -> list[ClusterStore]:
    """Create stores on the platform; their webhooks go to the balancer."""
    first = platform.store()
    access = Access(
        platform.public_url,
        platform.control_url,
        platform.control_token,
        first.subdomain,
        first.api_key,
    )
    made = []
    for name in NAMES[:count]:
        own = access if name == MAIN else await access.another_store(name)
        secret = await own.subscribe(f"{balancer_url}/webhooks/{name}")
        drop = folder / (f"drop-{name}" if name != MAIN else "drop")
        drop.mkdir()
        file = folder / f"erp-{name}.db"
        erp = Erp(file, clock)
        erp.set_up()
        made.append(ClusterStore(name, own, secret, drop, erp, file))
    return made
