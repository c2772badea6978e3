"""Forms: the fields of a page as the JSON document that the control API reads."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from multidict import MultiMapping

from backhaul_reference.dashboard.rendering import zone_of
from backhaul_reference.documents import Document
from backhaul_reference.problems import Flaw, Problem, invalid

Form = MultiMapping[object]
MOST_ROWS = 200
NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
NO_LETTER = "\ufffd"
"""What stands where the bytes that came are no letter."""


def text(form: Form, name: str) -> str | None:
    """What was typed, or None for nothing."""
    value = form.get(name)
    stripped = value.strip() if isinstance(value, str) else ""
    return stripped or None


def number(form: Form, name: str) -> int | str | None:
    """An integer; anything else stays text, which the schema refuses."""
    typed = text(form, name)
    if typed is None:
        return None
    return int(typed) if NUMBER.fullmatch(typed) else typed


def instant(typed: str | None, timezone: str) -> str | None:
    """The store's local time as an instant; what is no time stays as it was typed."""
    try:
        local = datetime.fromisoformat(typed) if typed else None
    except ValueError:
        return typed
    if local is None or local.tzinfo is not None:
        return typed
    moment = local.replace(tzinfo=zone_of(timezone)).astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def lines(form: Form, name: str) -> list[str]:
    """One entry for each line or comma."""
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
    """The members that were filled in; a box that is not ticked is false.

    With `clearing` a field that was sent empty is null, which clears it."""
    found: Document = {name: text(form, name) for name in words}
    found |= {name: number(form, name) for name in numbers}
    sent = {
        name: value
        for name, value in found.items()
        if value is not None or (clearing and name in form)
    }
    return sent | {name: name in form for name in flags}


def require(form: Form, *names: str) -> None:
    """Refuse a form in which one of these is empty."""
    empty = [name for name in names if text(form, name) is None]
    if empty:
        raise invalid([Flaw(f"/{name}", "REQUIRED", "is required") for name in empty])


def require_letters(form: Form) -> None:
    """Refuse a form whose words were written in another encoding, or cut."""
    names = {k: None for k, v in form.items() if isinstance(v, str) and NO_LETTER in v}
    detail = "holds a letter that cannot be read; type it again"
    if names:
        raise invalid([Flaw(f"/{name}", "BAD_LETTERS", detail) for name in names])


def require_numbers(form: Form, *names: str) -> None:
    """Refuse a form in which one of these holds something, and no whole number."""
    wrong = [name for name in names if isinstance(number(form, name), str)]
    detail = "must be a whole number"
    if wrong:
        raise invalid([Flaw(f"/{name}", "WRONG_TYPE", detail) for name in wrong])


def rows(form: Form, *marks: str) -> list[int]:
    """Which numbered rows of a form were filled in, by the fields that tell."""
    return [
        n
        for n in range(MOST_ROWS)
        if any(text(form, f"{mark}{n}") is not None for mark in marks)
    ]


def row(form: Form, n: int, *names: str, clearing: bool = False) -> Document:
    """The members of one numbered row."""
    sent = {f"{name}{n}" for name in names}
    found = document(form, words=sorted(sent), clearing=clearing)
    return {name: found[f"{name}{n}"] for name in names if f"{name}{n}" in found}


def renumbered(problem: Problem, member: str, numbers: Sequence[int]) -> Problem:
    """The problem with a list's places as the form numbers its rows."""
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
    """The problem with members as the form calls them."""
    for flaw in problem.members.get("errors") or ():
        name = flaw["pointer"].removeprefix("/")
        flaw["pointer"] = "/" + names.get(name, name)
    return problem
