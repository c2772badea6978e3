"""Templates: everything is escaped, and how values are shown to people."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web
from markupsafe import Markup, escape

from backhaul.admin import drawing
from backhaul.core.spans import ago
from backhaul.store.users import Role

if TYPE_CHECKING:
    from datetime import datetime

    from jinja2 import Environment

HERE = Path(__file__).parent
ASSETS = HERE / "assets"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_TONES = {
    "good": "delivered applied folded settled accepted done up duplicate stale sent",
    "wait": "planned sending uncertain waiting received running interrupted unhandled"
    " pending held",
    "bad": "parked rejected quarantined open failed down stopped",
}
TONES = {word: tone for tone, words in _TONES.items() for word in words.split()}


def page(name: str, now: datetime, code: int, /, **values: Any) -> web.Response:
    """Render a template."""
    text = _templates().get_template(name).render(now=now, **values)
    return web.Response(text=text, status=code, content_type="text/html")


@cache
def _templates() -> Environment:
    # The first page waits for it, not each start.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "ago": ago,
        "amount": amount,
        "bare": bare,
        "badge": badge,
        "number": number,
        "pretty": pretty,
        "when": when,
    }
    made.globals |= {"asset": asset, "Role": Role, "chart": drawing.chart}
    return made


@cache
def asset(name: str) -> str:
    """Return the address of a file of ours, new with its content."""
    digest = hashlib.sha256((ASSETS / name).read_bytes()).hexdigest()[:12]
    return f"/assets/{name}?v={digest}"


def number(value: float | None) -> str:
    """Return a number with thin groups; — where there is none."""
    if value is None:
        return "—"
    text = f"{value:,.1f}".removesuffix(".0")
    return text.replace(",", "\u202f")


def when(text: str | None, now: datetime) -> Markup:
    """Return a time for people, with the exact one behind it."""
    if not text:
        return Markup("—")
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(
        text, ago(text, now)
    )


def badge(state: object) -> Markup:
    """Return a state as a colored word."""
    tone = TONES.get(str(state), "off")
    return Markup('<span class="badge {}">{}</span>').format(tone, state)


def amount(minor: int | None, currency: str | None) -> str:
    """Return money as it is kept: minor units, which differ by currency."""
    if minor is None:
        return "—"
    return f"{minor:,} {currency or ''} (minor units)".replace(",", "\u202f")


def bare(value: object) -> str:
    """Return bytes or text as text."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value)


def pretty(value: object) -> Markup:
    """Return JSON with its lines set out; what is none stays as it came."""
    text = bare(value)
    with suppress(msgspec.DecodeError):
        text = msgspec.json.format(text.encode(), indent=2).decode()
    return escape(text)


def page_of_words(status: int, words: str) -> web.Response:
    """Return plain words to whom no page may be shown."""
    return web.Response(text=words, status=status)
