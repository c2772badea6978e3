"""Turns exceptions into messages and exit codes."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
import textwrap
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from backhaul.core.strict_json import storable
from backhaul.errors import BackhaulError, Busy, ConfigurationError, Fatal, first_of
from backhaul.observe.redaction import Redactor, printable
from backhaul.store import explained

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FAILED = 1
BUG = 70
TEMPORARY = 75
PERMISSION = 77
INTERRUPTED = 130
DEBUG_OPTION = "--debug"
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def run(
    command: Callable[[], object],
    arguments: Sequence[str],
    redact: Redactor | None = None,
) -> int:
    """Call `command`, report a failure on stderr, and return the exit code.

    `--debug` among `arguments` adds the traceback of an unexpected exception; the log,
    where one was set up, has it anyway. `redact` is the log's redactor, which knows the
    secrets.
    """
    redact = redact or Redactor()
    _drop_default_sink()
    try:
        command()
        sys.stdout.flush()
    except SystemExit as error:
        return _system_exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _silence()
        return FAILED
    except Exception as raised:  # noqa: BLE001 - the outermost handler
        cause = _in_words(first_of(raised), arguments)
        _say(cause, redact, DEBUG_OPTION in arguments)
        return exit_code(cause)
    return 0


def exit_code(error: Exception) -> int:
    """Return the exit code for a kind of failure; docs/backhaul.1 lists them."""
    if isinstance(error, Fatal):
        return error.exit_code
    if isinstance(error, Busy):
        return TEMPORARY
    if isinstance(error, BackhaulError):
        return FAILED
    return PERMISSION if isinstance(error, PermissionError) else BUG


def lines(error: Exception) -> list[str]:
    """Return the error message, one line for each problem."""
    if isinstance(error, ConfigurationError):
        return [str(finding) for finding in error.findings]
    if isinstance(error, BackhaulError):
        return [" ".join(str(error).split()) or type(error).__name__]
    if isinstance(error, PermissionError):
        return [
            f"{error.filename}: permission denied; run the command as a user who has"
            " access to this file"
        ]
    return [
        f"a bug: {type(error).__name__} at {_place(error)}; please run the command"
        f" again with {DEBUG_OPTION} and report the output together with the log"
    ]


def _in_words(error: Exception, arguments: Sequence[str]) -> Exception:
    """Replace errors of a damaged database, a full disk and undecodable arguments.

    Each gets a message that says what to do.
    """
    if isinstance(error, UnicodeEncodeError):
        for odd in (each for each in arguments if storable(each) != each):
            return BackhaulError(f"the argument {odd} is not UTF-8; type it again")
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        _silence()
        where = error.filename or "the output"
        return Busy(f"{where}: {(error.strerror or 'no room').lower()}")
    return explained(error)


def _say(error: Exception, redact: Redactor, debug: bool) -> None:
    messages = lines(error)
    if exit_code(error) == BUG:
        logger.bind(action="program.crashed").opt(exception=error).error(
            "a bug ends the program: {}", type(error).__name__
        )
        if debug:
            trace = "".join(traceback.format_exception(error)).splitlines()
            messages = [*trace, *messages]
    with contextlib.suppress(BrokenPipeError):
        for line in messages:
            sys.stderr.write(f"{_fitted(printable(redact(line)))}\n")


def _fitted(line: str) -> str:
    """Return the line, wrapped between words on a terminal."""
    if not sys.stderr.isatty():
        return line
    columns = shutil.get_terminal_size().columns
    return textwrap.fill(line, columns, break_long_words=False, break_on_hyphens=False)


def _place(error: Exception) -> str:
    """Return file and line of the innermost frame of Backhaul below `run`."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    ours = [frame for frame in frames if "backhaul" in frame.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "start"


def _system_exit_code(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    sys.stderr.write(f"{error.code}\n")
    return FAILED


def _drop_default_sink() -> None:
    # loguru's default sink shows variables, and so secrets, until logging is set up.
    with contextlib.suppress(ValueError):
        logger.remove(0)


def _silence() -> None:
    # The interpreter flushes stdout at exit, which would raise another error.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
