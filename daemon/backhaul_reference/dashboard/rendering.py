"""Templates and the formatting of values on a page."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from backhaul_reference.platform import formats, json_codec
from backhaul_reference.platform.problems import Problem

SYMBOLS = {"INR": "₹", "USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}
ACRONYMS = {
    "API": "API",
    "API_KEY": "API key",
    "COD": "Cash on delivery",
    "CUSTOM_QR": "Scan & Pay",
    "DASHBOARD": "Staff",
    "DENY": "Stop selling",
    "CONTINUE": "Keep selling",
    "sku": "SKU",
    "zip": "Postcode",
}
TEMPLATES: web.AppKey[Environment] = web.AppKey("templates", Environment)


@cache
def environment() -> Environment:
    """Compile each template once, however many servers a process runs."""
    made = Environment(
        loader=PackageLoader("backhaul_reference.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        when=when,
        local_input=local_input,
        amount=amount,
        words=words,
        label=label,
        pretty=pretty,
    )
    return made


def page(
    request: web.Request, template: str, values: Mapping[str, Any], status: int = 200
) -> web.Response:
    text = request.app[TEMPLATES].get_template(template).render(values)
    return web.Response(text=text, status=status, content_type="text/html")


def error_page(request: web.Request, problem: Problem) -> web.Response:
    values = {"problem": problem}
    answer = page(request, "error.html", values, problem.status)
    answer.headers.update(problem.headers)
    return answer


def when(instant: str | None, timezone: str = "UTC") -> str:
    """Return a time in the store's time zone, for display."""
    if instant is None:
        return "—"
    moment = datetime.fromtimestamp(formats.from_text(instant) / 1000, UTC)
    local = moment.astimezone(zone_of(timezone))
    return f"{local.day} {local:%b %Y, %H:%M}"


def local_input(instant: str | None, timezone: str) -> str:
    """Return a time as the value of a `datetime-local` input."""
    if instant is None:
        return ""
    moment = datetime.fromtimestamp(formats.from_text(instant) / 1000, UTC)
    return f"{moment.astimezone(zone_of(timezone)):%Y-%m-%dT%H:%M:%S}"


def zone_of(name: str) -> tzinfo:
    """Return the named time zone, or UTC if the name is unknown."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def amount(text: str | None, currency: str) -> str:
    if text is None:
        return "—"
    whole, dot, fraction = text.partition(".")
    symbol = SYMBOLS.get(currency, f"{currency} ")
    return f"{symbol}{int(whole):,}{dot}{fraction}"


def words(code: str | None) -> str:
    """`PARTIALLY_FULFILLED` as `Partially fulfilled`."""
    return ACRONYMS.get(code or "—") or (code or "—").replace("_", " ").capitalize()


def label(field: str) -> str:
    """Return the label of a form field such as `usageLimit` or `price2`."""
    if field.startswith("q-"):
        return "Quantity"
    stem = field.rstrip("0123456789")
    if stem == "address":
        stem = field
    number = int(field.removeprefix(stem) or 0)
    spaced = re.sub(r"(?=[A-Z])", " ", stem).lower()
    name = ACRONYMS.get(stem) or spaced[:1].upper() + spaced[1:]
    return f"{name}, row {number + 1}" if field != stem else name


def pretty(body: bytes) -> str:
    """Return JSON with indentation; other text stays unchanged."""
    try:
        return json.dumps(json_codec.decode_stored(body), indent=2, ensure_ascii=False)
    except msgspec.MsgspecError:
        return body.decode("utf-8", "replace")
