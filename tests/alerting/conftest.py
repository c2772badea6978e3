"""What the log is told meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from loguru import logger

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def logged() -> Iterator[list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []
    sink = logger.add(lambda message: lines.append(dict(message.record["extra"])))
    yield lines
    logger.remove(sink)
