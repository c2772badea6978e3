"""Requests that are no HTTP, are cut off or malformed: one calm line, and a count.

Whoever can reach a port can send them without end, and nobody has to act. aiohttp logs
each of them as an error with its traceback.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

from aiohttp.http_exceptions import (
    BadHttpMethod,
    BadStatusLine,
    HttpProcessingError,
    InvalidURLError,
    LineTooLong,
)
from loguru import logger

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

QUIET_SECONDS = 60.0
"""One line for each kind in so long; the next one says how many there were."""
_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (BadHttpMethod, "not HTTP"),
    (BadStatusLine, "not HTTP"),
    (LineTooLong, "too long"),
    (InvalidURLError, "bad address"),
    (HttpProcessingError, "malformed"),
    (ConnectionError, "cut off"),
)


_REQUEST_MODULES = frozenset(
    {"aiohttp.streams", "aiohttp.http_writer", "aiohttp.base_protocol"}
)
"""The modules through which aiohttp reads bodies and writes answers."""


class BadRequests(logging.Filter):
    """Stands before what aiohttp's server logs, and keeps our own errors as they are.

    `counted` counts requests by kind.
    """

    def __init__(
        self, counted: Counter[tuple[str, ...]], now: Callable[[], float] = monotonic
    ) -> None:
        super().__init__()
        self._counted = counted
        self._now = now
        self._logged: dict[str, tuple[float, int]] = {}

    def logger(self) -> logging.Logger:
        """Return a logger for one server, which nobody else uses."""
        made = logging.Logger("aiohttp.server", logging.DEBUG)
        made.parent = logging.getLogger()
        made.addFilter(self)
        return made

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is to be logged as it is."""
        error = record.exc_info[1] if record.exc_info else None
        kind = kind_of(error)
        if kind is None:
            return record.levelno >= logging.getLogger().getEffectiveLevel()
        remote = record.args[0] if isinstance(record.args, tuple) else None
        self._counted[kind,] += 1
        why = str(getattr(error, "message", error))
        self._log(kind, str(remote or "an unknown address"), why)
        return False

    def _log(self, kind: str, remote: str, error: str) -> None:
        total, now = self._counted[kind,], self._now()
        at, before = self._logged.get(kind, (-QUIET_SECONDS, total - 1))
        if now - at < QUIET_SECONDS:
            return
        self._logged[kind] = now, total
        first = (error.strip() or "no reason").splitlines()[0].rstrip(":")
        logger.bind(action="request.bad", kind=kind, requests=total - before).info(
            "a request from {} was refused, {}: {:.120}", remote, kind, first
        )


def kind_of(error: BaseException | None) -> str | None:
    """Return how a request was bad; None where the error is one of ours."""
    for shape, kind in _KINDS:
        if isinstance(error, shape):
            is_cut = shape is ConnectionError
            return kind if not is_cut or _is_of_the_request(error) else None
    return None


def _is_of_the_request(error: BaseException | None) -> bool:
    """Tell whether a connection broke on which a request was read or answered.

    A handler may have connections of its own, which nobody outside can break at will.
    """
    trace = error.__traceback__ if error is not None else None
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") in _REQUEST_MODULES:
            return True
        trace = trace.tb_next
    return False
