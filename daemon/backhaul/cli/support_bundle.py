"""`backhaul support-bundle`: what somebody who helps needs to see, in one file."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backhaul.cli import context, showing
from backhaul.cli.context import ConfigOption, JsonOption, explainer
from backhaul.cli.doctor import examined
from backhaul.cli.live import ask
from backhaul.control import Control
from backhaul.core.clock import SystemClock, in_a_name
from backhaul.errors import BackhaulError, ConfigurationError
from backhaul.settings import Settings

if TYPE_CHECKING:
    from backhaul.doctor.cleaning import Cleaner
    from backhaul.doctor.result import Result


def support_bundle(
    out: Annotated[
        Path | None, typer.Argument(help="The .tar.gz to write; it must be new.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write what somebody who helps needs: no secrets and no personal data.

    It begins with all that `doctor` looks at, so it may take a while.
    """
    # As in `doctor`.
    from backhaul.doctor import bundle
    from backhaul.doctor.cleaning import Cleaner

    now = SystemClock().now()
    name = out or Path(f"backhaul-support-{in_a_name(now)}.tar.gz")
    results = asyncio.run(_examined(config))
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
        showing.json({"file": str(name), "parts": list(parts)})
    else:
        typer.echo(f"{name}: {', '.join(parts)}; read it before you hand it on")


async def _examined(config: Path | None) -> list["Result"]:
    return [each async for each in examined(config)]


def _usable(config: Path | None) -> Settings | None:
    try:
        return context.settings(config)
    except ConfigurationError:
        return None  # the doctor's findings say what is wrong with it


def _parts(
    config: Path | None, settings: Settings, cleaner: "Cleaner"
) -> dict[str, bytes]:
    from backhaul.doctor import bundle
    from backhaul.store.sqlite import examining

    file = settings.database_file
    return {
        "configuration.json": bundle.document(lambda: cleaner.settings(settings)),
        "status.json": bundle.document(
            lambda: cleaner.value(_status(config, settings))
        ),
        "jobs.json": bundle.document(lambda: cleaner.value(_jobs(config))),
        "schema.sql": bundle.schema(file),
        "counts.json": bundle.document(lambda: examining.counts(file)),
        "metrics.txt": cleaner.secrets(_metrics(settings)).encode(),
        "log.jsonl": bundle.log_lines(settings.log.file, cleaner).encode(),
    }


def _status(config: Path | None, settings: Settings) -> dict[str, Any]:
    live, silence = ask(settings)
    with explainer(config) as known:
        counts, consistency = known.counts(), known.consistency()
    return {"daemon": live or silence, **counts, "consistency": consistency}


def _jobs(config: Path | None) -> list[dict[str, Any]]:
    with explainer(config) as known:
        return list(known.jobs().values())


def _metrics(settings: Settings) -> str:
    try:
        return Control(settings.state_dir).text("/metrics")
    except (BackhaulError, OSError) as error:
        return f"# {error}\n"
