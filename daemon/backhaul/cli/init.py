"""`backhaul init`: tests a store's address and key, and writes a configuration."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
import tempfile
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer
from msgspec import Struct
from msgspec.structs import replace
from pydantic import SecretStr

from backhaul.cli import context, output
from backhaul.errors import BackhaulError, ConfigurationError, PlatformUnavailable
from backhaul.settings.loader import DEFAULT_FILES, INVALID_NAME
from backhaul.settings.secret_files import SecretFileError, read_secret_file
from backhaul.settings.sources import CONFIG_VARIABLE
from backhaul.settings.values import NAME_PATTERN, check_base_url, check_secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.doctor import Result


LOCAL_LISTENER = "http://127.0.0.1:8750"
"""The webhook URL of a store on this machine, such as the reference server."""
SYSTEM_FOLDER = Path("/etc")
"""Below it a configuration is of a service, whose data is in /var/lib/backhaul."""
NETWORK_CHECKS = {"dns", "connection"}
UNREACHABLE = {*NETWORK_CHECKS, "tls", "platform"}
"""Failed checks that are about the address, not about the key."""
BLOCKING = {*UNREACHABLE, "api key", "scope"}
"""Failed checks that a better answer can correct."""


class Setup(Struct, frozen=True):
    """What the configuration is made of; `webhook_url` is empty for none."""

    store: str
    base_url: str
    api_key: str
    webhook_url: str = ""


class Files(Struct, frozen=True):
    """The files to write: the configuration and the secret; and the data's folder."""

    config: Path
    key: Path
    data: Path

    @classmethod
    def beside(cls, config: Path, store: str) -> Files:
        """Return the files for a configuration at this place."""
        config = config.absolute()
        data = config.parent / "backhaul-data"
        if config.is_relative_to(SYSTEM_FOLDER):
            data = Path("/var/lib/backhaul")
        secret = f"{store}_api_key"
        return cls(config, config.parent / "secrets" / "stores" / secret, data)

    def require_new(self) -> None:
        """Raise BackhaulError if a file is there already."""
        there = [str(file) for file in (self.config, self.key) if os.path.lexists(file)]
        if there:
            some = len(there) > 1
            raise BackhaulError(
                f"{' and '.join(there)} {'exist' if some else 'exists'} already, and"
                " init overwrites no file; edit the configuration, choose one in"
                " another folder with --config, or move"
                f" {'these files' if some else 'this file'} away"
            )


def init(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="File to write. Default: $BACKHAUL_CONFIG, else ./backhaul.toml.",
            show_default=False,
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="URL of the store's platform, such as https://shop.example."),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the API key. Write - to read the key from standard input."
        ),
    ] = None,
    webhook_url: Annotated[
        str | None,
        typer.Option(
            help="URL at which the platform reaches this machine, such as"
            " https://hooks.example. "
            "Give an empty text to set up no webhooks for now."
        ),
    ] = None,
    store: Annotated[
        str, typer.Option(help="Name of the store in the configuration.")
    ] = "main",
    allow_http: Annotated[
        bool,
        typer.Option(
            "--allow-http",
            help="Accept an http:// URL of another machine, although others on the"
            " network can read the API key.",
        ),
    ] = False,
) -> None:
    """Create a configuration: ask for the store's URL and API key, and test both.

    Without a terminal, give --url and --key-file. The test sends requests that
    only read. The API key goes into a file of its own that only you can read.
    """
    _valid("--store", _check_name, store)
    _valid("--webhook-url", _check_hooks, webhook_url or "")
    files = Files.beside(config or _default_file(), store)
    files.require_new()
    answers = _ask_until_it_works(store, url, key_file, allow_http=allow_http)
    answers = replace(answers, webhook_url=_ask_webhook_url(webhook_url, answers))
    _write(files, answers)
    _say_what_is_next(files, config)


def _default_file() -> Path:
    return Path(os.environ.get(CONFIG_VARIABLE) or DEFAULT_FILES[0])


def _is_interactive() -> bool:
    return sys.stdin.isatty()


