"""Command-line options and their validation."""

import argparse
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from backhaul_reference.fixtures.loader import FIXTURES
from backhaul_reference.mail.transports import PASSWORD, USER, Tls
from backhaul_reference.platform import quirks, rate_limits
from backhaul_reference.platform.webhooks.sender import (
    Schedule,
    parse_schedule,
)

MAIL_FROM = "shop@backhaul.example"
MAX_QUOTA = 1_000_000
Mails = Literal["files", "stdout"]
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class Options:
    """How the server runs."""

    data: Path
    host: str = "127.0.0.1"
    port: int = 8760
    control_port: int = 8761
    control_host: str = "127.0.0.1"
    fixture: str = "demo"
    limits: bool = True
    quotas: Mapping[str, int] = field(default_factory=dict)
    retry_schedule: Schedule = field(default_factory=Schedule)
    allow_private_webhook_targets: bool = True
    log_level: str = "info"
    quirks: tuple[str, ...] = ()
    mails: Mails = "files"
    smtp: tuple[str, int] | None = None
    smtp_tls: Tls = "auto"
    smtp_login: Path | None = None
    mail_from: str = MAIL_FROM


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="backhaul reference",
        description="A local store platform for tests, with the complete API.",
    )
    add = made.add_argument
    add(
        "--data",
        type=Path,
        default=Path("reference-data"),
        metavar="DIR",
        help="folder for the state, the keys and access.json",
    )
    add("--host", default="127.0.0.1", help="address of the public listener")
    add(
        "--port",
        type=_port,
        default=8760,
        help="port of the public listener; 0: any free port",
    )
    add(
        "--control-host",
        default="127.0.0.1",
        help="address of the control listener (dashboard, test controls)",
    )
    add(
        "--control-port",
        type=_port,
        default=8761,
        help="port of the control listener; 0: any free port",
    )
    add(
        "--fixture",
        choices=FIXTURES,
        default="demo",
        help="sample data that the server writes to DIR if DIR is new",
    )
    add(
        "--limits",
        choices=("on", "off"),
        default="on",
        help="turn all rate limits on or off",
    )
    add(
        "--limit",
        action="append",
        type=_quota,
        default=[],
        metavar="NAME=N",
        help="set one rate limit to N requests a minute; 0: no limit. NAME is one of"
        f" {', '.join(rate_limits.NAMES)}",
    )
    add(
        "--retry-schedule",
        type=_schedule,
        default=Schedule(),
        metavar="S,S,…",
        help="seconds before each delivery attempt (default: 8 attempts in 27 hours)",
    )
    add(
        "--allow-private-webhook-targets",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="send webhooks to private addresses (default: only if HOST is a loopback"
        " address)",
    )
    add(
        "--quirk",
        action="append",
        type=_quirk,
        default=[],
        metavar="NAME",
        help="choose another behaviour where the API's specification is unclear;"
        " for example, no-idempotency makes the server ignore idempotency keys; for"
        " several names, repeat the option (docs/reference-server.md lists all names)",
    )
    add("--log-level", choices=LOG_LEVELS, default="info")
    _add_mail_options(made)
    return made  # fmt: skip


def _add_mail_options(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add(
        "--mails",
        choices=get_args(Mails),
        default="files",
        help=(
            "where the server writes mails if --smtp is not set: to files in"
            " DIR/mails, or to stdout. A mail to a buyer contains a link that shows"
            " the buyer's order without a login; on stdout the server writes"
            " the text '(redacted)' in place of the link's token"
        ),
    )
    add(
        "--smtp",
        type=_address,
        metavar="HOST:PORT",
        help="mail server that sends the mails",
    )
    add(
        "--smtp-tls",
        choices=get_args(Tls),
        default="auto",
        help="encryption of the mail connection; auto: STARTTLS if the server"
        " offers it; with a login, STARTTLS is required; off: none, which is refused"
        " for a login to another machine",
    )
    add(
        "--smtp-login",
        type=Path,
        metavar="FILE",
        help=f"file with two lines, user and password (default: ${USER} and"
        f" ${PASSWORD})",
    )
    add("--mail-from", default=MAIL_FROM, metavar="ADDRESS", help="sender of the mails")


def parse(arguments: list[str] | None = None) -> Options:
    reading = parser()
    given = reading.parse_args(arguments)
    if given.smtp is not None and given.mails != "files":
        reading.error(f"--mails {given.mails} and --smtp: mails go to one place")
    allow = given.allow_private_webhook_targets
    return Options(
        data=given.data,
        host=given.host,
        control_host=given.control_host,
        port=given.port,
        control_port=given.control_port,
        fixture=given.fixture,
        limits=given.limits == "on",
        quotas=dict(given.limit),
        retry_schedule=given.retry_schedule,
        allow_private_webhook_targets=is_loopback(given.host)
        if allow is None
        else allow,
        log_level=given.log_level,
        quirks=tuple(given.quirk),
        mails=given.mails,
        smtp=given.smtp,
        smtp_tls=given.smtp_tls,
        smtp_login=given.smtp_login,
        mail_from=given.mail_from,
    )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError("must be 0 to 65535")
    return port


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host:
        raise argparse.ArgumentTypeError("must be HOST:PORT")
    return host.strip("[]"), _port(port)


def _quota(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if name not in rate_limits.NAMES:
        raise argparse.ArgumentTypeError(
            f"must be one of {', '.join(rate_limits.NAMES)}"
        )
    if not number.isascii() or not number.isdigit() or int(number) > MAX_QUOTA:
        raise argparse.ArgumentTypeError(f"{name} takes 0 to {MAX_QUOTA}")
    return name, int(number)


def _quirk(text: str) -> str:
    try:
        return quirks.parse([text]).texts[0]
    except quirks.UnknownQuirkError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _schedule(text: str) -> Schedule:
    try:
        return parse_schedule(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not a schedule: {error}") from error
