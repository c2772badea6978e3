"""`backhaul secrets`: which webhook secrets are accepted, and when each last signed."""

from typing import Annotated

import typer

from backhaul.cli import showing
from backhaul.cli.changing import change, who
from backhaul.cli.context import ConfigOption, JsonOption, explainer
from backhaul.errors import BackhaulError

secrets = typer.Typer(no_args_is_help=True, help="The secrets that sign webhooks.")


@secrets.command("list")
def list_secrets(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the webhook secrets by fingerprint, with when each last signed a delivery.

    The fingerprint is how its SHA-256 begins: printf %s "$SECRET" | sha256sum
    """
    with explainer(config) as known:
        rows = known.webhook_secrets()
    if as_json:
        showing.json(rows)
        return
    columns = ("store", "fingerprint", "state", "last_used_at", "known_since", "source")
    showing.table(rows, columns, "no secret was seen yet; start the daemon once")


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
        showing.json(left)
        return
    showing.record(
        [
            ("store", left["store"]),
            ("accepted", ", ".join(left["accepted"])),
        ]
    )
    if not undo:
        typer.echo("Take it out of the settings too, if it is there.")
