"""Checks configuration, secret files and connectors; reads SFTP host keys."""

from __future__ import annotations

import asyncio
import logging
import stat
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from backhaul.admin.oidc import CALLBACK, Provider, SignOnFailed
from backhaul.connect import registry
from backhaul.connect.health import ConnectorFailed, guarded, read_notices
from backhaul.doctor import Result, fail, ok, warn
from backhaul.doctor.storage import is_closed
from backhaul.errors import BackhaulError, ConfigurationError
from backhaul.settings import configuration_file, secret_values
from backhaul.settings.secret_files import FORBIDDEN_BITS, open_to_others
from backhaul.settings.sources import PREFIX, SECRET_VARIABLE
from backhaul_sdk.extras import missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.errors import Finding
    from backhaul.settings import Connector, Settings


ANY_SETTING = "correct it; docs/configuration.md has every setting"


def findings(
    error: ConfigurationError, config: Path | None, environ: Mapping[str, str]
) -> list[Result]:
    """Return the errors of a configuration that cannot be used."""
    found = [
        fail(
            "config",
            f"{each.source}: {each.key}: {each.problem}".replace(": :", ":"),
            each.hint or ANY_SETTING,
        )
        for each in error.findings
    ]
    return found + [
        warn("secret files", f"{each.source} {each.problem}", each.hint)
        for each in shown_to_others(config, environ)
    ]


def shown_to_others(config: Path | None, environ: Mapping[str, str]) -> list[Finding]:
    """Return the finding of a configuration file whose secrets others can read.

    This works even if the configuration cannot be used for other reasons.
    """
    file = configuration_file(config, environ)
    try:
        found = open_to_others(file, registry.secret_fields) if file else None
    except (ConfigurationError, OSError):  # another check reports it
        return []
    return [found] if found else []


def check(
    settings: Settings, config: Path | None, environ: Mapping[str, str]
) -> Iterator[Result]:
    """Check a configuration that can be used."""
    file = configuration_file(config, environ)
    yield ok("config", str(file or "environment only"))
    # The URL of a local SQLite file is kept out of the log, but gives no access.
    secrets = [s for s in secret_values(settings) if not s.startswith("sqlite:")]
    yield from _in_environment(secrets, environ)
    if file is not None:
        yield from _in_file(file, config, environ)
    yield from _kept(settings)
    yield from _in_the_clear(settings)


def _in_environment(secrets: list[str], environ: Mapping[str, str]) -> Iterator[Result]:
    """Warn about secrets in the environment, which other programs can read."""
    ours = sorted(name for name in environ if name.startswith(PREFIX))
    held = [n for n in ours if any(secret in environ[n] for secret in secrets)]
    if SECRET_VARIABLE in environ:
        held.append(SECRET_VARIABLE)
    for name in dict.fromkeys(held):
        yield warn(
            "secrets",
            f"${name} holds a secret: crash reports and child processes show the"
            " environment",
            f"put it into a file of mode 0600, and the file's name into ${name}_FILE"
            if name != SECRET_VARIABLE
            else f"unset {name}; give --secret-file instead",
        )
    if not held:
        yield ok("secrets", "none in the environment")


def _in_file(
    file: Path, config: Path | None, environ: Mapping[str, str]
) -> Iterator[Result]:
    found = shown_to_others(config, environ)
    for each in found:
        yield warn("secret files", f"{each.source} {each.problem}", each.hint)
    if not found:
        yield ok("secret files", f"{file} shows no secret to others")


def _kept(settings: Settings) -> Iterator[Result]:
    """Check the files with the secrets that the platform gave Backhaul."""
    folder = settings.state_dir / "secrets"
    if is_closed(folder):  # the check of `state_dir` reports it
        return
    for file in sorted(folder.glob("*")) if folder.is_dir() else ():
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & FORBIDDEN_BITS:
            said = f"the mode {mode:04o} of {file} gives other users access"
            yield fail("secret files", said, f"run: chmod 600 {file}")


