"""Forms: the fields of a page as the JSON document that the control API reads."""

from collections.abc import Sequence

from multidict import MultiMapping

from backhaul_reference.documents import Document

Form = MultiMapping[object]


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
    try:
        return int(typed) if len(typed) <= 18 else typed
    except ValueError:
        return typed


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
) -> Document:
    """The members that were filled in; a box that is not ticked is false."""
    found: Document = {name: text(form, name) for name in words}
    found |= {name: number(form, name) for name in numbers}
    sent = {name: value for name, value in found.items() if value is not None}
    return sent | {name: name in form for name in flags}
