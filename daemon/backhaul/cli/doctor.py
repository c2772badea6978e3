"""`backhaul doctor`, `check-config` and `support-bundle`: diagnostics."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec.structs import asdict
from rich.console import Console

from backhaul.app import jobs
from backhaul.app.control_socket import Control
from backhaul.cli import context, output
from backhaul.cli.context import ConfigOption, JsonOption, reader
from backhaul.cli.daemon_client import ask
from backhaul.connect import registry
from backhaul.core.clock import SystemClock, for_file_name
from backhaul.errors import BackhaulError, ConfigurationError
from backhaul.settings import Settings, configuration_file, load_settings
from backhaul.store import database_at

if TYPE_CHECKING:
    from backhaul.doctor import Result
    from backhaul.doctor.bundle import Cleaner


# The checks load the store and the HTTP client, so these commands import them on use.


def doctor(
    config: ConfigOption = None,
    trust_host_key: Annotated[
        str | None,
        typer.Option(
            metavar="CONNECTION",
            help="Show the host key of this connection's SFTP server, and how to"
            " trust this key. Nothing is stored, and no check runs.",
        ),
    ] = None,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Also compare every index of the database with its table. This takes"
            " longer.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run health checks, and suggest a fix for each failure or warning.

    The checks change nothing and send no command. The exit code is 1 if a check
    failed.
    """
    if trust_host_key is not None:
        asyncio.run(_show_host_key(config, trust_host_key, as_json))
        return
    found = asyncio.run(_examined(config, as_json, deep=deep))
    counts = {state: sum(each.state == state for each in found) for state in STATES}
    if as_json:
        output.json({"results": [_row(each) for each in found], **counts})
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
    """Yield the results of all checks, or only the errors of the configuration."""
    from backhaul.doctor import configuration
    from backhaul.doctor.check_runner import examine

    try:
        settings = context.settings(config)
    except ConfigurationError as error:
        for each in configuration.findings(error, config, os.environ):
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
    output.finding(each.state, f"{head}: {each.said}")
    if each.fix:
        output.finding("", f"fix: {each.fix}")


async def _show_host_key(config: Path | None, name: str, as_json: bool) -> None:
    from backhaul.doctor.configuration import shown_by

    # The connector's own options are not validated, because they lack this key.
    known = load_settings(config).connectors
    if name not in known:
        there = ", ".join(known) or "none"
        raise BackhaulError(
            f"no connection is called {name!r}; the connections are: {there}"
        )
    key = await shown_by(name, known[name].options)
    if as_json:
        output.json(
            {
                "connection": name,
                "server": key.where,
                "fingerprint": key.fingerprint,
                "sftp_host_key": key.line,
            }
        )
        return
    typer.echo(f"{key.where} has the host key {key.fingerprint}")
    typer.echo("If its administrator confirms this fingerprint, set:")
    typer.echo(f'[connectors.{name}]\nsftp_host_key = "{key.line}"')


