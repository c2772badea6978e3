"""`backhaul secrets`, and the webhook secret that signs replays."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.cli import context, output
from backhaul.cli.context import ConfigOption, JsonOption, example, reader
from backhaul.cli.daemon_client import change, who
from backhaul.errors import BackhaulError
from backhaul.platform.store_credentials import (
    SecretCipher,
    SharedKeyring,
    WebhookSecretFile,
)
from backhaul.settings.secret_files import SecretFileError, read_secret_file
from backhaul.settings.sources import SECRET_VARIABLE
from backhaul.store import database_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.settings import Settings


secrets = typer.Typer(no_args_is_help=True, help="Webhook signing secrets.")


@secrets.command("list")
def list_secrets(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the webhook secrets; show when each secret last signed a webhook.

    A fingerprint is the beginning of the secret's SHA-256 hash. To compute it:
    printf %s "$SECRET" | sha256sum
    """
    with reader(config) as known:
        rows = known.webhook_secrets()
    if as_json:
        output.json(rows)
        return
    columns = ("store", "fingerprint", "state", "last_used_at", "known_since", "source")
    output.table(rows, columns, "no secret is known yet; start the daemon once")


@secrets.command("drop", hidden=True)
@secrets.command("revoke", epilog=example("secrets revoke 3d269a69"))
def revoke_secret(
    fingerprint: Annotated[
        str,
        typer.Argument(
            help="The secret's fingerprint, or the first characters of the fingerprint."
        ),
    ],
    config: ConfigOption = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Revoke the secret even if it signed a webhook in the last 24 hours.",
        ),
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Accept a revoked secret again.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Stop accepting a webhook secret; a restart does not undo this."""
    with reader(config) as known:
        rows = known.webhook_secrets()
    found = [row for row in rows if row.fingerprint.startswith(fingerprint)]
    if len(found) != 1:
        number = "several fingerprints begin" if found else "no fingerprint begins"
        raise BackhaulError(
            f"{number} with {fingerprint!r}; see: backhaul secrets list"
        )
    (known_secret,) = found
    place = {
        "store": known_secret.store,
        "fingerprint": known_secret.fingerprint,
    }
    more = {"force": force, "undo": undo, "who": who()}
    left = change(config, "secrets/revoke", {**place, **more})
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
        typer.echo("If the configuration contains this secret, remove it there too.")


SecretFileOption = Annotated[
    Path | None,
    typer.Option(
        help=(
            f"File with the webhook secret. Default: ${SECRET_VARIABLE}, else the"
            " store's first secret in the configuration."
        )
    ),
]


def secret(
    file: Path | None, config: Path | None, store: Callable[[Settings], str]
) -> bytes:
    """Return the secret of the file, else of the environment, else of a store.

    A store's secret is the first in the settings, or else the newest that the platform
    gave the daemon. `store` returns the store's name; the settings are read only if
    neither file nor environment has a secret. Raises BackhaulError.
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
    kept = _of_platform(settings, name)
    if not kept:
        raise BackhaulError(
            f"Backhaul has no webhook secret of store {name} to sign with; give"
            " --secret-file, or see: backhaul status"
        )
    return kept[0]


def _of_platform(settings: Settings, name: str) -> list[bytes]:
    """Return the secrets that the platform gave the daemon, the newest first."""
    if not (settings.cluster.key and settings.database.is_server):
        return WebhookSecretFile(settings.state_dir, name, lambda _: None).secrets()
    cipher = SecretCipher(settings.cluster.key)
    with database_at(settings.place).readable() as store:
        sealed = store.sealed_secrets
        return asyncio.run(SharedKeyring(name, sealed, cipher, lambda _: None).load())


def _of_file(file: Path) -> bytes:
    try:
        return read_secret_file(file, private=False).strip().encode()
    except SecretFileError as error:
        raise BackhaulError(str(error)) from None
