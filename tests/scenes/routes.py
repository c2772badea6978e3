"""Compares the routes of an application with a table that lists them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp import web
    from aiohttp.web_urldispatcher import AbstractRoute


def without_row(app: web.Application, rows: Iterable[str]) -> list[str]:
    """Return the routes without a row; a row is a request such as `GET /orders/1`."""
    reached = [_reached(app, *row.split()) for row in rows]
    return [
        f"{route.method} {route.resource.canonical if route.resource else ''}"
        for route in app.router.routes()
        if route.method != "HEAD" and route not in reached
    ]


def _reached(app: web.Application, method: str, path: str) -> AbstractRoute | None:
    for route in app.router.routes():
        takes = route.method in (method, "*")
        if takes and route.resource and _is_at(route.resource.get_info(), path):
            return route
    return None


def _is_at(info: object, path: str) -> bool:
    if not isinstance(info, dict):
        return False
    pattern = info.get("pattern")
    return info.get("path") == path or bool(pattern and re.fullmatch(pattern, path))
