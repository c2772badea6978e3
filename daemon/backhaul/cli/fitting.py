"""Lines that fit a terminal: none wraps, what is to be typed is whole, lists end."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import force_setattr, replace
from rich.cells import cell_len, set_cell_size

from backhaul.core.printable import printable

LABEL_WIDTH = 18
ARROW = "  > "
_LEAST_SAID = 12
"""Columns of a sentence below which its command stands on a line of its own."""


class Line(Struct, frozen=True):
    """What something is called, what there is to say, and what one may type.

    `state` gives it its color. What strangers wrote cannot steer the terminal.
    """

    label: str
    says: str
    type: str = ""
    state: str = ""

    def __post_init__(self) -> None:
        for name in ("label", "says", "type"):
            force_setattr(self, name, printable(getattr(self, name)))


class Section(Struct, frozen=True):
    """Lines of one kind; `all_of` is what shows all, where there is no room.

    What is urgent gives way last.
    """

    lines: list[Line]
    all_of: str = ""
    urgent: bool = False


def fit(sections: list[Section], width: int, height: int) -> list[Line]:
    """Return as many lines as there is room for, each cut to the width.

    The longest list is shortened first. What is to be typed is never cut: where it
    leaves no room for the rest it stands below.
    """
    kept = [len(section.lines) for section in sections]
    while len(shown := _shown(sections, kept, width)) > height:
        longest = _longest(sections, kept)
        if longest is None:
            break
        kept[longest] -= 1
    return shown


def _longest(sections: list[Section], kept: list[int]) -> int | None:
    """Return the place of the list that gives way next; each keeps its first line."""
    able = [place for place, number in enumerate(kept) if number > 1]
    patient = [place for place in able if not sections[place].urgent]
    return max(patient or able, key=lambda place: kept[place], default=None)


def _shown(sections: list[Section], kept: list[int], width: int) -> list[Line]:
    shown: list[Line] = []
    for section, number in zip(sections, kept, strict=True):
        lines = section.lines[:number]
        if left := len(section.lines) - number:
            lines.append(Line("", f"and {left} more", section.all_of))
        for line in lines:
            shown += _within(line, width)
    return shown


def _within(line: Line, width: int) -> list[Line]:
    label, room = cut(line.label, LABEL_WIDTH), width - LABEL_WIDTH - 1
    beside = room - len(ARROW) - len(line.type) if line.type else room
    if beside >= min(_LEAST_SAID, cell_len(line.says)):
        return [replace(line, label=label, says=cut(line.says, beside))]
    return [Line(label, cut(line.says, room), "", line.state), Line("", "", line.type)]


def cut(text: str, width: int) -> str:
    """Return the text, or as much of it as fits with the mark that it goes on."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)) + "…"


def packed(pieces: list[str], width: int, between: str = "; ") -> list[str]:
    """Return the pieces on as few lines as they need."""
    lines: list[str] = []
    for piece in pieces:
        if lines and len(lines[-1]) + len(between + piece) <= width:
            lines[-1] += between + piece
        else:
            lines.append(piece)
    return lines
