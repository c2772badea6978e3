"""Turns form fields into JSON documents and shows validation errors."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from multidict import MultiMapping

from backhaul_reference.dashboard.rendering import zone_of
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Flaw, Problem, invalid

Form = MultiMapping[object]
MOST_ROWS = 200
NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
NO_LETTER = "\ufffd"
"""The replacement character for undecodable bytes."""


def text(form: Form, name: str) -> str | None:
    """Return the text of a field, or None if it is empty."""
    value = form.get(name)
    stripped = value.strip() if isinstance(value, str) else ""
    return stripped or None


def number(form: Form, name: str) -> int | str | None:
    """Return an integer; other text stays text, which the schema rejects."""
    typed = text(form, name)
    if typed is None:
        return None
    return int(typed) if NUMBER.fullmatch(typed) else typed


def instant(typed: str | None, timezone: str) -> str | None:
    """Convert the store's local time to UTC; text that is not a time stays as typed."""
    try:
        local = datetime.fromisoformat(typed) if typed else None
    except ValueError:
        return typed
    if local is None or local.tzinfo is not None:
        return typed
    moment = local.replace(tzinfo=zone_of(timezone)).astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def lines(form: Form, name: str) -> list[str]:
    """Split a field at lines and commas."""
    typed = (text(form, name) or "").replace(",", "\n")
    return [line.strip() for line in typed.splitlines() if line.strip()]


def texts(form: Form, name: str) -> list[str]:
    return [one for one in form.getall(name, []) if isinstance(one, str) and one]


def document(
    form: Form,
    *,
    words: Sequence[str] = (),
    numbers: Sequence[str] = (),
    flags: Sequence[str] = (),
    clearing: bool = False,
) -> Document:
    """Return the filled-in fields as members; an unticked checkbox is false.

    With `clearing`, an empty field becomes null, which clears the member."""
    found: Document = {name: text(form, name) for name in words}
    found |= {name: number(form, name) for name in numbers}
    sent = {
        name: value
        for name, value in found.items()
        if value is not None or (clearing and name in form)
    }
    return sent | {name: name in form for name in flags}


def require(form: Form, *names: str) -> None:
    """Reject a form in which one of these fields is empty."""
    empty = [name for name in names if text(form, name) is None]
    if empty:
        raise invalid([Flaw(f"/{name}", "REQUIRED", "is required") for name in empty])


def require_readable_text(form: Form) -> None:
    """Reject a form with undecodable or truncated text."""
    names = {k: None for k, v in form.items() if isinstance(v, str) and NO_LETTER in v}
    detail = "contains a character that cannot be read; type it again"
    if names:
        raise invalid([Flaw(f"/{name}", "BAD_LETTERS", detail) for name in names])


def require_numbers(form: Form, *names: str) -> None:
    """Reject a form in which one of these fields is neither empty nor an integer."""
    wrong = [name for name in names if isinstance(number(form, name), str)]
    detail = "must be a whole number"
    if wrong:
        raise invalid([Flaw(f"/{name}", "WRONG_TYPE", detail) for name in wrong])


def rows(form: Form, *marks: str) -> list[int]:
    """Return the numbers of the form's rows in which one of these fields is filled."""
    return [
        n
        for n in range(MOST_ROWS)
        if any(text(form, f"{mark}{n}") is not None for mark in marks)
    ]


def row(form: Form, n: int, *names: str, clearing: bool = False) -> Document:
    """Return the members of one numbered row."""
    sent = {f"{name}{n}" for name in names}
    found = document(form, words=sorted(sent), clearing=clearing)
    return {name: found[f"{name}{n}"] for name in names if f"{name}{n}" in found}


def renumbered(problem: Problem, member: str, numbers: Sequence[int]) -> Problem:
    """Return the problem with list positions replaced by the form's row numbers."""
    for kind in ("errors", "items"):
        found = problem.members.get(kind)
        if found is not None:
            problem.members[kind] = [_moved(one, member, numbers) for one in found]
    return problem


def _moved(flaw: Document, member: str, numbers: Sequence[int]) -> Document:
    parts = str(flaw.get("pointer", "")).split("/")
    if len(parts) < 3 or parts[1] != member or not parts[2].isdigit():
        return flaw
    parts[2] = str(numbers[int(parts[2])])
    return {**flaw, "pointer": "/".join(parts)}


def renamed(problem: Problem, **names: str) -> Problem:
    """Return the problem with members replaced by the form's field names."""
    for flaw in problem.members.get("errors") or ():
        name = flaw["pointer"].removeprefix("/")
        flaw["pointer"] = "/" + names.get(name, name)
    return problem


