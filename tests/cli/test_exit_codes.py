"""Each error ends in one line for each problem and the right exit code."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer

from backhaul.cli.exit_codes import run
from backhaul.errors import (
    AlreadyRunning,
    BackhaulError,
    Busy,
    ConfigurationError,
    CorruptData,
    Fatal,
    Finding,
    PlatformUnavailable,
    PortInUse,
)
from backhaul.observe.redaction import Redactor
from scenes.daemon import backhaul
from scenes.terminal import Typist

if TYPE_CHECKING:
    from collections.abc import Callable

BUG = (
    "a bug: KeyError at test_exit_codes.py:{line}; please run the command again with"
    " --debug and report the output together with the log\n"
)


def raising(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        raise error

    return command


LINE = raising.__code__.co_firstlineno + 2


@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        (Fatal("no"), 1, "no\n"),
        (PortInUse("port 8750 is taken"), 69, "port 8750 is taken\n"),
        (PlatformUnavailable("no\nanswer"), 69, "no answer\n"),
        (CorruptData("bad"), 65, "bad\n"),
        (AlreadyRunning("runs"), 75, "runs\n"),
        (Busy("disk full"), 75, "disk full\n"),
        (BackhaulError(), 1, "BackhaulError\n"),
        (ExceptionGroup("", [Busy("disk full")]), 75, "disk full\n"),
        (
            ExceptionGroup("", [ExceptionGroup("", [PortInUse("taken")])]),
            69,
            "taken\n",
        ),
        (
            ConfigurationError([Finding("a", "b", "c", "d"), Finding("e", "", "f")]),
            78,
            "a: b: c (d)\ne: f\n",
        ),
        (
            PermissionError(errno.EACCES, "no", "/srv/x"),
            77,
            "/srv/x: permission denied; run the command as a user who has access to"
            " this file\n",
        ),
        (KeyError("canary"), 70, BUG.format(line=LINE)),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 1, ""),
        (SystemExit(2), 2, ""),
        (SystemExit(), 0, ""),
        (SystemExit("gone"), 1, "gone\n"),
    ],
    ids=repr,
)
def test_an_error_ends_in_its_code_and_lines(
    error: BaseException, code: int, printed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(raising(error), []) == code
    assert capfd.readouterr() == ("", printed)


def test_a_successful_command_exits_with_zero() -> None:
    assert run(lambda: None, []) == 0


def test_debug_adds_the_traceback_without_secrets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = KeyError("canary-known svc_live_" + "x" * 24)
    assert run(raising(error), ["--debug"], Redactor(["canary-known"])) == 70
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert "KeyError: '[redacted] [redacted]'" in printed
    assert printed.endswith(BUG.format(line=LINE))


def test_debug_adds_nothing_to_an_expected_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(raising(Busy("disk full")), ["--debug"]) == 75
    assert capsys.readouterr().err == "disk full\n"


CRASHING = """
from backhaul.cli.exit_codes import run
from backhaul.observe import logs
from backhaul.observe.redaction import Redactor

redactor = Redactor(["canary-known"])

def command():
    logs.configure("ERROR", "FORMAT", redactor=redactor)
    {}["canary-known"]

raise SystemExit(run(command, [], redactor))
"""


def crashed(format: str) -> str:
    """Return the output of a program with the daemon's log configuration."""
    command = [sys.executable, "-c", CRASHING.replace("FORMAT", format)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (70, "")
    assert "canary" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("a bug: KeyError at ")
    return done.stderr


def test_the_log_of_a_service_names_the_bug_that_ended_it() -> None:
    """No operator is there to run it again with --debug."""
    line = json.loads(crashed("json").splitlines()[0])
    assert (line["action"], line["level"]) == ("program.crashed", "ERROR")
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert line["exception"].endswith("KeyError: '[redacted]'\n")
    assert ", in command\n" in line["exception"]


def test_in_a_log_of_text_the_traceback_follows_its_line() -> None:
    said = crashed("text").splitlines()
    assert "program.crashed:" in said[0]
    assert said[1] == "Traceback (most recent call last):"
    assert said[-2] == "KeyError: '[redacted]'"


FULL = """
from backhaul.cli.exit_codes import run

raise SystemExit(run(lambda: print("a row"), []))
"""


def test_an_argument_that_is_no_text_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The argument must be text; only file names may be any bytes."""

    def command() -> None:
        "\udcff".encode()

    assert run(command, ["why", "order", "\udcff1"]) == 1
    assert capsys.readouterr().err == (
        "the argument \\udcff1 is not UTF-8; type it again\n"
    )
    assert run(command, ["why", "order", "1"]) == 70


def test_a_full_disk_behind_the_output_is_no_bug() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", FULL],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    printed = "the output: no space left on device\n"
    assert (done.returncode, done.stderr) == (75, printed)


def test_no_secret_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    run(raising(Fatal("refused canary-known")), [], Redactor(["canary-known"]))
    assert capsys.readouterr().err == "refused [redacted]\n"


@pytest.mark.parametrize(
    ("arguments", "code"), [(["interrupt"], 130), (["nonsense"], 2), (["busy"], 75)]
)
def test_the_exit_codes_hold_around_a_typer_app(
    arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = typer.Typer()
    app.command("interrupt")(raising(KeyboardInterrupt()))
    app.command("busy")(raising(Busy("disk full")))
    monkeypatch.setattr(sys, "argv", ["backhaul", *arguments])
    assert run(app, arguments) == code


def test_nothing_is_logged_before_the_log_is_set_up() -> None:
    script = (
        "from loguru import logger\n"
        "from backhaul.cli.exit_codes import run\n"
        "run(lambda: logger.bind(action='a.b').error('canary'), [])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"", b"")


def test_a_long_error_is_wrapped_between_words_at_a_terminal(tmp_path: Path) -> None:
    missing = tmp_path / "no-such-file.toml"
    person = Typist("status", "--config", str(missing))
    code = person.end()
    lines = [line for line in person.seen.splitlines() if line]
    words = " ".join(lines).split()
    assert (code, len(lines) > 1, max(map(len, lines[1:])) <= 80) == (78, True, True)
    assert str(missing) in words[0], "a path is not cut, so that it can be copied"
    piped = backhaul("status", config=missing)
    assert len(piped.err.splitlines()) == 1
    assert words == piped.err.split()
