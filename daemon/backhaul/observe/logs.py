"""Configures the log: stderr and a file, text or JSON, secrets redacted."""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from datetime import UTC
from typing import TYPE_CHECKING, Any, Literal, cast

from loguru import logger

from backhaul.core.clock import to_text
from backhaul.errors import ConfigurationError, Finding
from backhaul.observe.redaction import Redactor, printable
from backhaul.runtime.tracing import present_span

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from loguru import Message, PatcherFunction, Record


FILE_BYTES = 50_000_000
FILES_KEPT = 5
FILE_MODE = 0o640
TEXT = "{time:YYYY-MM-DD HH:mm:ss.SSS} <level>{level: <7}</level> {text}"
JSON = "{json}"
LIBRARY_ACTION = "library.logged"
"""The action of log lines that libraries write through `logging`."""


def configure(
    level: str = "INFO",
    format: Literal["auto", "text", "json"] = "auto",
    file: Path | None = None,
    secrets: Iterable[str] = (),
    *,
    redactor: Redactor | None = None,
) -> Redactor:
    """Send the log to stderr, and to `file` as JSON; replace earlier outputs.

    Returns the redactor; use its `add` for secrets that become known later. Raises
    ConfigurationError if the file cannot be written, and then replaces nothing.
    """
    if file is not None:
        _require_writable(file)
    redactor = redactor or Redactor()
    redactor.add(secrets)
    as_text = format == "text" or (format == "auto" and sys.stderr.isatty())
    logger.remove()
    logger.configure(patcher=cast("PatcherFunction", _Patcher(redactor)))
    logger.add(
        sys.stderr,
        level=level,
        format=TEXT if as_text else JSON,
        colorize=None if as_text else False,
        diagnose=False,
        backtrace=False,
    )
    if file is not None:
        _add_file(file, level)
    _intercept(level)
    return redactor


def _require_writable(file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE))
    except OSError as error:
        reason = (error.strerror or "unknown").lower()
        problem = f"cannot be written: {reason}"
        raise ConfigurationError([Finding(str(file), "log.file", problem)]) from None


def send_to(sink: Callable[[Message], None], level: str) -> None:
    """Send the log, and that of libraries, to a function; replace earlier outputs."""
    logger.remove()
    logger.configure(patcher=cast("PatcherFunction", _Patcher(Redactor())))
    logger.add(sink, level=level, format="", diagnose=False, backtrace=False)
    _intercept(level)


def repeat(module: str, level: str, message: str, extra: Mapping[str, Any]) -> None:
    """Log a line of another process, with its fields and its module."""

    def name(record: Record) -> None:
        record["name"] = module

    logger.patch(name).bind(**extra).log(level, "{}", message)


def count_lines(lines: Counter[tuple[str, ...]]) -> None:
    """Count log lines of level WARNING and above in `lines`, by action."""

    def count(message: Message) -> None:
        lines[message.record["extra"].get("action", ""),] += 1

    logger.add(count, level="WARNING", format="", catch=False)


def _add_file(file: Path, level: str) -> None:
    logger.add(
        file,
        level=level,
        format=JSON,
        rotation=FILE_BYTES,
        retention=FILES_KEPT,
        opener=lambda name, flags: os.open(name, flags, FILE_MODE),
        encoding="utf-8",
        diagnose=False,
        backtrace=False,
    )


class _Patcher:
    """Redacts and renders a record before any sink sees it.

    It replaces the exception by its text without variables, so that no sink can print
    values that are not redacted.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def __call__(self, record: dict[str, Any]) -> None:
        redactor = self._redactor
        record["message"] = redactor(record["message"])
        record["extra"] = redactor.plain(record["extra"])
        if record["exception"] is not None:
            trace = "".join(traceback.format_exception(*record["exception"]))
            record["extra"]["exception"] = redactor(trace)
            record["exception"] = None
        if (span := present_span()) is not None:
            record["extra"]["trace_id"] = span.trace_id
            record["extra"]["span_id"] = span.span_id
        record["text"] = render_text(record)
        record["json"] = render_json(record)


def render_json(record: dict[str, Any]) -> str:
    """Return the record as one JSON object on one line."""
    fields = {
        "time": to_text(record["time"].astimezone(UTC)),
        "level": record["level"].name,
        "action": "",
        "message": record["message"],
        "module": record["name"],
    }
    extra = record["extra"]
    return json.dumps({**fields, **extra, **_reserved(fields)}, ensure_ascii=False)


def _reserved(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != "action"}


def render_text(record: dict[str, Any]) -> str:
    """Return action, message and fields on one line, then a traceback if present."""
    extra = dict(record["extra"])
    action, trace = extra.pop("action", ""), extra.pop("exception", "")
    fields = [f"{key}={_quoted(value)}" for key, value in extra.items()]
    line = " ".join([f"{action}:", printable(record["message"]), *fields])
    return f"{line}\n{trace}".rstrip()


def _quoted(value: object) -> str:
    bare = isinstance(value, str) and value.isprintable() and not {*' "='} & {*value}
    return str(value) if bare and value else json.dumps(value, ensure_ascii=False)


class _Intercept(logging.Handler):
    """Passes records of the standard `logging` to loguru."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on one record; `logging` calls this."""
        try:
            bound = logger.bind(action=LIBRARY_ACTION, library=record.name)
            bound.opt(exception=record.exc_info).log(
                _level(record), record.getMessage()
            )
        except Exception:  # noqa: BLE001 - a log line must not make a library fail
            self.handleError(record)


def _level(record: logging.LogRecord) -> str | int:
    try:
        return logger.level(record.levelname).name
    except ValueError:
        return record.levelno


def _intercept(level: str) -> None:
    """Take over the standard `logging`; records below WARNING only at TRACE."""
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, _Intercept):
            root.removeHandler(handler)
    root.addHandler(_Intercept())
    root.setLevel(logging.DEBUG if level == "TRACE" else logging.WARNING)
