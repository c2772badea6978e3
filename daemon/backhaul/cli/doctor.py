"""`backhaul doctor`: what keeps it from working, with a fix on every line."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.cli import context, showing
from backhaul.cli.context import ConfigOption, JsonOption
from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError, ConfigurationError
from backhaul.settings import load_settings

if TYPE_CHECKING:
    from backhaul.doctor.result import Result

# What is looked at loads the store and the HTTP client: no other command should wait
# for these.


def doctor(
    config: ConfigOption = None,
    trust_host_key: Annotated[
        str | None,
        typer.Option(
            metavar="CONNECTOR",
            help="Only show the key of its SFTP server, and the line to set.",
        ),
    ] = None,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Compare every index of the database with its table; takes longer.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Look for what keeps it from working; each line that is not ok has a fix.

    Nothing is changed and no command is sent. Exit code 1: something failed.
    """
    if trust_host_key is not None:
        asyncio.run(_show_host_key(config, trust_host_key, as_json))
        return
    found = asyncio.run(_examined(config, as_json, deep=deep))
    counts = {state: sum(each.state == state for each in found) for state in STATES}
    if as_json:
        showing.json({"results": [_row(each) for each in found], **counts})
    else:
        typer.echo(", ".join(f"{n} {state}" for state, n in counts.items()))
    if counts["fail"]:
        raise typer.Exit(1)


STATES = ("fail", "warn", "ok")


async def _examined(
    config: Path | None, as_json: bool, *, deep: bool
) -> list["Result"]:
    found = []
    async for each in examined(config, deep=deep):
        found.append(each)
        if not as_json:
            _print(each)
    return found


async def examined(
    config: Path | None, *, deep: bool = False
) -> AsyncIterator["Result"]:
    """Yield what was found; of a configuration that cannot be used only that."""
    from backhaul.doctor import configured
    from backhaul.doctor.examination import examine

    try:
        settings = context.settings(config)
    except ConfigurationError as error:
        for each in configured.findings(error, config, os.environ):
            yield each
        return
    clock = SystemClock()
    async for each in examine(settings, config, os.environ, clock, deep=deep):
        yield each


def _row(each: "Result") -> dict[str, str]:
    names = ("check", "about", "state", "said", "fix")
    return {name: str(getattr(each, name)) for name in names}


def _print(each: "Result") -> None:
    head = " ".join(part for part in (each.check, each.about) if part)
    showing.finding(each.state, f"{head}: {each.said}")
    if each.fix:
        showing.finding("", f"fix: {each.fix}")


async def _show_host_key(config: Path | None, name: str, as_json: bool) -> None:
    from backhaul.doctor.host_key import shown_by

    # The connector's own settings are not judged: the key is what they lack.
    known = load_settings(config).connectors
    if name not in known:
        there = ", ".join(known) or "none"
        raise BackhaulError(f"no connector is called {name!r}; there are: {there}")
    key = await shown_by(name, known[name].options)
    if as_json:
        showing.json(
            {
                "connector": name,
                "server": key.where,
                "fingerprint": key.fingerprint,
                "sftp_host_key": key.line,
            }
        )
        return
    typer.echo(f"{key.where} shows {key.fingerprint}")
    typer.echo("If its administrator confirms that fingerprint, set:")
    typer.echo(f'[connectors.{name}]\nsftp_host_key = "{key.line}"')
