"""`backhaul run`, `reference` and `demo`: start the servers."""

import asyncio
import faulthandler
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from backhaul.app import process_tuning
from backhaul.app.systemd import ServiceManager
from backhaul.cli import context
from backhaul.cli.context import ConfigOption, example
from backhaul.core.clock import SystemClock
from backhaul.errors import Fatal
from backhaul.observe import logs
from backhaul.observe.redaction import Redactor
from backhaul.settings import Settings, secret_values

REFERENCE = "backhaul_reference"
ROLES_VARIABLE = "BACKHAUL_CLUSTER__ROLES"

EXAMPLE = example("run --config backhaul.toml")
"""What ends the help of `backhaul run`."""


RoleOption = Annotated[
    str | None,
    typer.Option(
        "--role",
        metavar="ROLES",
        help="What this daemon does, such as receiver,worker. Default: the setting"
        " cluster.roles. Needs PostgreSQL.",
        show_default=False,
    ),
]


def run(
    run_context: typer.Context, config: ConfigOption = None, role: RoleOption = None
) -> None:
    """Run the daemon until SIGTERM or Ctrl-C."""
    if role is not None:
        os.environ[ROLES_VARIABLE] = role  # a reload reads the settings again
    settings = context.settings(config)
    redactor = run_context.ensure_object(Redactor)
    _set_up_log(settings, redactor)
    # A daemon that hangs is ended by SIGABRT: this prints where, without variables.
    faulthandler.enable()
    # Only this command needs the loop and the daemon; others start faster without.
    import uvloop

    try:
        uvloop.run(_run(settings, redactor, config))
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _set_up_log(settings: Settings, redactor: Redactor) -> None:
    log = settings.log
    redactor.add(secret_values(settings))
    logs.configure(log.level, log.format, log.file, redactor=redactor)


async def _run(settings: Settings, redactor: Redactor, config: Path | None) -> None:
    process_tuning.start_threads(asyncio.get_running_loop())
    with process_tuning.paused():
        from backhaul.app.daemon import Daemon  # as above

    def read() -> Settings:
        found = context.settings(config)
        _set_up_log(found, redactor)
        logs.count_lines(daemon.metrics.counter("log_lines_total"))
        return found

    supervisor = ServiceManager(os.environ, os.getpid())
    daemon = Daemon(settings, hide=redactor.add, read=read, supervisor=supervisor)
    logs.count_lines(daemon.metrics.counter("log_lines_total"))
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()

    def stop() -> None:
        if daemon.stopping and main is not None:
            main.cancel()
        daemon.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, daemon.reload)
    try:
        await daemon.run()
    except asyncio.CancelledError:
        raise Fatal(
            "the daemon stopped at once, without waiting for the work in progress;"
            " the next start checks the commands that were being sent"
        ) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception in the group that is not a group itself."""
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def reference(arguments: typer.Context) -> None:
    """Run the reference server, a local store platform for tests."""
    # Replaces this process: the reference server must not share one with Backhaul.
    os.execv(sys.executable, [sys.executable, "-m", REFERENCE, *arguments.args])  # noqa: S606 - our own module, no shell


KeepOption = Annotated[
    Path | None,
    typer.Option(
        "--keep",
        help="Folder for data, logs and configuration; it must be new or empty."
        " Default: a temporary folder. The demo deletes the temporary"
        " folder if all went well.",
        show_default=False,
    ),
]

PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=1,
        max=65_531,
        help="First of five ports in a row: the store, its dashboard, the daemon's"
        " webhooks, the daemon's dashboard, and scanners. Default: five free ports.",
        show_default=False,
    ),
]
TrytonOption = Annotated[
    bool,
    typer.Option(
        "--with-tryton",
        help="Also run a Tryton server. If Tryton is not installed, the command shows"
        " how to install it.",
    ),
]
ClusterOption = Annotated[
    bool,
    typer.Option(
        "--cluster",
        help="Run three daemons on three PostgreSQL servers, kill one daemon every"
        " 20 seconds, and compare the stores with the mirror at the end. If PostgreSQL"
        " is not installed, the command shows how to install it.",
    ),
]


def demo(
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="Stop after the last order, and compare the store with the mirror and"
            " the ERP. Exit code 0: nothing differs.",
        ),
    ] = False,
    orders: Annotated[
        int, typer.Option(min=1, help="Number of orders; only with --once.")
    ] = 200,
    keep: KeepOption = None,
    port: PortOption = None,
    seed: Annotated[
        int,
        typer.Option(
            help="Seed of the random choices; the same seed makes the same choices."
        ),
    ] = 1,
    with_tryton: TrytonOption = False,
    cluster: ClusterOption = False,
    kills: Annotated[
        int, typer.Option(min=0, help="Number of kills; only with --cluster.")
    ] = 3,
) -> None:
    """Run the daemon with a local test platform and a simulated warehouse."""
    if cluster and (once or with_tryton or port is not None):
        other = "--once" if once else "--with-tryton" if with_tryton else "--port"
        raise typer.BadParameter(f"--cluster and {other} cannot be combined")
    # The demo loads many modules that no other command needs.
    from backhaul.demo import runner
    from backhaul.demo.demo_folder import ports_from
    from backhaul.demo.screen import Screen

    screen, clock = Screen(), SystemClock()
    if cluster:
        from backhaul.demo.cluster import run_cluster

        play = run_cluster(screen, clock, kills=kills, keep=keep, seed=seed)
        raise typer.Exit(asyncio.run(play))
    tryton = None
    if with_tryton:
        from backhaul.demo.tryton_server import keep_database

        tryton = keep_database(screen.say)
    ports = None if port is None else ports_from(port)
    stage = runner.Stage(keep, ports, tryton)
    if once:
        play = runner.run_once(screen, clock, stage, orders=orders, seed=seed)
    else:
        play = runner.run_live(screen, clock, stage, seed=seed)
    raise typer.Exit(asyncio.run(play))
