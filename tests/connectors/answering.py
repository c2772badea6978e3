"""Lets scripted answers work with the installed aiohttp."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from aiohttp import ClientResponse


class Answered(ClientResponse):
    """An answer that is made without the writer of a request."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("stream_writer", SimpleNamespace(output_size=0))
        super().__init__(*args, **options)
