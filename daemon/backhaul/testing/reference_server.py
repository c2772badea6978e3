"""Runs programs as processes: the reference server and its stores."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import httpx
from msgspec import Struct

from backhaul.errors import BackhaulError
from backhaul.settings import bare_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


START_SECONDS = 30.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.02


class ProgramError(BackhaulError):
    """A program did not start, or did not finish its work."""


class Program:
    """A process that runs during a test."""

    def __init__(self, module: str, arguments: Sequence[object], log: Path) -> None:
        self.log = log
        with log.open("ab") as stream:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", module, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=bare_environment(),
            )

    def await_start(self, started: Callable[[], bool]) -> None:
        """Wait until `started`. Raises ProgramError with the end of the log."""

        def has_started() -> bool:
            if self._process.poll() is not None:
                raise ProgramError(f"it ended at once: {self.last_words()}")
            return started()

        try:
            await_true(has_started, START_SECONDS)
        except TimeoutError:
            self.kill()
            raise ProgramError(f"did not start: {self.last_words()}") from None

    def stop(self) -> None:
        """Send SIGTERM and wait for the end. Safe to call twice."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Send SIGKILL: the program cannot write anything more."""
        self._process.kill()
        self._process.wait()

    def last_words(self) -> str:
        """Return the end of the log, for error messages."""
        return self.log.read_text(errors="replace")[-2_000:]


def await_true(condition: Callable[[], bool], seconds: float) -> None:
    """Poll until the condition is true. Raises TimeoutError."""
    until = time.monotonic() + seconds
    rest = threading.Event()
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError
        rest.wait(POLL_SECONDS)


MODULE = "backhaul_reference"
ASK_SECONDS = 30.0
Document = dict[str, Any]


class ReferenceServer:
    """`backhaul reference` on free ports, limits off, until it is closed."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._access_file = folder / "access.json"
        arguments = ["--data", folder, "--port", 0, "--control-port", 0]
        arguments += ["--limits", "off", "--allow-private-webhook-targets"]
        arguments += ["--retry-schedule", "0,0.2,1,5,30", *options]
        self._client = httpx.Client(timeout=ASK_SECONDS, trust_env=False)
        with ExitStack() as undoing:
            undoing.callback(self._client.close)
            self._program = Program(MODULE, arguments, folder.with_suffix(".log"))
            undoing.callback(self._program.stop)
            self._program.await_start(self._access_file.exists)
            self._access: Document = json.loads(self._access_file.read_text())
            self._program.await_start(self._answers)
            undoing.pop_all()

    @property
    def url(self) -> str:
        """The address of the platform: `base_url` of a store's settings."""
        return str(self._access["public_url"])

    def create_store(self, subdomain: str, **members: object) -> ReferenceStore:
        """Create a store; `members` as in `fixture="demo"` or `quirks=["bare-v1"]`."""
        body = {"subdomain": subdomain, **members}
        made = self.control("POST", "/stores", body)
        return ReferenceStore(self, subdomain, str(made["apiKey"]))

    def control(self, method: str, path: str, body: object = None) -> Any:
        """Call the control API; `path` begins after `/_control`. Returns `data`."""
        headers = {"Authorization": f"Bearer {self._access['control_token']}"}
        url = f"{self._access['control_url']}/_control{path}"
        return self.ask(method, url, headers, body)

    def ask(
        self, method: str, url: str, headers: dict[str, str], body: object = None
    ) -> Any:
        """Send a request and return `data`. Raises ProgramError on an error status."""
        answer = self._client.request(method, url, headers=headers, json=body)
        if not answer.is_success:
            said = f"{method} {url}: {answer.status_code} {answer.text}"
            raise ProgramError(said)
        document = answer.json() if answer.content else {}
        is_wrapped = isinstance(document, dict) and "data" in document
        return document["data"] if is_wrapped else document

    def close(self) -> None:
        """End the process."""
        self._client.close()
        self._program.stop()

    def _answers(self) -> bool:
        try:
            return self._client.get(f"{self.url}/healthz").is_success
        except httpx.HTTPError:
            return False


class ReferenceStore(Struct, frozen=True):
    """One store, called as a shopper, as the back office and as its owner."""

    server: ReferenceServer
    subdomain: str
    api_key: str

    def v1(self, method: str, path: str, body: object = None) -> Any:
        """Call the keyed API; `path` begins after `/api/v1`. Returns `data`."""
        headers = {"Authorization": f"Bearer {self.api_key}"}
        return self.server.ask(method, f"{self.server.url}/api/v1{path}", headers, body)

    def storefront(self, method: str, path: str, body: object = None) -> Any:
        """Call the storefront API; `path` begins after `/storefront`.

        Returns `data`.
        """
        headers = {"x-subdomain": self.subdomain}
        url = f"{self.server.url}/storefront{path}"
        return self.server.ask(method, url, headers, body)

    def control(self, method: str, path: str = "", body: object = None) -> Any:
        """Call the control API for this store. Returns `data`."""
        return self.server.control(method, f"/stores/{self.subdomain}{path}", body)

    def place_order(self, sku: str, quantity: int = 1) -> Document:
        """Place an order, cash on delivery; return it as `/api/v1` shows it."""
        for product in self.v1("GET", "/products?limit=100"):
            for variant in product["variants"]:
                if variant["sku"] == sku:
                    item = {"productId": product["id"], "variantId": variant["id"]}
                    return self._order({**item, "quantity": quantity})
        raise KeyError(f"no variant has the SKU {sku!r}")

    def _order(self, item: Document) -> Document:
        address = {"address1": "12 MG Road", "city": "Pune", "zip": "411001"}
        address["country"] = "IN"
        customer = {"name": "Asha Rao", "email": "asha@example.com"}
        body = {"items": [item], "customer": customer, "shippingAddress": address}
        placed = self.storefront("POST", "/orders", {**body, "paymentMethod": "COD"})
        order: Document = self.v1("GET", f"/orders/{placed['id']}")
        return order
