"""Webhooks that could not be kept: told once when it begins, and once it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.errors import Busy

CALM_SECONDS = 10.0
"""Nothing was refused for so long: it is over. A nearly full disk takes every other."""


class Refusals:
    """Counts them, as a line for each would fill the log, and the disk with it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._number = 0
        self._last = 0.0

    def refused(self, error: Busy) -> None:
        """Take note that a webhook was answered 503."""
        if not self._number:
            logger.bind(action="receive.busy").warning("{}", error)
        self._number += 1
        self._last = self._clock.monotonic()

    def kept(self) -> None:
        """Take note that one was kept."""
        if self._number and self._clock.monotonic() >= self._last + CALM_SECONDS:
            logger.bind(action="receive.resumed", refused=self._number).info(
                "webhooks are kept again; {} were answered 503", self._number
            )
            self._number = 0
