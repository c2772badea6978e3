"""`backhaul run` and `reference`: the two servers."""

import asyncio
import faulthandler
import os
import signal
import sys
from pathlib import Path

import typer

from backhaul import garbage
from backhaul.cli import context
from backhaul.cli.context import ConfigOption
from backhaul.errors import Fatal
from backhaul.observe import logs
from backhaul.observe.redaction import Redactor
from backhaul.settings import Settings, secret_values
from backhaul.supervisor import Supervisor

REFERENCE = "backhaul_reference"


def run(run_context: typer.Context, config: ConfigOption = None) -> None:
    """Run the daemon until SIGTERM or Ctrl-C."""
    settings = context.settings(config)
    redactor = run_context.ensure_object(Redactor)
    _set_up_log(settings, redactor)
    # What hangs is ended by SIGABRT: this tells where, without any variable.
    faulthandler.enable()
    # Every other command does without the loop and the daemon, and starts sooner.
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
    with garbage.unsought():
        from backhaul.app import Daemon  # as above

    def read() -> Settings:
        found = context.settings(config)
        _set_up_log(found, redactor)
        logs.count_lines(daemon.metrics.counts("log_lines_total"))
        return found

    supervisor = Supervisor(os.environ, os.getpid())
    daemon = Daemon(settings, hide=redactor.add, read=read, supervisor=supervisor)
    logs.count_lines(daemon.metrics.counts("log_lines_total"))
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
        raise Fatal("stopped at once, without waiting for what was under way") from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first plain exception inside: it is what went wrong."""
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def reference(arguments: typer.Context) -> None:
    """Run the reference server; its own --help lists its options."""
    # Replaces this process: nothing of ours may run beside the oracle.
    os.execv(sys.executable, [sys.executable, "-m", REFERENCE, *arguments.args])  # noqa: S606 - our own module, no shell