def check_config(
    config: ConfigOption = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema",
            help="Print the JSON Schema of the configuration, for the completion of"
            " editors, and check nothing.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the configuration and list every error (exit code 78).

    The command also warns about risks. Examples are plain HTTP, secrets in the
    environment, and secrets in a configuration file that other users can read.
    It is an error if other users can read the file of a setting such as
    `api_key_file`. With single sign-on, the command also reads the discovery
    document of the identity provider.
    """
    from backhaul.doctor import State, configuration

    if schema:
        from backhaul.connect.configuration_schema import configuration_schema

        output.json(configuration_schema())
        return
    try:
        settings = context.settings(config)
    except ConfigurationError as error:
        more = configuration.shown_to_others(config, os.environ)
        raise ConfigurationError([*error.findings, *more]) from None
    results = [*configuration.check(settings, config, os.environ)]
    if settings.admin.oidc.is_configured:
        check = configuration.check_provider(settings, SystemClock())
        results.append(asyncio.run(check))
    warnings = [each for each in results if each.state is not State.OK]
    if as_json:
        file = configuration_file(config)
        shown = {"file": None if file is None else str(file), **dict(summary(settings))}
        output.json({**shown, "warnings": [each.said for each in warnings]})
        return
    console = Console(highlight=False)
    console.print("[green]ok[/]", end="  ")
    console.out(configuration_file(config) or "environment only")
    rows = list(summary(settings))
    width = max(len(name) for name, _ in rows) + 2
    for name, value in rows:
        output.labelled(name, value, width)
    for each in warnings:
        typer.echo(f"warning: {each.said} ({each.fix})", err=True)


def summary(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield a summary of the configuration, without secrets."""
    yield "state", str(settings.state_dir)
    yield "database", settings.database_name
    yield "public", f"{settings.public.host}:{settings.public.port}"
    yield "admin", f"{settings.admin.host}:{settings.admin.port}"
    for name, store in settings.stores.items():
        yield f"store {name}", store.base_url
        if not store.webhook_secrets:
            yield f"webhooks {name}", _without_secret(settings)
    for each in database_at(settings.place).orphaned_work(settings.stores):
        yield f"no store {each.store}", f"but it has {each}: {each.remedy}"
    for name, connector in settings.connectors.items():
        state = "" if connector.enabled else ", disabled"
        said = registry.meanings(connector.type, connector.options)
        kind = f"{connector.type} for {connector.store}{state}"
        yield f"connector {name}", "; ".join([kind, *said])
    yield from _jobs(settings)


def _jobs(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield when each job runs; one row if all stores have the same schedule."""
    plans, rules = jobs.plans(settings), jobs.rules(settings)
    schedules = {name: ": ".join([plans[name], *_rule(rules, name)]) for name in plans}
    for name in dict.fromkeys(jobs.key_of(called)[0] for called in schedules):
        own = {n: words for n, words in schedules.items() if jobs.key_of(n)[0] == name}
        if len(set(own.values())) == 1:
            own = {name: next(iter(own.values()))}
        yield from ((f"job {called}", words) for called, words in own.items())


def _rule(rules: Mapping[str, str], name: str) -> list[str]:
    return [rules[name]] if name in rules else []


def _without_secret(settings: Settings) -> str:
    if settings.public.url:
        return (
            "no secret is set: the daemon subscribes and keeps the secret that it gets"
        )
    return (
        "are refused: neither webhook_secrets nor [public] url is set; `backhaul run`"
        " shows what to enter in the platform's dashboard"
    )


def support_bundle(
    out: Annotated[
        Path | None,
        typer.Argument(
            help="New .tar.gz file to write. Default: a file in this folder,"
            " named after the time."
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a diagnostics archive that holds no secrets and no personal data.

    The command first runs the checks of `backhaul doctor`, which take some
    time.
    """
    # Imported on use, as in `doctor`.
    from backhaul.doctor import bundle
    from backhaul.doctor.bundle import Cleaner

    now = SystemClock().now()
    name = out or Path(f"backhaul-support-{for_file_name(now)}.tar.gz")
    results = asyncio.run(_checks_as_json(config))
    settings = _usable(config)
    cleaner = Cleaner(settings)
    parts = {
        "README.txt": bundle.ABOUT.encode(),
        "versions.json": bundle.document(bundle.versions),
        "doctor.json": bundle.document(lambda: bundle.findings(results, cleaner)),
    }
    if settings is not None:
        parts |= _parts(config, settings, cleaner)
    bundle.write(name, parts, now)
    if as_json:
        output.json({"file": str(name), "parts": list(parts)})
    else:
        typer.echo(f"{name}: {', '.join(parts)}; read it before you share it")


async def _checks_as_json(config: Path | None) -> list["Result"]:
    return [each async for each in examined(config)]


def _usable(config: Path | None) -> Settings | None:
    try:
        return context.settings(config)
    except ConfigurationError:
        return None  # the results of the checks name the errors


def _parts(
    config: Path | None, settings: Settings, cleaner: "Cleaner"
) -> dict[str, bytes]:
    from backhaul.doctor import bundle

    opened = database_at(settings.place)
    return {
        "configuration.json": bundle.document(lambda: cleaner.settings(settings)),
        "status.json": bundle.document(
            lambda: cleaner.value(_status(config, settings))
        ),
        "jobs.json": bundle.document(lambda: cleaner.value(_jobs_as_json(config))),
        "schema.sql": bundle.schema(opened),
        "counts.json": bundle.document(opened.row_counts),
        "metrics.txt": cleaner.secrets(_metrics(settings)).encode(),
        "log.jsonl": bundle.log_lines(settings.log.file, cleaner).encode(),
    }


def _status(config: Path | None, settings: Settings) -> dict[str, Any]:
    live, silence = ask(settings)
    with reader(config) as known:
        counts = msgspec.to_builtins(known.counts())
        consistency = msgspec.to_builtins(known.consistency())
    return {"daemon": live or silence, **counts, "consistency": consistency}


def _jobs_as_json(config: Path | None) -> list[dict[str, Any]]:
    with reader(config) as known:
        return [asdict(each) for each in known.jobs().values()]


def _metrics(settings: Settings) -> str:
    try:
        return Control(settings.state_dir).text("/metrics")
    except (BackhaulError, OSError) as error:
        return f"# {error}\n"
