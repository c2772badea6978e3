"""`backhaul status`: problems, daemon and work on one screen."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec.structs import asdict

from backhaul.admin.accounts import TOKEN_FILE
from backhaul.alerting import find_problems
from backhaul.alerting.problem import LISTS, Facts, Problem
from backhaul.alerting.summary import group_problems
from backhaul.app import jobs
from backhaul.app.control_socket import Control
from backhaul.cli import context, output
from backhaul.cli.context import ConfigOption, JsonOption, reader_of
from backhaul.cli.daemon_client import ask, job_rows
from backhaul.cli.output import Line, Section, packed
from backhaul.core.clock import SystemClock, ago, pause
from backhaul.core.lifecycle import State
from backhaul.errors import BackhaulError
from backhaul.store import database_at
from backhaul.store.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from backhaul.settings import Settings
    from backhaul.store.mirror import SyncState
    from backhaul.store.ownership import KnownMember
    from backhaul.store.read_models import Reader


SHOWN = 3
"""Problems of one kind that are shown if a command lists them all."""


def current(
    settings: Settings, known: Reader, live: Mapping[str, Any] | None
) -> list[Problem]:
    """Return the problems the daemon finds; otherwise those that are known here."""
    if live is not None:
        try:
            found = Control(settings.state_dir).get("/api/problems")
            return msgspec.convert(found, list[Problem])
        except (BackhaulError, msgspec.ValidationError):
            pass  # it is busy, has just ended, or is of another version
    return find_problems(_facts(settings, known, live or {}))


def _facts(settings: Settings, known: Reader, live: Mapping[str, Any]) -> Facts:
    now = SystemClock().now()
    silence = {
        name: each.silent_after
        for name, each in settings.connectors.items()
        if each.enabled and each.silent_after is not None
    }
    return Facts(
        status={**_stopped_daemon(settings), **live},
        conditions=known.conditions(silence),
        drift_rows=settings.alerts.drift_rows,
        silence=silence,
        now=now.timestamp(),
        backups_missed=_unknown,
        free_bytes=shutil.disk_usage(settings.data_folder).free,
    )


def _unknown(_: datetime) -> bool:
    """Only the daemon knows its schedule, and says when a backup is late."""
    return False


def _stopped_daemon(settings: Settings) -> dict[str, Any]:
    """Return the status of a daemon that does not run."""
    empty = ("connectors", "jobs", "subscriptions", "refused")
    enabled = [name for name, each in settings.connectors.items() if each.enabled]
    return {
        "stores": {name: {"stopped": {}} for name in settings.stores},
        "news": {name: {"up": None, "reason": None} for name in enabled},
        "plans": jobs.plans(settings),
        "dry_run": settings.dry_run_connections,
        **{name: {} for name in empty},
    }


def lines(found: Sequence[Problem]) -> Iterator[Line]:
    """Yield a line for each problem; only the first of many equal ones are shown."""
    for group in group_problems(found):
        first, number = group.first, len(group.problems)
        more = number - SHOWN if first.kind in LISTS else 0
        for problem in group.problems[:SHOWN] if more > 0 else group.problems:
            says = problem.short or problem.text
            if number == 1 and group.is_urgent and group.consequence:
                says = f"{says}; {group.consequence}"
            yield Line(problem.subject, says, problem.command, problem.severity)
        if number > 1:
            head = f"and {more} more: " if more > 0 else ""
            says, show = f"{head}{group.consequence}", group.command if more > 0 else ""
            yield Line(first.subject, says, show, first.severity)


OPEN = (State.PARKED, State.UNCERTAIN, State.SENDING, State.PLANNED)
"""The states of unfinished commands; those that need an operator first."""
PACKED_WIDTH = 60


def sections(found: Mapping[str, Any], now: datetime, *, exact: bool) -> list[Section]:
    """Return all sections, worst first; `exact` shows times as stored."""
    wrong = [*lines(found["problems"])]
    calm = [] if wrong or not found["daemon"] else [Line("needs you", "nothing")]
    whole = "backhaul status | less"
    view = _View(found, now, exact=exact)
    return [
        Section([view.daemon()]),
        Section([*view.dry_run(), *wrong, *calm], whole, urgent=True),
        Section([*view.addresses(), *view.first_login()]),
        Section([*view.members()], whole),
        Section([*view.stores()], whole),
        Section([view.commands(), view.work()]),
        Section([*view.connectors()], "backhaul connectors list"),
        Section([*view.jobs()], "backhaul jobs list"),
        Section([view.disk(), view.confirmed()]),
    ]


class _View:
    """Writes the lines of the status."""

    def __init__(self, found: Mapping[str, Any], now: datetime, *, exact: bool) -> None:
        self._found = found
        self._now = now
        self._exact = exact

    def _when(self, text: str | None) -> str:
        return (text or "never") if self._exact else ago(text, self._now)

    def daemon(self) -> Line:
        live = self._found["daemon"]
        if live is None:
            return Line("daemon", self._found["silence"], "", "fail")
        since = live["started_at"]
        for_long = "" if self._exact else f", {ago(since, self._now)}"
        said = f"runs since {since}{for_long}"
        if standby := live.get("standby"):
            return Line("daemon", f"{said}. {standby}", "", "ok")
        return Line("daemon", said, "", "ok")

    def addresses(self) -> Iterator[Line]:
        if live := self._found["daemon"]:
            label = "addresses"
            if public := live["public_url"]:
                yield Line(label, f"receives at {public}")
                label = ""
            yield Line(label, f"dashboard at {live['admin_url']}")
            if receivers := live["receivers"]:
                yield Line("receivers", _receivers_text(receivers))
            if live["spooled"]:
                yield Line("webhooks", _spooled_text(live), "", "warn")

    def members(self) -> Iterator[Line]:
        """Yield the daemons on a PostgreSQL database, and how much each owns."""
        for each in self._found["members"]:
            said = [_owned(each), f"version {each.version}"]
            said.append(f"dashboard at {each.admin_url}")
            if not each.is_alive:
                said.append(f"silent for {each.silent_seconds:.0f} s")
            state = "ok" if each.is_alive else "warn"
            yield Line(f"daemon {each.host}", ", ".join(said), "", state)

    def dry_run(self) -> Iterator[Line]:
        for name in self._found["dry_run_of"]:
            who, where = "", "[push] dry_run"
            if name != "*":
                who, where = f" of connector {name}", f"[connectors.{name}] dry_run"
            says = f"NOTHING IS SENT{who or ' to the platform'}: {where}"
            yield Line("DRY RUN", says, "", "warn")

    def first_login(self) -> Iterator[Line]:
        """Yield how to create the first user of the dashboard, while there is none."""
        if file := self._found["token"]:
            yield Line(
                "dashboard", "no user yet; token for the first login:", f"cat {file}"
            )

    def stores(self) -> Iterator[Line]:
        """Yield each store's sending, last webhook, backlog and consistency."""
        for name, store in self._found["stores"].items():
            lag = ""
            if store["oldest_at"]:
                lag = f", oldest {self._when(store['oldest_at'])}"
            said = [
                _sending(store),
                f"webhook {self._when(store['last_webhook_at'])}",
                f"{store['to_fold']} to fold{lag}",
                self._in_sync(self._found["consistency"].get(name)),
            ]
            state = "fail" if store["stopped"] else ""
            yield Line(f"store {name}", "; ".join(filter(None, said)), "", state)

    def _in_sync(self, state: SyncState | None) -> str:
        if state is None:
            return "in sync: not verified yet"
        if state.as_of:
            unread = ", ".join(state.unread)
            but = f"; {unread} cannot be read" if unread else ""
            return f"in sync as of {self._when(state.as_of)}{but}"
        kinds = state.kinds.items()
        lists = ", ".join(f"{kind}: {at or 'no'}" for kind, at in kinds)
        return f"in sync: not verified yet ({lists})"

    def commands(self) -> Line:
        """Return the number of commands in each open state, and how to list them."""
        counts = self._found["commands"]
        is_open = [state for state in OPEN if counts.get(state)]
        said = [f"{counts[state]} {state}" for state in is_open]
        if held := self._found["counts_held"]:
            said.append(f"{held:,} of these counts on hold")
        if since := self._found["oldest_planned_at"]:
            said.append(f"oldest {self._when(since)}")
        done = sum(n for state, n in counts.items() if state not in OPEN)
        said.append(f"{done} done")
        show = f"backhaul commands list --state {is_open[0]}" if is_open else ""
        state = is_open[0] if is_open and is_open[0] != State.PLANNED else ""
        return Line("commands", ", ".join(said), show, state)

    def work(self) -> Line:
        found = self._found
        refetch = f"{found['in_doubt']} to refetch, " if found["in_doubt"] else ""
        says = (
            f"{found['orders']} orders, {found['products']} products,"
            f" {refetch}{found['events']} events,"
            f" {found['waiting_records']} records waiting"
        )
        show = "backhaul records waiting" if found["waiting_records"] else ""
        return Line("mirror", says, show)

    def connectors(self) -> Iterator[Line]:
        for name, each in self._found["connectors"].items():
            said = [
                {None: "", True: "up", False: "down"}[each["up"]],
                f"worked {self._when(each['worked_at'])}" if each["worked_at"] else "",
                f"record {self._when(each['last_record_at'])}",
                f"{each['quarantined']} in quarantine" if each["quarantined"] else "",
            ]
            state = "fail" if each["up"] is False else ""
            yield Line(f"connector {name}", ", ".join(filter(None, said)), "", state)

    def jobs(self) -> Iterator[Line]:
        """Yield when each job runs next; jobs without a next run are left out."""
        rows = [row for row in self._found["jobs"] if row["next_run_at"]]
        rows.sort(key=lambda row: str(row["next_run_at"]))
        stores = {row["store"] for row in rows if row["store"]}
        pieces = []
        for row in rows:
            name = f"{row['job']}:{row['store']}" if len(stores) > 1 else row["job"]
            pieces.append(f"{name} {self._when(row['next_run_at'])}")
        lines = pieces if self._exact else packed(pieces, PACKED_WIDTH)
        for number, line in enumerate(lines):
            yield Line("" if number and not self._exact else "next jobs", line)

    def disk(self) -> Line:
        disk = self._found["disk"]
        return Line(
            "disk",
            f"database {_size(disk['database_bytes'])}, log {_size(disk['log_bytes'])};"
            f" {_size(disk['free_bytes'])} free at {disk['folder']}",
        )

    def confirmed(self) -> Line:
        """Return how long confirmations took, from the request to the folded event."""
        times = self._found["confirmations"]
        if not times["number"]:
            return Line("confirmations", "none in the last hour")
        median, p99 = times["median_seconds"], times["p99_seconds"]
        says = (
            f"{times['number']} in the last hour, median {median:.2f} s, p99"
            f" {p99:.2f} s"
        )
        return Line("confirmations", says)


