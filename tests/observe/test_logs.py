"""The format and the levels of the log, and that it contains no secret."""

from __future__ import annotations

import io
import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest
from loguru import logger

from backhaul.errors import ConfigurationError
from backhaul.observe.logs import configure

if TYPE_CHECKING:
    from pathlib import Path

CANARIES = ["canary-key-1234", 'canary "hook" ä', "654321"]
UNKNOWN = ["svc_live_" + "x" * 24, "whsec_" + "y" * 32]


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def logged(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    configure(format="json")
    logger.bind(action="order.folded", order="1001", items=[1, 2]).info("Order folded")
    (line,) = logged(capsys)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "INFO",
        "action": "order.folded",
        "message": "Order folded",
        "module": __name__,
        "order": "1001",
        "items": [1, 2],
    }


def test_a_field_cannot_replace_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(format="json")
    logger.bind(action="odd", level="x", message="y", time="z").warning("Odd")
    (line,) = logged(capsys)
    assert (line["level"], line["message"]) == ("WARNING", "Odd")
    assert line["time"] != "z"


def test_the_text_format_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    configure(format="text")
    fields = {"order": "1001", "name": "a b", "gone": "", "many": [1], "odd": 'x"'}
    logger.bind(action="order.folded", **fields).info("Order folded")
    line = capsys.readouterr().err
    assert line.rstrip("\n")[24:] == (
        'INFO    order.folded: Order folded order=1001 name="a b" gone="" many=[1] '
        'odd="x\\""'
    )


def test_a_text_line_cannot_be_forged(capsys: pytest.CaptureFixture[str]) -> None:
    configure(format="text")
    logger.bind(action="odd", who="a\n2026 fake\x1b[2J").info("Odd\n2026 <red>{fake}")
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_terminal_gets_text_and_anything_else_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for stream, start in ((Terminal(), "2"), (io.StringIO(), "{")):
        monkeypatch.setattr(sys, "stderr", stream)
        configure(format="auto")
        logger.bind(action="odd").info("Odd")
        assert stream.getvalue().replace("\x1b[0m", "").startswith(start)


def test_less_important_lines_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    configure("WARNING", "json")
    logger.bind(action="quiet").info("Quiet")
    logger.bind(action="loud").warning("Loud")
    assert [line["action"] for line in logged(capsys)] == ["loud"]


def test_setting_up_again_replaces_the_handlers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(format="json", secrets=["canary-one"])
    configure(format="json")
    logger.bind(action="once").info("Once")
    logging.getLogger("library").warning("Once as well")
    assert [line["action"] for line in logged(capsys)] == ["once", "library.logged"]


def test_a_file_gets_the_same_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "log" / "backhaul.log"
    configure(format="json", file=file, secrets=["canary-key"])
    logger.bind(action="order.folded").info("Order canary-key folded")
    assert file.read_text() == capsys.readouterr().err
    assert file.stat().st_mode & 0o007 == 0


def test_a_file_that_cannot_be_written_is_a_finding(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configure(file=tmp_path)
    assert (
        str(caught.value) == f"{tmp_path}: log.file: cannot be written: is a directory"
    )


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("DEBUG", ["aiohttp.server slow"]),
        ("TRACE", ["apscheduler ran", "httpx sent", "aiohttp.server slow"]),
    ],
)
def test_libraries_speak_below_warning_only_at_trace(
    level: str, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    configure(level, "json")
    logging.getLogger("apscheduler").debug("ran")
    logging.getLogger("httpx").info("%s", "sent")
    logging.getLogger("aiohttp.server").warning("slow")
    lines = [f"{line['library']} {line['message']}" for line in logged(capsys)]
    assert lines == shown


def test_a_librarys_own_level_and_braces_are_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(format="json")
    logging.getLogger("library").log(35, "{odd} %s", {"a": 1})
    (line,) = logged(capsys)
    assert (line["level"], line["message"]) == ("Level 35", "{odd} {'a': 1}")


def test_a_librarys_broken_line_does_not_stop_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    configure(format="json")
    logging.getLogger("library").warning("%d", "text")
    assert capsys.readouterr().err == ""


def speak(canary: str) -> None:
    """Log the canary in every way there is."""
    logger.bind(action="message").trace(f"In the message: {canary}")
    logger.bind(action="argument").debug("As an argument: {}", canary)
    fields = {"text": canary, "deep": [{"header": {canary: canary.encode()}}]}
    logger.bind(action="fields", **fields).info("In fields")
    logger.bind(action="repr", request=repr({"key": canary})).info("In a repr")
    logger.bind(action="colors").opt(colors=True).info("Colors {}", canary)
    logging.getLogger("httpcore").debug("headers %r", [(b"authorization", canary)])
    with logger.contextualize(context=canary):
        logger.bind(action="context").info("In the context")
    try:
        fail(canary)
    except RuntimeError:
        logger.bind(action="failed").exception("In an exception")
        logging.getLogger("asyncio").exception("In a library's exception")


def fail(secret: str) -> None:
    key = secret
    try:
        raise ValueError({"variable": key, "message": f"refused {secret}"})
    except ValueError as error:
        error.add_note(f"note {secret}")
        raise RuntimeError(f"outer {key}") from error


@pytest.mark.parametrize("format", ["json", "text"])
@pytest.mark.parametrize("canary", [*CANARIES, *UNKNOWN])
def test_no_secret_gets_into_the_log(
    format: Any, canary: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "log"
    configure("TRACE", format, file, CANARIES)
    speak(canary)
    written = capsys.readouterr().err + file.read_text()
    assert written.count("[redacted]") >= 20
    spellings = (canary, json.dumps(canary)[1:-1], repr(canary)[1:-1])
    assert [spelling for spelling in spellings if spelling in written] == []


def test_no_secret_reaches_any_other_sink() -> None:
    configure("TRACE", "json", None, CANARIES)
    seen: list[str] = []
    options: dict[str, Any] = {"diagnose": True, "backtrace": True}
    logger.add(seen.append, level="TRACE", format="{message} {extra}", **options)
    logger.add(seen.append, level="TRACE", serialize=True, **options)
    for canary in CANARIES:
        speak(canary)
    everything = "".join(seen)
    assert [canary for canary in CANARIES if canary in everything] == []
    assert "Traceback" in everything


def test_a_secret_learnt_later_is_left_out_from_then_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(format="json").add(["canary-later"])
    logger.bind(action="odd", secret="canary-later").info("Odd")
    assert "canary" not in capsys.readouterr().err
