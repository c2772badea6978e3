"""What the log is told meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from loguru import logger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loguru import Message


@pytest.fixture
def logged() -> Iterator[list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []

    def take(line: Message) -> None:
        lines.append({**line.record["extra"], "message": line.record["message"]})

    sink = logger.add(take)
    yield lines
    logger.remove(sink)
