"""Names of files: which are for us, and which must never be touched."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backhaul_connectors.file_drop.parsing import Form

ARCHIVE, HELD, REJECTED = "archive", "held", "rejected"
EXPORTED = "exported"
REASON = ".reason.txt"
"""What follows the name of a held file in the name of the file that says why."""

_LEADING_ELSEWHERE = re.compile(r"[/\\\0]")
_CHOICE = re.compile(r"\{([^{}]*)\}")


class Names:
    """What the name of a file says about it, by the settings.

    `unfinished` are patterns of files that are still written. `done_file` is what the
    marker of a complete file is called: `{name}` stands for the file's whole name,
    `{stem}` for its name without the ending.
    """

    def __init__(
        self, forms: Sequence[Form], unfinished: Sequence[str], done_file: str
    ) -> None:
        self.forms = forms
        self._unfinished = unfinished
        self._done_file = done_file
        self._any_marker = done_file.format(name="*", stem="*").lower()

    def form_of(self, name: str) -> Form | None:
        """Return what a file of this name holds; None for one that is not for us."""
        # A server may say what it likes; a name with a slash would lead elsewhere.
        if leads_elsewhere(name) or name.startswith("."):
            return None
        if self.is_unfinished(name) or self.is_marker(name):
            return None
        lower = name.lower()
        return next((form for form in self.forms if matches(lower, form.pattern)), None)

    def is_unfinished(self, name: str) -> bool:
        """Tell whether the name is that of a file that is still written."""
        return any(matches(name.lower(), pattern) for pattern in self._unfinished)

    def is_marker(self, name: str) -> bool:
        """Tell whether a file of this name says that another file is complete."""
        return fnmatchcase(name.lower(), self._any_marker)

    def marker_of(self, name: str) -> str:
        """Return the name of the file that says that this one is complete."""
        stem, dot, _ = name.rpartition(".")
        return self._done_file.format(name=name, stem=stem if dot and stem else name)


def leads_elsewhere(name: str) -> bool:
    """Tell whether the name could stand for a file in another folder."""
    return _LEADING_ELSEWHERE.search(name) is not None


def matches(lower: str, pattern: str) -> bool:
    """Tell whether the name fits; `{csv,xlsx}` in a pattern is either of them."""
    return any(fnmatchcase(lower, each.lower()) for each in alternatives(pattern))


def alternatives(pattern: str) -> Iterator[str]:
    """Yield the patterns that one with choices stands for, each without a choice."""
    choice = _CHOICE.search(pattern)
    if choice is None:
        yield pattern
        return
    before, after = pattern[: choice.start()], pattern[choice.end() :]
    for each in choice[1].split(","):
        yield from alternatives(f"{before}{each}{after}")


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
