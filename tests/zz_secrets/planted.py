"""A canary for every kind of secret, and servers that repeat what they are shown."""

from __future__ import annotations

import base64
import secrets
import socketserver
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import httpx

from scenes import leftovers
from scenes.payloads import envelope, order, signed

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

    from scenes.daemon import DaemonProcess

KINDS = (
    *("smtp_password", "alert_webhook", "webhook_out", "token", "api_key"),
    *("api_secret", "courier", "tryton_password", "sql_password", "sql_url"),
    *("sftp_password", "sftp_key", "sftp_passphrase", "mqtt_password", "tokens_file"),
    *("amqp_password", "nats_password", "nats_token", "nats_seed"),
    *("secret_key", "session_token", "service_account", "dav_password"),
    *("nats_credentials", "imap_password", "password", "wrong_password"),
    *("odoo_key", "odoo_json_key", "erpnext_secret"),
)
USER = "somebody"
_BODY = envelope("orders/create", order())
_HEADERS = (
    *("Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Auth-Token"),
    *("X-Forwarded-For", "Referer", "X-Hub-Signature", "X-Request-Id"),
)
REFUSALS = 4


def canaries() -> dict[str, str]:
    """Return a value for each kind that no log, of any test, may show from now on."""
    made = {kind: f"canary{secrets.token_hex(16)}" for kind in KINDS}
    leftovers.issued(*made.values())
    return made


def spellings(planted: dict[str, str]) -> list[str]:
    """Return what to look for: each as it is, and as a login on the wire has it."""
    pairs = [
        f"{planted['api_key']}:{planted['api_secret']}",
        f"{USER}:{planted['token']}",
        f"\0{USER}\0{planted['smtp_password']}",
        f"{USER}:{planted['dav_password']}",
        f"\0{USER}\0{planted['imap_password']}",
    ]
    return [*planted.values(), *(base64.b64encode(p.encode()).decode() for p in pairs)]