def _receivers_text(receivers: Sequence[Mapping[str, int]]) -> str:
    pids = ", ".join(str(each["pid"]) for each in receivers)
    restarts = sum(each["restarts"] for each in receivers)
    said = f"{len(receivers)} processes ({pids})"
    return f"{said}, restarts: {restarts}" if restarts else said


def _spooled_text(live: Mapping[str, Any]) -> str:
    return f"{live['spooled']:,} webhooks wait on this machine's disk for the database"


def _sending(store: Mapping[str, Any]) -> str:
    if store["stopped"]:
        return f"stopped: {', '.join(store['stopped'])}"
    return "" if store["sending"] is None else f"sending {store['sending']}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1_000:
            return f"{size:.3g} {unit}"
        size /= 1_000
    return f"{size:,.1f} GB"


PARKED_SHOWN = 3


WATCH_SECONDS = 2.0


def status(
    config: ConfigOption = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            "-w",
            help="Show the status again every 2 seconds, until Ctrl-C. With --json:"
            " one JSON object per line.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show health, waiting work and suggested next commands on one screen.

    On a terminal, long lists are shortened. A file or a pipe gets the complete
    lists.
    """
    settings = context.settings(config)
    if watch and as_json:
        while True:
            output.json_line(_as_json(_status(settings)))
            pause(WATCH_SECONDS)
    terminal = output.terminal()
    if watch and terminal is None:
        raise typer.BadParameter("--watch needs a terminal, or --json")
    while watch:
        output.redraw(_watched(settings), output.terminal())
        pause(WATCH_SECONDS)
    found = _status(settings)
    if as_json:
        output.json(_as_json(found))
        return
    now = SystemClock().now()
    output.screen(sections(found, now, exact=terminal is None), terminal)


def _watched(settings: Settings) -> list[Section]:
    """Return the status now, or why there is none: the next try may work."""
    now = SystemClock().now()
    head = f"{now:%H:%M:%S} UTC, again every {WATCH_SECONDS:.0f} s; Ctrl-C ends this"
    try:
        shown = sections(_status(settings), now, exact=False)
    except BackhaulError as error:
        shown = [Section([Line("status", str(error), "", "fail")])]
    return [Section([Line("now", head)]), *shown]


def _status(settings: Settings) -> dict[str, Any]:
    """Return all that the status shows. Raises BackhaulError."""
    live, silence = ask(settings)
    try:
        with reader_of(settings) as known:
            found = {"daemon": live, **_read(settings, known, live)}
            found["problems"] = current(settings, known, live)
            found["members"] = database_at(settings.place).members()
            found["token"] = _token(settings, known)
    except BackhaulError as error:
        if not (live and live["spooled"]):
            raise
        raise BackhaulError(f"{error}\n{_spooled_text(live)}") from None
    found["silence"] = silence
    found["dry_run_of"] = live["dry_run"] if live else settings.dry_run_connections
    return found


_ONLY_FOR_PEOPLE = {"token", "silence", "dry_run_of"}


def _as_json(found: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: msgspec.to_builtins(found[key]) for key in ("problems", "members")}
    shown = {**found, **plain}
    return {k: v for k, v in shown.items() if k not in _ONLY_FOR_PEOPLE}


def _read(
    settings: Settings, known: Reader, live: dict[str, Any] | None
) -> dict[str, Any]:
    counts = msgspec.to_builtins(known.counts())
    overview = msgspec.to_builtins(known.overview(settings.stores, settings.connectors))
    for name, store in overview["stores"].items():
        store |= {"sending": None, "stopped": {}, "paused": None}
        store |= (live or {}).get("stores", {}).get(name, {})
    for name, each in overview["connectors"].items():
        each |= {"up": None, "reason": None, "worked_at": None}
        each |= (live or {}).get("connectors", {}).get(name, {})
    return {
        **counts,
        "consistency": known.consistency(),
        "confirmations": asdict(known.confirmations()),
        "targets_stopped": known.stopped_targets(),
        **overview,
        "parked": msgspec.to_builtins(
            known.commands(Filter(state="parked"), PARKED_SHOWN)
        ),
        "jobs": job_rows(settings, live, known.jobs()),
        "disk": _disk(settings),
    }


def _disk(settings: Settings) -> dict[str, Any]:
    sizes = database_at(settings.place).sizes()
    return {
        "database_bytes": sizes["database"],
        "log_bytes": sizes.get("log", 0),
        "free_bytes": shutil.disk_usage(settings.data_folder).free,
        "folder": str(settings.data_folder),
    }


def _token(settings: Settings, known: Reader) -> str | None:
    """Return the file with the token of the first login, while there is no user."""
    file = settings.state_dir / TOKEN_FILE
    return str(file) if file.exists() and not known.users() else None


def _owned(member: KnownMember) -> str:
    """Return what a daemon owns, in words."""
    if not member.is_owner:
        return "owns no store"
    stores = "1 store" if member.stores == 1 else f"{member.stores:,} stores"
    duties = " and the jobs of the database" if member.runs_database else ""
    return f"owns {stores}{duties}"
