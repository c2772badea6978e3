"""Lets scripted answers work with the installed aiohttp."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from aiohttp import ClientResponse
from aioresponses import CallbackResult, aioresponses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarl import URL


class Answered(ClientResponse):
    """An answer that is made without the writer of a request."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("stream_writer", SimpleNamespace(output_size=0))
        super().__init__(*args, **options)


class Script:
    """The answers of a system by its URLs, and what it was asked."""

    def __init__(self, **pages: Any) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.pages: dict[str, Any] = pages

    def add(self, url: str, page: Any, status: int = 200, **headers: str) -> None:
        self.pages[url] = (page, status, headers)

    def answer(self, url: URL, **request: Any) -> CallbackResult:
        self.asked.append((str(url), request["headers"]))
        page, status, headers = self.pages[str(url)]
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return CallbackResult(
            status=status,
            body=json.dumps(page),
            headers=named,
            response_class=Answered,
        )

    @property
    def urls(self) -> list[str]:
        return [url for url, _ in self.asked]


@contextmanager
def scripted() -> Iterator[Script]:
    """Answer every call of an aiohttp client to an https:// address by a script."""
    script = Script()
    with aioresponses() as mocked:
        mocked.get(re.compile("^https://"), callback=script.answer, repeat=True)
        yield script