class Parrot(BaseHTTPRequestHandler):
    """Refuses every request, and repeats all of it in its answer."""

    heard: list[str]

    def repeat(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        named = [f"{name}: {value}" for name, value in self.headers.items()]
        said = " ".join([self.path, *named, sent.decode("utf-8", "replace")])
        self.heard.append(said)
        # Where a problem is JSON, its words are shown to people.
        body = f'{{"code":"NOT_YOU","detail":{said[:2_000]!r}}}'.replace("'", '"')
        self.send_response(401, f"Not you {said[:300]}")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_POST = do_PUT = repeat

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: what is heard is kept."""


@contextmanager
def parrot() -> Iterator[tuple[int, list[str]]]:
    """Serve one on loopback: its port, and what it heard."""
    heard: list[str] = []
    handler = type("Parrot", (Parrot,), {"heard": heard})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, _served(server):
        yield server.server_address[1], heard


class Mailbox(socketserver.StreamRequestHandler):
    """A mail server: it refuses some logins in its own words, then takes mail."""

    mails: list[bytes]
    logins: list[bytes]

    def handle(self) -> None:
        with suppress(OSError):
            self._talk()

    def _talk(self) -> None:
        self._say(b"220 here")
        while line := self.rfile.readline():
            verb = line.split()[0].upper()
            if verb == b"EHLO":
                self._say(b"250-here\r\n250 AUTH PLAIN LOGIN")
            elif verb == b"AUTH":
                self.logins.append(line)
                shown = line.split()[-1]
                known = base64.b64decode(shown).replace(b"\0", b" ")
                refusal = b"535 who is %s, or %s" % (shown, known)
                self._say(refusal if len(self.logins) < REFUSALS else b"235 welcome")
            elif verb == b"DATA":
                self._say(b"354 go on")
                self.mails.append(self._letter())
                self._say(b"250 taken")
            else:
                self._say(b"221 bye" if verb == b"QUIT" else b"250 ok")
            if verb == b"QUIT":
                return

    def _letter(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line)
        return b"".join(lines)

    def _say(self, line: bytes) -> None:
        self.wfile.write(line + b"\r\n")


@contextmanager
def mailbox(context: ssl.SSLContext) -> Iterator[tuple[int, list[bytes]]]:
    """Serve one with TLS on loopback: its port, and the letters."""
    mails: list[bytes] = []
    handler = type("Mailbox", (Mailbox,), {"mails": mails, "logins": []})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        # Who does not like the certificate disturbs his own thread only.
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        with _served(server):
            yield server.server_address[1], mails


@contextmanager
def _served(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


CONFIGURATION = """
[alerts]
every = "1s"
mail_to = ["ops@shop.example"]
mail_from = "backhaul@shop.example"
smtp_port = {mail_port}
smtp_security = "tls"
smtp_user = "{user}"
smtp_password = "{smtp_password}"
webhook_url = "http://127.0.0.1:{port}/alerts"
webhook_secret = "{alert_webhook}"
[connectors.out]
type = "webhook_out"
url = "http://127.0.0.1:{port}/news"
secrets = ["{webhook_out_key}"]
{network}
[connectors.erp]
type = "http_json"
base_url = "http://127.0.0.1:{port}/erp"
auth = "basic"
user = "{user}"
token = "{token}"
every = "1s"
{network}
[connectors.erp.lists.shipped]
kind = "fulfillment"
path = "/shipped"
key = "id"
fields = {{ order = "order" }}
[connectors.parcels]
type = "courier"
vendor = "sendcloud"
secrets = ["{courier}"]
api_key = "{api_key}"
api_secret = "{api_secret}"
api_url = "http://127.0.0.1:{port}/parcels"
every = "1s"
{network}
[connectors.tryton]
type = "tryton"
url = "http://127.0.0.1:{port}"
database = "erp"
user = "{user}"
password = "{tryton_password}"
every = "1s"
{network}
[connectors.odoo]
type = "odoo"
url = "http://127.0.0.1:{port}"
database = "erp"
user = "{user}"
api_key = "{odoo_key}"
every = "1s"
{network}
[connectors.odoo_json]
type = "odoo"
api = "json-2"
url = "http://127.0.0.1:{port}/json"
api_key = "{odoo_json_key}"
every = "1s"
{network}
[connectors.erpnext]
type = "erpnext"
url = "http://127.0.0.1:{port}"
api_key = "{user}"
api_secret = "{erpnext_secret}"
every = "1s"
{network}
[connectors.table]
type = "sql"
url = "postgresql://{user}@127.0.0.1:{closed_port}/erp"
password = "{sql_password}"
every = "1s"
[connectors.table.stock_levels]
table = "stock"
[connectors.other_table]
type = "sql"
url = "postgresql://{user}:{sql_url}@127.0.0.1:{closed_port}/erp"
every = "1s"
[connectors.other_table.stock_levels]
table = "stock"
[connectors.far]
type = "file_drop"
path = "/drop"
sftp_host = "127.0.0.1"
sftp_port = {port}
sftp_user = "{user}"
sftp_password = "{sftp_password}"
sftp_key = "{sftp_key}"
sftp_passphrase = "{sftp_passphrase}"
sftp_host_key = "SHA256:0000000000000000000000000000000000000000000"
every = "1s"
[connectors.bucket]
type = "file_drop"
folder = "s3://exchange/in"
endpoint = "http://127.0.0.1:{port}"
access_key = "{user}"
secret_key = "{secret_key}"
session_token = "{session_token}"
service_account = "{service_account}"
every = "1s"
[connectors.dav]
type = "file_drop"
folder = "webdav://127.0.0.1:{port}/exchange"
user = "{user}"
password = "{dav_password}"
every = "1s"
[connectors.mail]
type = "file_drop"
imap_password = "{imap_password}"
every = "1s"
[connectors.mail.imap]
host = "127.0.0.1"
port = {port}
tls = "none"
user = "{user}"
senders = ["stock@supplier.example"]
[connectors.floor]
type = "scanner"
tokens_file = "{tokens_file_path}"
mqtt_host = "127.0.0.1"
mqtt_port = {port}
mqtt_username = "{user}"
mqtt_password = "{mqtt_password}"
mqtt_devices = ["gun"]
every = "1s"
[connectors.rabbit]
type = "amqp"
url = "amqp://127.0.0.1:{port}"
user = "{user}"
password = "{amqp_password}"
every = "1s"
[connectors.rabbit.receive.shipped]
queue = "shipped"
kind = "fulfillment"
fields = {{ order = "order" }}
[connectors.nats]
type = "nats"
enabled = false
servers = ["nats://127.0.0.1:{port}"]
user = "{user}"
password = "{nats_password}"
publish = {{ stream = "STORE" }}
[connectors.nats_token]
type = "nats"
servers = ["nats://127.0.0.1:{port}"]
token = "{nats_token}"
every = "1s"
[connectors.nats_token.receive.shipped]
stream = "IN"
consumer = "one"
kind = "fulfillment"
fields = {{ order = "order" }}
[connectors.nats_key]
type = "nats"
enabled = false
servers = ["nats://127.0.0.1:{closed_port}"]
nkey_seed = "{nats_seed}"
publish = {{ stream = "STORE" }}
[connectors.nats_file]
type = "nats"
enabled = false
servers = ["nats://127.0.0.1:{closed_port}"]
credentials = "{nats_credentials}"
publish = {{ stream = "STORE" }}
"""
NETWORK = 'network = {{ allow = ["127.0.0.1"], ports = [{port}], allow_http = true }}'


def configuration(
    planted: dict[str, str], folder: Path, port: int, mail_port: int
) -> str:
    """Return settings in which every secret is one of these."""
    tokens = folder / "tokens"
    tokens.write_text(f"desk={planted['tokens_file']}\n")
    tokens.chmod(0o600)
    webhook_out = base64.b64encode(planted["webhook_out"].encode()).decode()
    leftovers.issued(webhook_out)
    return CONFIGURATION.format(
        **planted,
        user=USER,
        port=port,
        closed_port=9,
        mail_port=mail_port,
        network=NETWORK.format(port=port),
        webhook_out_key=f"whsec_{webhook_out}",
        tokens_file_path=tokens,
    )


def sent(daemon: DaemonProcess) -> list[str]:
    """Send a canary in every place that a webhook and a scan have; return them all."""
    live = daemon.office.read_status() or {}
    hook, canaries = f"{live['public_url']}/webhooks/main", []
    scan = f"{live['public_url']}/connect/bench/scan"

    def canary() -> str:
        canaries.append(f"canary{secrets.token_hex(12)}")
        leftovers.issued(canaries[-1])
        return canaries[-1]

    right = signed(_BODY, daemon.office.webhook_secret.encode())
    (signature,) = (name for name in right if name != "Content-Type")
    with httpx.Client(trust_env=False) as client:

        def post(url: str, status: set[int], **given: object) -> None:
            assert client.post(url, **given).status_code in status  # type: ignore[arg-type]  # whatever httpx takes

        for name in _HEADERS:
            post(hook, {200}, content=_BODY, headers={**right, name: canary()})
        post(hook, {200}, content=_BODY, headers=right, params={"token": canary()})
        post(hook, {401}, content=_BODY, headers={signature: canary()})
        post(hook, {401}, content=f'{{"key":"{canary()}"}}'.encode())
        post(f"{live['public_url']}/webhooks/{canary()}", {401}, content=_BODY)
        post(f"{live['public_url']}/{canary()}", {404}, content=_BODY)
        bad = {"Content-Encoding": canary()}
        post(hook, {415}, content=_BODY, headers={**right, **bad})
        for scheme in ("Bearer", "Basic", "bearer"):
            wrong = {"Authorization": f"{scheme} {canary()}"}
            post(scan, {401}, json={"code": "1001"}, headers=wrong)
        post(scan, {401}, json={"code": "1001"}, params={"token": canary()})
        device = {"Authorization": f"Bearer {daemon.office.device_token}"}
        post(scan, {200, 422}, json={"mode": "pack", "code": "1001"}, headers=device)
    return canaries
