"""The secret that signs what a command sends to a receiver."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.cli import context
from backhaul.errors import BackhaulError
from backhaul.reconcile.keyring import Keyring
from backhaul.settings.layers import SECRET_VARIABLE
from backhaul.settings.secret_files import Unreadable, read_secret_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.settings import Settings

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
    except Unreadable as error:
        raise BackhaulError(str(error)) from None
