"""Refusals: a form that was refused is shown again, with what to mend beside it."""

import re
from dataclasses import dataclass, field

from backhaul_reference.dashboard.forms import Form
from backhaul_reference.problems import Problem

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
    """`/rates/2/price` is a form's `price2`, `/customer/email` its `email`."""
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
    """What to mend, in words that do not speak of schemas."""
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
    """For each field that must be mended, what is wrong with it."""
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
class Filling:
    """What the forms of a page show: what was typed into the one that was refused."""

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
        """The element of a field; the list of flaws leads to it."""
        return f"field-{name}" if self.here else f"field-{self.number}-{name}"

    def value(self, name: str, otherwise: object) -> object:
        shown = "" if otherwise is None else otherwise
        return self.form.get(name, shown) if self.here else shown

    def ticked(self, name: str, value: str, otherwise: bool) -> bool:
        return value in self.form.getall(name, []) if self.here else otherwise

    def flaw(self, name: str) -> str | None:
        return self.flaws.get(name) if self.here else None