def _ask_until_it_works(
    store: str, url: str | None, key_file: Path | None, *, allow_http: bool
) -> Setup:
    """Return an address and a key that the platform accepts.

    Options that do not work raise BackhaulError; typed values are asked for again.
    """

    def checked(text: str) -> str:
        return check_address(text, allow_http=allow_http)

    before = ""
    while True:
        base_url = _value(url, "--url", "URL of the store's platform", checked, before)
        failed = asyncio.run(_test_network(base_url))
        if failed is None:
            found = Setup(store, base_url, _ask_key(key_file))
            failed = asyncio.run(_test_key(found))
        if failed is None:
            return found
        is_of_address = failed.check in UNREACHABLE
        if not _is_interactive() or (url if is_of_address else key_file):
            raise _failure(failed)
        before = base_url
        typer.echo("\nNothing is written yet. Please enter the values again.")


def _ask_key(file: Path | None) -> str:
    if file is not None:
        return _valid("--key-file", _check_key, _key_in(file))
    words = "API key (it stays invisible)"
    return _value(None, "--key-file", words, _check_key, "", hide=True)


def _ask_webhook_url(given: str | None, answers: Setup) -> str:
    default = LOCAL_LISTENER if is_here(answers.base_url) else ""
    if given is None and not _is_interactive():
        return default
    if given is None:
        typer.echo(
            "\nThe platform sends webhooks to a URL at which it reaches this machine."
            "\nWithout this URL, Backhaul polls the store; you can add the URL later."
        )
    return _value(given, "--webhook-url", "Webhook URL", _check_hooks, default)


def _value(
    given: str | None,
    option: str,
    question: str,
    check: Callable[[str], str],
    default: str,
    *,
    hide: bool = False,
) -> str:
    """Return the option's value, or ask until the answer is valid."""
    if given is not None:
        return _valid(option, check, given)
    if not _is_interactive():
        raise BackhaulError(
            f"give {option}: without a terminal, init cannot ask for the value; it"
            " needs --url and --key-file"
        )
    shown = default or ("" if option == "--webhook-url" else None)
    while True:
        text = typer.prompt(
            question, default=shown, hide_input=hide, show_default=bool(default)
        )
        try:
            return check(str(text).strip())
        except ValueError as error:
            output.finding("", f"This value {error}. Please enter it again.")


def _valid(option: str, check: Callable[[str], str], text: str) -> str:
    try:
        return check(text.strip())
    except ValueError as error:
        raise typer.BadParameter(f"the value {error}", param_hint=option) from None


def check_address(text: str, *, allow_http: bool = False) -> str:
    """Return the platform's base URL, as people type it. Raises ValueError.

    A name without a scheme means https. The path of the API is left out.
    """
    if "://" not in text:
        text = f"https://{text}"
    url = check_base_url(text).removesuffix("/api/v1")
    if url.startswith("http:") and not (allow_http or is_here(url)):
        raise ValueError(
            "begins with http://, so others on the network could read the API key; use"
            " https://, or give --allow-http if the network is your own"
        )
    return url


