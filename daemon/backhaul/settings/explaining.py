"""Says what pydantic found in plain words, without ever quoting a value."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from backhaul.errors import Finding
from backhaul.settings.fields import is_secret, leaf_at, secret_names, section_at
from backhaul.settings.values import NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

    from backhaul.settings.fields import Path

WHOLE_NUMBER, NUMBER, TABLE = "a whole number", "a number", "a table"
EXPECTED = {
    "int_parsing": WHOLE_NUMBER,
    "int_type": WHOLE_NUMBER,
    "int_from_float": WHOLE_NUMBER,
    "int_parsing_size": WHOLE_NUMBER,
    "float_parsing": NUMBER,
    "float_type": NUMBER,
    "finite_number": NUMBER,
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text in quotes",
    "path_type": "a path in quotes",
    "list_type": "a list",
    "tuple_type": "a list",
    "model_type": TABLE,
    "model_attributes_type": TABLE,
    "dict_type": TABLE,
}
TEMPLATES = {
    "missing": "is missing",
    "extra_forbidden": "unknown setting",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be {expected}",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "value_error": "{error}",
}
NO_NAME = "is not a name: lower-case letters, digits and _ only"


def explain(
    error: ValidationError, model: type[BaseModel], also_known: Iterable[str] = ()
) -> list[Finding]:
    """Return a finding without source for each error; keys are relative to `model`.

    `also_known` are names outside the model that a misspelled key may have meant.
    """
    return [
        _finding(details, model, also_known)
        for details in error.errors(include_url=False, include_input=False)
    ]


def _finding(
    details: ErrorDetails, model: type[BaseModel], also_known: Iterable[str]
) -> Finding:
    path, entry = _split(details["loc"])
    problem = _problem(details)
    if entry is not None:
        problem = f"entry {entry + 1} {problem}"
    hint = _hint(details["type"], path, model, also_known)
    return Finding("", ".".join(path), problem, hint)


def _split(location: tuple[int | str, ...]) -> tuple[Path, int | None]:
    """Return the keys, and the position within a list if there is one."""
    keys = tuple(key for key in location if isinstance(key, str) and key != "[key]")
    positions = [key for key in location if isinstance(key, int)]
    return keys, positions[0] if positions else None


def _problem(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if context.get("pattern") == NAME_PATTERN:
        return NO_NAME
    if kind in EXPECTED:
        return f"must be {EXPECTED[kind]}"
    if kind in TEMPLATES:
        return TEMPLATES[kind].format_map(_worded(context))
    return details["msg"]


def _worded(context: dict[str, Any]) -> dict[str, str]:
    words = {key: str(value) for key, value in context.items()}
    return words | {"expected": words.get("expected", "").replace("'", '"')}


def _hint(
    kind: str, path: Path, model: type[BaseModel], also_known: Iterable[str]
) -> str:
    section = section_at(path[:-1], model)
    if kind == "extra_forbidden" and section:
        names = [*section.model_fields, *also_known]
        names += [f"{name}_file" for name in secret_names(section)]
        return did_you_mean(path[-1], names)
    info = leaf_at(path, model)
    if kind == "missing" and info:
        if is_secret(info):
            return f"give {path[-1]} or {path[-1]}_file"
        return (info.description or "").rstrip(".")
    if path == ("stores",) and kind in {"missing", "too_short"}:
        return "begin with a table [stores.main]"
    return ""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return the name that was probably meant, or all there are."""
    known = sorted(set(names))
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
