"""Looks at the configuration, and at who else can read the secrets in it."""

from __future__ import annotations

import stat
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from backhaul.connect import registry
from backhaul.doctor.machine import is_closed
from backhaul.doctor.result import Result, fail, ok, warn
from backhaul.errors import ConfigurationError
from backhaul.settings import configuration_file, secret_values
from backhaul.settings.layers import PREFIX, SECRET_VARIABLE
from backhaul.settings.secret_files import FORBIDDEN_BITS, open_to_others

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from backhaul.errors import Finding
    from backhaul.settings import Settings

ANY_SETTING = "correct it; docs/configuration.md has every setting"


def findings(
    error: ConfigurationError, config: Path | None, environ: Mapping[str, str]
) -> list[Result]:
    """Return everything that is wrong with a configuration that cannot be used."""
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
    """Return the finding of a configuration file whose secrets others may read.

    It works where the configuration cannot be used for other reasons.
    """
    file = configuration_file(config, environ)
    try:
        found = open_to_others(file, registry.secret_fields) if file else None
    except (ConfigurationError, OSError):  # that the file cannot be read is told
        return []
    return [found] if found else []


def look(
    settings: Settings, config: Path | None, environ: Mapping[str, str]
) -> Iterator[Result]:
    """Look at a configuration that can be used."""
    file = configuration_file(config, environ)
    yield ok("config", str(file or "environment only"))
    # As any address it is kept from the log; but that of a local file opens nothing.
    secrets = [one for one in secret_values(settings) if not one.startswith("sqlite:")]
    yield from _in_environment(secrets, environ)
    if file is not None:
        yield from _in_file(file, config, environ)
    yield from _kept(settings)
    yield from _in_the_clear(settings)


def _in_environment(secrets: list[str], environ: Mapping[str, str]) -> Iterator[Result]:
    """Warn: what a process was started with is shown to whoever looks at it."""
    ours = sorted(name for name in environ if name.startswith(PREFIX))
    held = [n for n in ours if any(secret in environ[n] for secret in secrets)]
    if SECRET_VARIABLE in environ:
        held.append(SECRET_VARIABLE)
    for name in dict.fromkeys(held):
        yield warn(
            "secrets",
            f"${name} holds a secret: crash reports and programs that are started show"
            " the environment",
            f"put it into a file of mode 0600 and its name into ${name}_FILE"
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
    """Look at the secrets that the platform gave us."""
    folder = settings.state_dir / "secrets"
    if is_closed(folder):  # what is wrong with `state_dir` is said of that
        return
    for file in sorted(folder.glob("*")) if folder.is_dir() else ():
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & FORBIDDEN_BITS:
            said = f"{file} is open to group or others (mode {mode:04o})"
            yield fail("secret files", said, f"chmod 600 {file}")


def _in_the_clear(settings: Settings) -> Iterator[Result]:
    """Warn of plain HTTP to another machine: keys and names pass by whoever listens."""
    asked = {
        f"stores.{name}.base_url": s.base_url for name, s in settings.stores.items()
    }
    if settings.alerts.webhook_url:
        asked["alerts.webhook_url"] = settings.alerts.webhook_url
    plain = {key: url for key, url in asked.items() if _is_open_to_listeners(url)}
    for key, url in plain.items():
        said = f"{key} is {url}: what is sent there can be read and changed on the way"
        https = url.replace("http:", "https:", 1)
        yield warn("encryption", said, f'set {key} to "{https}"')
    if not plain:
        yield ok("encryption", "nothing is sent over plain HTTP to another machine")


def _is_open_to_listeners(url: str) -> bool:
    address = urlsplit(url)
    host = address.hostname or ""
    try:
        here = ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost"
    return address.scheme == "http" and not here
