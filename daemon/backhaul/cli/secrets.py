"""`backhaul secrets`, and the webhook secret that signs replays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.cli import context, output
from backhaul.cli.context import ConfigOption, JsonOption, explainer
from backhaul.cli.daemon_client import change, who
from backhaul.errors import BackhaulError
from backhaul.platform.secret_files import Keyring
from backhaul.settings.secret_files import SecretFileError, read_secret_file
from backhaul.settings.sources import SECRET_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.settings import Settings


secrets = typer.Typer(no_args_is_help=True, help="The secrets that sign webhooks.")


@secrets.command("list")
def list_secrets(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the webhook secrets by fingerprint, with when each last signed a delivery.

    The fingerprint is how its SHA-256 begins: printf %s "$SECRET" | sha256sum
    """
    with explainer(config) as known:
        rows = known.webhook_secrets()
    if as_json:
        output.json(rows)
        return
    columns = ("store", "fingerprint", "state", "last_used_at", "known_since", "source")
    output.table(rows, columns, "no secret was seen yet; start the daemon once")


@secrets.command("drop")
def drop_secret(
    fingerprint: Annotated[str, typer.Argument(help="The fingerprint, or its start.")],
    config: ConfigOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Even if it signed within the last day.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Accept it again.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Accept deliveries signed with this secret no more, also after a restart."""
    with explainer(config) as known:
        rows = known.webhook_secrets()
    found = [row for row in rows if row["fingerprint"].startswith(fingerprint)]
    if len(found) != 1:
        raise BackhaulError(
            f"no secret, or more than one, has a fingerprint that begins with"
            f" {fingerprint!r}; see: backhaul secrets list"
        )
    asked = {key: found[0][key] for key in ("store", "fingerprint")}
    asked |= {"force": force, "undo": undo, "who": who()}
    left = change(config, "secrets/drop", asked)
    if as_json:
        output.json(left)
        return
    output.record(
        [
            ("store", left["store"]),
            ("accepted", ", ".join(left["accepted"])),
        ]
    )
    if not undo:
        typer.echo("Take it out of the settings too, if it is there.")


SecretFileOption = Annotated[
    Path | None,
    typer.Option(
        help=f"File with the secret to sign with; else ${SECRET_VARIABLE}, else the "
        "store's first of the settings."
    ),
]


def secret(
    file: Path | None, config: Path | None, store: Callable[[Settings], str]
) -> bytes:
    """Return the file's secret, else the environment's, else a store's first.

    That is the settings' first, or the newest that the platform gave the daemon.

    `store` says whose; without need of it no settings are read. Raises BackhaulError.
    """
    if file is not None:
        return _of_file(file)
    if given := os.environ.get(SECRET_VARIABLE):
        return given.encode()
    settings = context.settings(config)
    name = store(settings)
    configured = settings.stores[name].webhook_secrets
    if configured:
        return configured[0].get_secret_value().encode()
    kept = Keyring(settings.state_dir, name, lambda _: None).secrets()
    if not kept:
        raise BackhaulError(
            f"store {name} has no webhook secret yet; say --secret-file, or see:"
            " backhaul status"
        )
    return kept[0]


def _of_file(file: Path) -> bytes:
    try:
        return read_secret_file(file, private=False).strip().encode()
    except SecretFileError as error:
        raise BackhaulError(str(error)) from None
