"""`backhaul check-config`: says whether the configuration can be used."""

import os
from collections.abc import Iterator, Mapping

import typer
from rich.console import Console

from backhaul import jobs
from backhaul.cli import context, showing
from backhaul.cli.context import ConfigOption, JsonOption
from backhaul.connect import registry
from backhaul.errors import ConfigurationError
from backhaul.settings import Settings, configuration_file
from backhaul.store.sqlite import stranded


def check_config(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check the configuration: ok, or everything that is wrong with it (exit 78).

    What the daemon runs with and should not be so is a warning, as `backhaul doctor`
    has it too: a file with secrets that others may read, plain HTTP, secrets in the
    environment.
    """
    from backhaul.doctor import configured
    from backhaul.doctor.result import State

    try:
        settings = context.settings(config)
    except ConfigurationError as error:
        more = configured.shown_to_others(config, os.environ)
        raise ConfigurationError([*error.findings, *more]) from None
    looked = configured.look(settings, config, os.environ)
    warnings = [each for each in looked if each.state is not State.OK]
    if as_json:
        file = configuration_file(config)
        shown = {"file": None if file is None else str(file), **dict(summary(settings))}
        showing.json({**shown, "warnings": [each.said for each in warnings]})
        return
    console = Console(highlight=False)
    console.print("[green]ok[/]", end="  ")
    console.out(configuration_file(config) or "environment only")
    rows = list(summary(settings))
    width = max(len(name) for name, _ in rows) + 2
    for name, value in rows:
        console.out(f"{name:<{width}}{value}")
    for each in warnings:
        typer.echo(f"warning: {each.said} ({each.fix})", err=True)


def summary(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield what the configuration amounts to, in a few rows without secrets."""
    yield "state", str(settings.state_dir)
    yield "database", str(settings.database_file)
    yield "public", f"{settings.public.host}:{settings.public.port}"
    yield "admin", f"{settings.admin.host}:{settings.admin.port}"
    for name, store in settings.stores.items():
        yield f"store {name}", store.base_url
        if not store.webhook_secrets:
            yield f"webhooks {name}", _without_secret(settings)
    for each in stranded.found(settings.database_file, settings.stores):
        yield f"no store {each.store}", f"but it has {each}: {each.mend}"
    for name, connector in settings.connectors.items():
        state = "" if connector.enabled else ", disabled"
        said = registry.meanings(connector.type, connector.options)
        kind = f"{connector.type} for {connector.store}{state}"
        yield f"connector {name}", "; ".join([kind, *said])
    yield from _jobs(settings)


def _jobs(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield when each job runs; once for all stores where they do not differ."""
    plans, rules = jobs.plans(settings), jobs.rules(settings)
    told = {name: ": ".join([plans[name], *_rule(rules, name)]) for name in plans}
    for name in dict.fromkeys(jobs.key_of(called)[0] for called in told):
        own = {n: words for n, words in told.items() if jobs.key_of(n)[0] == name}
        if len(set(own.values())) == 1:
            own = {name: next(iter(own.values()))}
        yield from ((f"job {called}", words) for called, words in own.items())


def _rule(rules: Mapping[str, str], name: str) -> list[str]:
    return [rules[name]] if name in rules else []


def _without_secret(settings: Settings) -> str:
    if settings.public.url:
        return "no secret is given: the daemon subscribes, and keeps what it is given"
    return (
        "are refused: neither webhook_secrets nor [public] url is given;"
        " `backhaul run` says what to enter in the platform's dashboard"
    )
