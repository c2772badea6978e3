"""Recognizes codes that were typed through another keyboard layout.

A scanner that acts as a keyboard sends keys, not characters. On a computer with another
layout they become other characters: `BH-CLOSE` arrives as `BHßCLOSE`.
"""

from __future__ import annotations

import re

_ROWS = {
    "French": "&é\"'(-è_çà",
    "Belgian": "&é\"'(§è!çà",
    "Czech": "+ěščřžýáíé",
    "Slovak": "+ľščťžýáíé",
    "US with Shift": "!@#$%^&*()",
    "German with Shift": '!"§$%&/()=',
}
"""The characters of the keys 1, 2, … 9, 0."""
_LETTERS = {
    "French": ("QWERTYUIOPASDFGHJKLZXCVBNM", "AZERTYUIOPQSDFGHJKLWXCVBN?"),
    **dict.fromkeys(("German", "Czech", "Slovak", "Hungarian"), ("YZ", "ZY")),
    "Russian": (
        "QWERTYUIOPASDFGHJKLZXCVBNM",
        "ЙЦУКЕНГШЩЗФЫВАПРОЛДЯЧСМИТЬ",
    ),
    "Greek": (
        "QWERTYUIOPASDFGHJKLZXCVBNM",
        ":ΣΕΡΤΥΘΙΟΠΑΣΔΦΓΗΞΚΛΖΧΨΩΒΝΜ",
    ),
}
_MINUS = {
    "German": "ß",
    "French": ")",
    "Belgian": ")",
    "Czech": "=",
    "Slovak": "=",
    "Spanish or Italian": "'",
    "Nordic or Polish": "+",
    "Hungarian": "ü",
    "Turkish": "*",
}
_SOME_ROW_CHARACTERS = 3
_SEPARATORS = re.compile(r"[^0-9A-Za-z]|6")
"""The characters of the key `-`; 6 if the scanner itself has the French layout."""


def command_in(code: str, commands: frozenset[str]) -> str | None:
    """Return the control code that was scanned, in any layout."""
    text = "".join(c.upper() if len(c.upper()) == 1 else c for c in code)
    separator = text[2:3]
    for layout in ("", *_LETTERS):
        command = f"{_decoded(text[:2], layout)}-{_decoded(text[3:], layout)}"
        if command in commands and _SEPARATORS.fullmatch(separator):
            return command
    return None


def garbled(code: str) -> tuple[str, str] | None:
    """Return layout and true text of a code with digits in a wrong layout.

    Only certain cases count: no digit, and half or more of the characters are those
    that a layout has on its digit keys.
    """
    if any(character.isdigit() for character in code):
        return None
    for layout, row in _ROWS.items():
        typed = sum(character in row and character not in "-_'" for character in code)
        if typed >= _SOME_ROW_CHARACTERS and 2 * typed >= len(code):
            return layout, _decoded(code, layout)
    return None


def readings(code: str) -> list[tuple[str, str]]:
    """Return (layout, text) of every other meaning of the same keys."""
    names = dict.fromkeys((*_MINUS, *_ROWS, *_LETTERS))
    found = {_decoded(code, name): name for name in reversed(names)}
    return [(name, text) for text, name in found.items() if text != code]


def words(code: str, layout: str, text: str) -> str:
    """Return what happened and what to do, for the person with the scanner."""
    return (
        f"{code!r} looks like {text!r} sent through another keyboard layout "
        f"({layout}): set scanner and computer to the same layout, then scan it again"
    )


def _decoded(code: str, layout: str) -> str:
    table = {typed: str((n + 1) % 10) for n, typed in enumerate(_ROWS.get(layout, ""))}
    true, typed = _LETTERS.get(layout, ("", ""))
    for one, other in zip(true, typed, strict=True):
        table |= {other: one, other.lower(): one.lower()}
    if layout in _MINUS:
        table[_MINUS[layout]] = "-"
    return "".join(table.get(character, character) for character in code)
