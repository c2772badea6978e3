"""Nameless files for what cannot be read in place; a crash leaves none behind."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, BinaryIO, cast

from backhaul_connectors.file_drop.order_index import OrderIndex

if TYPE_CHECKING:
    from pathlib import Path


class Copies:
    """The nameless files made for one file that is read."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._stack = ExitStack()

    def make(self) -> BinaryIO:
        """Return an empty file that nobody else can open."""
        stream = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - see close
        return cast("BinaryIO", self._stack.enter_context(stream))

    def index_orders(self) -> OrderIndex:
        """Return an empty index of the rows of a file of shipments."""
        return self._stack.enter_context(closing(OrderIndex()))

    def close(self) -> None:
        self._stack.close()
