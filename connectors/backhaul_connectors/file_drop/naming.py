"""Names of files: which are for us, and which must never be touched."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul_connectors.file_drop.parsing import Form

ARCHIVE, HELD, REJECTED = "archive", "held", "rejected"
EXPORTED = "exported"
UNFINISHED = (".tmp", ".part")
DONE = ".done"

_LEADING_ELSEWHERE = re.compile(r"[/\\\0]")
_CHOICE = re.compile(r"\{([^{}]*)\}")


def form_of(name: str, forms: Sequence[Form]) -> Form | None:
    """Return what a file of this name holds; None for one that is not for us."""
    lower = name.lower()
    # A server may say what it likes; a name with a slash would lead elsewhere.
    if _LEADING_ELSEWHERE.search(name):
        return None
    if lower.startswith(".") or lower.endswith((*UNFINISHED, DONE)):
        return None
    return next((form for form in forms if matches(lower, form.pattern)), None)


def matches(lower: str, pattern: str) -> bool:
    """Tell whether the name fits; `{csv,xlsx}` in a pattern is either of them."""
    choice = _CHOICE.search(pattern)
    if choice is None:
        return fnmatchcase(lower, pattern.lower())
    before, after = pattern[: choice.start()], pattern[choice.end() :]
    return any(
        matches(lower, f"{before}{each}{after}") for each in choice[1].split(",")
    )


def free_name(name: str, number: int) -> str:
    """Return the name for the copy of that number: `courier-2.csv`."""
    if number == 1:
        return name
    stem, dot, ending = name.rpartition(".")
    return f"{stem}-{number}.{ending}" if dot and stem else f"{name}-{number}"


def unfinished_name(name: str) -> str:
    """Return what a file is called while it is written; nobody takes such a one."""
    return f".{name}.tmp"


def own_folders(exports: str) -> tuple[str, ...]:
    """Return the folders we make; those for exports only where there are any."""
    return (ARCHIVE, HELD, REJECTED, *((exports, EXPORTED) if exports else ()))
