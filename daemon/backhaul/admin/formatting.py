"""Formats values for pages: numbers, times, states, amounts, JSON."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec
from markupsafe import Markup, escape

from backhaul.core.clock import ago, from_text
from backhaul.core.resources import from_minor
from backhaul.store.filters import Filter
from backhaul.store.records import ReasonClass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

_SYMBOLS = {
    "AUD": "A$",
    "BRL": "R$",
    "CAD": "CA$",
    "CNY": "CN¥",
    "EUR": "€",
    "GBP": "£",
    "HKD": "HK$",
    "ILS": "₪",
    "INR": "₹",
    "JPY": "¥",
    "KRW": "₩",
    "MXN": "MX$",
    "NZD": "NZ$",
    "PHP": "₱",
    "TWD": "NT$",
    "USD": "$",
    "VND": "₫",
    "XAF": "FCFA",
    "XCD": "EC$",
    "XCG": "Cg.",
    "XOF": "F\u202fCFA",
    "XPF": "CFPF",
}
"""The currencies that Unicode CLDR gives a symbol of its own in English."""
NARROW, MINUS = "\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"
_TIME = re.compile(r"(\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)")
_TONES = {
    "good": "delivered applied folded settled accepted done up duplicate stale sent"
    " valid",
    "wait": "planned sending uncertain waiting adjusting received running interrupted"
    " unhandled pending held",
    "bad": "parked rejected quarantined open failed down stopped revoked expired",
}
TONES = {word: tone for tone, words in _TONES.items() for word in words.split()}


def number(value: float | None) -> str:
    """Return a number with thin spaces between groups, or — for None."""
    if value is None:
        return "—"
    text = f"{value:,.1f}".removesuffix(".0")
    return text.replace(",", "\u202f")


def rate(value: float) -> str:
    """Return a rate; one that rounds to 0 but is not 0 shows that something flows."""
    return "<0.1" if 0 < value < 0.05 else number(round(value, 1 if value < 10 else 0))


def measure(value: float | None, unit: str) -> str:
    """Return a chart's value; `unit` is that of the chart, such as `s` or `%`."""
    if value is None:
        return "—"
    if unit == "%":
        return f"{value:.3g}{NARROW}%"
    if unit != "s":
        return rate(value)
    for seconds, word in ((7200, "h"), (120, "min"), (1, "s")):
        if value >= seconds:
            return f"{value / _SECONDS[word]:.3g}{NARROW}{word}"
    return f"{value * 1000:.3g}{NARROW}ms"


_SECONDS = {"h": 3600, "min": 60, "s": 1}


def when(text: str | None, now: datetime) -> Markup:
    """Return a relative time whose tooltip is the exact time in UTC."""
    if not text:
        return Markup("—")
    return Markup('<time datetime="{}" title="{}" data-relative>{}</time>').format(
        text, _utc(text), ago(text, now)
    )


def at(text: str | None) -> Markup:
    """Return a time in UTC; a script of the page shows it in the reader's zone."""
    if not text:
        return Markup("—")
    shown = _utc(text)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(text, shown, shown)


def with_times(text: str | None) -> Markup:
    """Return a text in which each stored time is shown as by `at`; Markup stays."""
    if isinstance(text, Markup):
        return text
    parts = _TIME.split(text or "")
    return Markup("").join(
        at(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )


def sentence(text: str | None) -> str:
    """Return a text with a capital at its beginning and a full stop at its end."""
    shown = (text or "").strip()
    if not shown:
        return ""
    return f"{shown[0].upper()}{shown[1:]}{'' if shown[-1] in '.!?' else '.'}"


def _utc(text: str) -> str:
    """Return `1 Mar 2026, 12:00:05 UTC`, or the text itself if it is not a time."""
    try:
        moment = from_text(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return text
    return f"{moment.day} {moment:%b %Y, %H:%M:%S} UTC"


def badge(state: object) -> Markup:
    """Return a state as a colored badge."""
    tone = TONES.get(str(state), "off")
    return Markup('<span class="badge {}">{}</span>').format(tone, state)


def money(minor: int | None, currency: str | None) -> str:
    """Return an amount as people write it, such as `₹1,398.00` or `KWD 1.250`."""
    if minor is None:
        return "—"
    amount = from_minor(minor, currency or "")
    symbol = _SYMBOLS.get(currency or "", currency or "")
    space = NARROW if symbol[-1:].isalpha() else ""
    return f"{MINUS if amount < 0 else ''}{symbol}{space}{abs(amount):,f}"


_PLATFORM_TONES = {
    "good": "PAID FULFILLED ACTIVE",
    "wait": "UNFULFILLED PARTIALLY_FULFILLED PENDING PARTIALLY_PAID AUTHORIZED",
    "bad": "CANCELLED VOIDED DELETED",
}


def platform_word(word: str | None) -> Markup:
    """Return a status in the platform's own word as a badge; empty without one."""
    if not word:
        return Markup("")
    upper = word.upper()
    tones = (tone for tone, words in _PLATFORM_TONES.items() if upper in words.split())
    shown = word.replace("_", " ").lower()
    return Markup('<span class="badge {}">{}</span>').format(next(tones, "off"), shown)


def as_text(value: object) -> str:
    """Return bytes or text as text."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value)


def pretty(value: object) -> Markup:
    """Return JSON with indentation; other text stays unchanged."""
    text = as_text(value)
    with suppress(msgspec.DecodeError):
        text = msgspec.json.format(text.encode(), indent=2).decode()
    return escape(text)


def object_path(kind: str, store: str, id_: str) -> str:
    """Return the path of the page of an object; a level is shown by its product."""
    page = "product" if kind == "level" else kind
    return f"/mirror/{page}/{quote(store, safe='')}/{quote(id_, safe='')}"


def stock_path(store: str, sku: str) -> str:
    """Return the path of the list of stock with one SKU of a store."""
    return f"/stock?{urlencode({'where': Filter(store=store, sku=sku).in_words()})}"


def reason_words(reason: str, subject: str = "") -> str:
    """Return the class of a reason in quarantine in words."""
    return ReasonClass(reason).in_words(subject)


def is_whole(text: str) -> bool:
    """Return True for a text that an input of numbers can show."""
    digits = text.removeprefix("-")
    return text == "" or (digits.isascii() and digits.isdigit() and len(digits) < 16)


def as_json(value: object) -> str:
    """Return a value as JSON with indentation."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


FILTERS: Mapping[str, Callable[..., Any]] = {
    "ago": ago,
    "as_json": as_json,
    "at": at,
    "badge": badge,
    "bare": as_text,
    "is_whole": is_whole,
    "measure": measure,
    "money": money,
    "number": number,
    "platform_word": platform_word,
    "pretty": pretty,
    "rate": rate,
    "sentence": sentence,
    "when": when,
    "with_times": with_times,
}
"""The filters of the templates."""