def is_here(url: str) -> bool:
    """Return whether the URL is of this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_name(text: str) -> str:
    if not re.fullmatch(NAME_PATTERN, text):
        raise ValueError(INVALID_NAME)
    return text


def _check_key(text: str) -> str:
    return check_secret(SecretStr(text)).get_secret_value()


def _check_hooks(text: str) -> str:
    return check_base_url(text) if text else ""


def _key_in(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.readline()
    try:
        return read_secret_file(file, private=False)
    except SecretFileError as error:
        raise BackhaulError(f"--key-file: {error}") from None


async def _test_network(base_url: str) -> Result | None:
    """Print whether the address can be connected to; return what failed, if any."""
    from backhaul.doctor import State, platform  # loads the store and the HTTP client

    async for found in platform.check_network(base_url, ""):
        _print(found)
        if found.state is State.FAIL:
            return found
    return None


async def _test_key(answers: Setup) -> Result | None:
    """Print the checks of the platform; return the failed one, if any.

    The checks read a configuration as the daemon does, from a temporary folder.
    """
    # As above.
    from backhaul.app.wiring import build_client
    from backhaul.core.clock import SystemClock
    from backhaul.doctor import State, platform

    failed = None
    with tempfile.TemporaryDirectory(prefix="backhaul-init-") as folder:
        files = Files.beside(Path(folder, "backhaul.toml"), answers.store)
        _create(files, answers)
        settings = context.settings(files.config)
        clock = SystemClock()
        transport, client = build_client(settings, answers.store, clock)
        checks = platform.check(settings, answers.store, transport, client, clock)
        try:
            async for found in checks:
                if found.check in NETWORK_CHECKS and found.state is State.OK:
                    continue  # printed already
                # The key's file is a temporary one, so the fix must not name it.
                fix = found.fix.replace(f"write it into {files.key}", "enter it here")
                _print(replace(found, fix=fix))
                if found.state is State.FAIL and found.check in BLOCKING:
                    failed = failed or found
        finally:
            await transport.close()
    return failed


def _print(found: Result) -> None:
    output.finding(found.state, f"{found.check}: {found.said}")
    if found.fix:
        output.finding("", f"fix: {found.fix.replace('base_url', 'the URL')}")


def _failure(failed: Result) -> BackhaulError:
    kind = PlatformUnavailable if failed.check in UNREACHABLE else BackhaulError
    return kind(f"nothing is written, because a test failed: {failed.check}")


def _write(files: Files, answers: Setup) -> None:
    """Write both files, or none. Raises BackhaulError."""
    files.require_new()
    _create(files, answers)
    try:
        context.settings(files.config)
    except ConfigurationError:
        files.config.unlink()
        files.key.unlink()
        raise


def _create(files: Files, answers: Setup) -> None:
    made: list[Path] = []
    try:
        for folder in (files.key.parent.parent, files.key.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        _write_new(files.key, f"{answers.api_key}\n", 0o600)
        made.append(files.key)
        _write_new(files.config, configuration(files, answers), 0o644)
    except OSError as error:
        for file in made:
            file.unlink()
        problem = f"{error.filename}: cannot be written: {error.strerror}"
        raise BackhaulError(problem) from None


def _write_new(file: Path, text: str, mode: int) -> None:
    """Write a file that does not exist yet."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(handle)


def configuration(files: Files, answers: Setup) -> str:
    """Return the text of the configuration."""
    return TEMPLATE.format(
        data=_quoted(files.data),
        public=_public(answers.webhook_url),
        store=answers.store,
        base_url=_quoted(answers.base_url),
        key=_quoted(files.key),
        test_store=TEST_STORE if is_here(answers.base_url) else "",
        drop=_quoted(files.data.parent / "drop"),
    )


def _public(url: str) -> str:
    if not url:
        return '#url = "https://hooks.example"'
    if is_here(url):
        port = urlsplit(url).port
        port_line = f"\nport = {port}" if port else ""
        return f'host = "127.0.0.1"{port_line}\nurl = {_quoted(url)}'
    return f"url = {_quoted(url)}"


def _quoted(value: object) -> str:
    return json.dumps(str(value), ensure_ascii=False)


TEMPLATE = """\
# Written by `backhaul init`. docs/configuration.md describes every setting.
# Check the file after each change: backhaul check-config

# Folder for the database.
state_dir = {data}

# The platform sends its webhooks to this URL. Backhaul creates the subscription.
[public]
{public}

[stores.{store}]
base_url = {base_url}
api_key_file = {key}
{test_store}
# A connection to the back office. This one reads files from a folder, such as
# fulfillments-1.csv with the columns order, tracking_company, tracking_number.
# To use it, create the folder and remove the # of the four lines. For other files:
# backhaul connectors preview FILE. docs/connectors describes all types.
#[connectors.courier]
#type = "file_drop"
#path = {drop}
#timezone = "UTC"
"""


TEST_STORE = """\
# The platform is on this machine, so it is probably the reference server. Remove
# this line for a live store: test commands then refuse to send it sample orders.
test_store = true
"""


def _say_what_is_next(files: Files, config: Path | None) -> None:
    option = "" if config is None else f" --config {shlex.quote(str(config))}"
    typer.echo(
        f"\nWritten: {files.config}\n         {files.key} (only you can read it)"
    )
    typer.echo("\nThe next three commands:")
    for command, meaning in (
        ("run", "start the daemon; it reads the store"),
        ("status", "in a second terminal: is all well?"),
        ("doctor", "test all, also that webhooks arrive"),
    ):
        typer.echo(f"  {f'backhaul {command}{option}':<34}  {meaning}")