def _in_the_clear(settings: Settings) -> Iterator[Result]:
    """Warn about plain HTTP to another machine: others can read keys and names."""
    urls = {
        f"stores.{name}.base_url": s.base_url for name, s in settings.stores.items()
    }
    if settings.alerts.webhook_url:
        urls["alerts.webhook_url"] = settings.alerts.webhook_url
    plain = {key: url for key, url in urls.items() if _is_plain_http_elsewhere(url)}
    for key, url in plain.items():
        said = f"{key} is {url}: others can read and change what is sent there"
        https = url.replace("http:", "https:", 1)
        yield warn("encryption", said, f'set {key} to "{https}"')
    if not plain:
        yield ok("encryption", "nothing is sent over plain HTTP to another machine")


def _is_plain_http_elsewhere(url: str) -> bool:
    address = urlsplit(url)
    host = address.hostname or ""
    try:
        here = ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost"
    return address.scheme == "http" and not here


async def check_provider(settings: Settings, clock: Clock) -> Result:
    """Read the discovery document of the identity provider."""
    admin = settings.admin
    url = admin.url or ""
    try:
        found = await Provider(admin.oidc, url, clock).discovery()
    except SignOnFailed as error:
        return fail("single sign-on", str(error), "then: backhaul doctor")
    said = f"{found.issuer} answers; its redirect URI must be {url}{CALLBACK}"
    return ok("single sign-on", said)


CHECK_SECONDS = 30.0


async def check_connector(name: str, own: Connector) -> Result:
    """Run the self-test of one connection, which has no side effects."""
    if not own.enabled:
        return ok("connector", "is disabled", name)
    try:
        connector = registry.build(name, own.type, own.options)
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await guarded(connector.check())
            notices = read_notices(connector)
        finally:
            with suppress(ConnectorFailed):
                await guarded(connector.close())
    except TimeoutError:
        return _failed(name, own, f"no answer in {CHECK_SECONDS:g} s")
    except (ConnectorFailed, BackhaulError) as error:
        return _failed(name, own, str(error))
    if notices:
        fix = (
            f"see docs/connectors/{own.type}.md, then: backhaul connectors check {name}"
        )
        return warn("connector", ". ".join(notices), fix, name)
    return ok("connector", f"{own.type} is ready", name)


def _failed(name: str, own: Connector, said: str) -> Result:
    return fail(
        "connector", said, _fix(name, own, "correct its settings or its system"), name
    )


def _fix(name: str, own: Connector, what: str) -> str:
    page = f"docs/connectors/{own.type}.md"
    return f"{what}, then: backhaul connectors check {name} ({page})"


PORT = 22


class HostKey(Struct, frozen=True):
    """The host key of a server; a machine in between could show another one."""

    where: str
    fingerprint: str
    line: str
    """The value for `sftp_host_key`."""


async def shown_by(name: str, options: Mapping[str, object]) -> HostKey:
    """Return the host key of a connection's SFTP server, without logging in."""
    host, port = options.get("sftp_host"), int(str(options.get("sftp_port") or PORT))
    if not host:
        raise BackhaulError(
            f"connection {name} has no sftp_host, so it uses no SFTP server and has"
            " no host key to show"
        )
    if missing := missing_extra("sftp"):
        raise BackhaulError(f"to show a host key needs {missing}")
    import asyncssh  # slow, and an extra

    where = f"{host}:{port}"
    logging.getLogger("asyncssh").setLevel(logging.CRITICAL)
    try:
        key = await asyncssh.get_server_host_key(str(host), port, config=None)
    except (asyncssh.Error, OSError) as error:
        raise BackhaulError(
            f"the SFTP server {where} cannot be reached: {error}"
        ) from None
    if key is None:
        raise BackhaulError(
            f"the SFTP server {where} sent no host key; check host and port"
        )
    public = key.export_public_key().decode().split()
    return HostKey(where, str(key.get_fingerprint()), " ".join(public[:2]))
