"""`backhaul status`: the daemon and its work on one screen."""

from typing import Any

from backhaul.admin.accounts import TOKEN_FILE
from backhaul.cli import context, showing
from backhaul.cli.context import ConfigOption, JsonOption, explainer
from backhaul.control import Control, NoDaemon
from backhaul.errors import BackhaulError
from backhaul.settings import Settings

ASK_SECONDS = 5.0


def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show whether the daemon runs, where it listens, and what waits."""
    settings = context.settings(config)
    live, silence = ask(settings)
    rehearsed = live["dry_run"] if live else settings.rehearsed
    with explainer(config) as known:
        counts, consistency = known.counts(), known.consistency()
        confirmed, stopped = known.confirmations(), known.stopped_targets()
    if as_json:
        found = {**counts, "consistency": consistency, "confirmations": confirmed}
        showing.json({"daemon": live, **found, "targets_stopped": stopped})
        return
    rows_of_nobody = _nobody(settings)
    dry = [("DRY RUN", _held_back(name)) for name in rehearsed]
    work = [*_work(counts), ("confirmations", _times(confirmed))]
    daemon = _daemon(live, silence)
    held = [(f"counts of {name}", f"stopped: {why}") for name, why in stopped.items()]
    live_rows = [*dry, *daemon, *rows_of_nobody, *held]
    showing.record([*live_rows, *work, *_equal(consistency)])


def _nobody(settings: Settings) -> list[tuple[str, object]]:
    """Say how to log in at the dashboard, as long as nobody ever did."""
    file = settings.state_dir / TOKEN_FILE
    said = f"nobody may log in yet: open it, and give the token in {file}"
    return [("dashboard", said)] if file.exists() else []


def _held_back(name: str) -> str:
    if name == "*":
        return "NOTHING IS SENT to the platform: [push] dry_run"
    return f"NOTHING IS SENT of connector {name}: [connectors.{name}] dry_run"


def ask(settings: Settings) -> tuple[dict[str, Any] | None, str]:
    """Return what the running daemon tells of itself, or else why it does not."""
    try:
        return Control(settings.state_dir).get("/api/status", ASK_SECONDS), ""
    except NoDaemon:
        return None, "is not running; start it with: backhaul run"
    except BackhaulError as error:
        return None, f"does not answer: {error}"


def _daemon(live: dict[str, Any] | None, silence: str) -> list[tuple[str, object]]:
    if live is None:
        return [("daemon", silence)]
    rows: list[tuple[str, object]] = [
        ("daemon", f"runs since {live['started_at']}"),
        ("receives at", live["public_url"]),
        ("admin at", live["admin_url"]),
    ]
    for name, store in live["stores"].items():
        stopped = "; ".join(f"{w} waits: {r}" for w, r in store["stopped"].items())
        rows.append((f"store {name}", stopped or f"sending {store['sending']}"))
    for name, said in live["subscriptions"].items():
        rows.append((f"webhooks of {name}", said or "subscribed"))
    for name, connector in live["connectors"].items():
        rows.append((f"connector {name}", connector["reason"] or "up"))
    return rows


def _work(counts: dict[str, Any]) -> list[tuple[str, object]]:
    commands = counts["commands"]
    summary = ", ".join(f"{n} {state}" for state, n in commands.items())
    return [
        ("events", f"{counts['events']}, {counts['to_fold']} to fold"),
        ("last event at", counts["last_event_at"] or "never"),
        ("mirror", f"{counts['orders']} orders, {counts['products']} products"),
        ("in doubt", f"{counts['in_doubt']} objects, to be read again"),
        ("commands", summary or "none"),
        ("waiting records", counts["waiting_records"]),
        ("in quarantine", counts["quarantined"]),
    ]


def _times(confirmed: dict[str, Any]) -> str:
    """Say how long effects took to come back to us, from the send to the fold."""
    if not confirmed["number"]:
        return "none in the last hour"
    median, p99 = confirmed["median_seconds"], confirmed["p99_seconds"]
    number = confirmed["number"]
    return f"{number} in the last hour, median {median:.2f} s, p99 {p99:.2f} s"


def _equal(consistency: dict[str, Any]) -> list[tuple[str, object]]:
    """Say since when each mirror is known to be as the platform."""
    return [
        (f"consistent {name}", _since(found)) for name, found in consistency.items()
    ]


def _since(found: dict[str, Any]) -> str:
    if found["as_of"]:
        return f"as of {found['as_of']}"
    lists = ", ".join(f"{kind}: {at or 'no'}" for kind, at in found["kinds"].items())
    return f"not proved yet ({lists})"
