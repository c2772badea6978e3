"""Gives each test the log to itself."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from loguru import logger

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logger.remove()
    logger.configure(patcher=lambda record: None)
    root.handlers[:] = handlers
    root.setLevel(level)