GROUPS = {"customer", "shippingAddress", "customerAccounts", "totals"}
PAYMENT = {"cod": "cod", "customQr": "qr"}
TAKEN = {
    "HANDLE_TAKEN": ("handle", "Something else has this handle; choose another"),
    "SKU_TAKEN": ("sku", "Another variant has this SKU; choose another"),
    "EMAIL_TAKEN": ("email", "Another customer has this address"),
    "CODE_TAKEN": ("code", "Another discount has this code; choose another"),
    "SUBDOMAIN_TAKEN": ("subdomain", "Another store has it; choose another"),
    "DUPLICATE_EXTERNAL_ID": ("externalId", "It is used already; choose another"),
}
FORMATS = {
    "country": "Must be two letters, like IN",
    "countries": "Each must be two letters, like IN",
    "currency": "Must be three capital letters, like INR",
    "handle": "May hold small letters and digits, with single dashes between",
    "subdomain": "May hold small letters, digits and dashes, at most 63 in all",
    "phone": "May hold digits, spaces and + ( ) . / - only, at least 3",
    "trackingPage": "Must be a web address with {token} in it",
    "logo": "Must begin with http://, https:// or data:image/",
    "url": "Must begin with http:// or https://",
    "address": "Must be an http or https address without a password in it",
    "startsAt": "Must be a date and a time",
    "endsAt": "Must be a date and a time",
    "expiresAt": "Must be a date and a time",
}
SENTENCES = {
    "REQUIRED": "Fill this in",
    "TOO_SHORT": "Fill this in",
    "BAD_MONEY": "Must be an amount like 1499.00",
}
PLAIN_REQUIRED = ("Field required", "is required")
SCHEMA_WORDS = re.compile(r"^(?:Input|String|List|Dictionary|Value) should ")


def field_of(pointer: str) -> str:
    """Return a form's field: `price2` for `/rates/2/price`."""
    parts = [part for part in pointer.split("/") if part]
    if len(parts) > 1 and parts[0] in GROUPS:
        parts = parts[1:]
    if parts[:1] == ["paymentSettings"] and len(parts) == 3:
        return PAYMENT.get(parts[1], parts[1]) + parts[2].capitalize()
    numbers = [part for part in parts if part.isdigit()]
    if len(parts) > 2 and numbers:
        return parts[2] + parts[1]
    return parts[0] if parts else ""


def sentence(name: str, code: str, detail: str) -> str:
    """Return an error message for a merchant, without terms of JSON schema."""
    stem = name.rstrip("0123456789")
    schema = SCHEMA_WORDS.search(detail) or detail in PLAIN_REQUIRED
    if code == "BAD_FORMAT" and stem in FORMATS:
        return FORMATS[stem]
    if schema and code == "WRONG_TYPE":
        return "Must be a whole number"
    if schema or code == "BAD_MONEY":
        detail = SENTENCES.get(code) or SCHEMA_WORDS.sub("Must ", detail)
    return detail[:1].upper() + detail[1:]


def flaws_of(problem: Problem | None) -> dict[str, str]:
    """Return the error message of each invalid field."""
    if problem is None:
        return {}
    if problem.code in TAKEN:
        name, told = TAKEN[problem.code]
        return {name: told}
    found: dict[str, str] = {}
    for flaw in problem.members.get("errors") or ():
        name = field_of(flaw["pointer"])
        found.setdefault(name, sentence(name, flaw["code"], flaw["detail"]))
    for item in problem.members.get("items") or ():
        if "available" in item:
            name = field_of(item["pointer"] + "/quantity")
            found.setdefault(name, f"Only {item['available']} left")
    return found


@dataclass(slots=True)
class FormState:
    """Values and errors that a page's forms show after one of them was rejected."""

    path: str
    form: Form
    problem: Problem | None
    flaws: dict[str, str] = field(init=False)
    here: bool = False
    number: int = 0

    def __post_init__(self) -> None:
        self.flaws = flaws_of(self.problem)

    def refused(self, action: str) -> bool:
        return self.problem is not None and action == self.path

    def begin(self, action: str) -> str:
        """Called by the form's macro before its fields are shown."""
        self.here = self.refused(action)
        self.number += 1
        return ""

    def id(self, name: str) -> str:
        """Return the element id of a field; the list of errors links to it."""
        return f"field-{name}" if self.here else f"field-{self.number}-{name}"

    def value(self, name: str, otherwise: object) -> object:
        shown = "" if otherwise is None else otherwise
        return self.form.get(name, shown) if self.here else shown

    def ticked(self, name: str, value: str, otherwise: bool) -> bool:
        return value in self.form.getall(name, []) if self.here else otherwise

    def flaw(self, name: str) -> str | None:
        return self.flaws.get(name) if self.here else None
