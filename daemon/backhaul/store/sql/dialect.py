"""Fragments of SQL that each engine writes its own way, and JSON documents.

The common text holds a mark for each fragment, and `render` replaces the marks by what
one engine's table of fragments gives. Everything else in the text runs on SQLite 3.40
and PostgreSQL 15 alike.

A JSON column may hold a damaged document on SQLite, where it is text: a member of it is
then NULL, so that one damaged row never stops a query over all rows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


Fragments: TypeAlias = "Mapping[str, Callable[..., str]]"
"""From the name of a fragment to a function from its arguments to SQL."""
_MARK = re.compile("⟦([a-z_]+)¦([^⟦⟧]*)⟧")


def _mark(name: str, *arguments: str) -> str:
    return f"⟦{name}¦{'¦'.join(arguments)}⟧"


def member(column: str, path: str) -> str:
    """Return SQL for a text member of a document, such as `$.order_id`."""
    return _mark("member", column, path)


def number(column: str, path: str) -> str:
    """Return SQL for a whole number in a document, such as `$.delta`."""
    return _mark("number", column, path)


def flag(column: str, path: str) -> str:
    """Return SQL for a yes or no in a document, as a condition."""
    return _mark("flag", column, path)


def has(column: str, path: str) -> str:
    """Return SQL that is true where a document has a member that is not null."""
    return _mark("has", column, path)


def elements(column: str, path: str) -> str:
    """Return a table of an array's elements; each has one column, `value`."""
    return _mark("elements", column, path)


def document(column: str) -> str:
    """Return SQL for a document; it is empty where it is damaged or NULL."""
    return _mark("document", column)


def contains(text: str, part: str) -> str:
    """Return a condition that a text contains another one; both are SQL."""
    return _mark("contains", text, part)


def ascii_text(column: str) -> str:
    """Return SQL for bytes as text; only its ASCII letters are certain."""
    return _mark("ascii_text", column)


def same_letters(left: str, right: str) -> str:
    """Return a condition that two texts differ at most in capitals of ASCII."""
    return _mark("same_letters", left, right)


def epoch(column: str) -> str:
    """Return SQL for the seconds since 1970 of a time kept as text, with fractions."""
    return _mark("epoch", column)


def later(column: str, seconds: float | str) -> str:
    """Return SQL for a time kept as text, moved by seconds; it has milliseconds.

    `seconds` is a number, or SQL for a number.
    """
    return _mark("later", column, str(seconds))


def new_id(column: str) -> str:
    """Return the end of an INSERT of one row, whose `lastrowid` is then this column."""
    return _mark("new_id", column)


NEXT_NUMBER = _mark("next_command_number")
"""SQL for the next number: commands and stock targets are numbered together.

Several members of a cluster never get the same one. The numbers of a store grow,
because one member after another plans for it.
"""
BATCH = _mark("batch")


def batch(statement: str) -> str:
    """Mark a statement for `executemany` whose sets of values concern different rows.

    It is an INSERT … VALUES, UPDATE or DELETE of one row. An engine may run it for all
    sets at once.
    """
    return BATCH + statement


def hint(text: str) -> str:
    """Return a hint for SQLite's planner; other engines leave it out."""
    return _mark("hint", text)


def least(*values: str) -> str:
    """Return SQL for the smallest of values; none of them is NULL."""
    return _mark("least", *values)


def greatest(*values: str) -> str:
    """Return SQL for the greatest of values; none of them is NULL."""
    return _mark("greatest", *values)


def same(left: str, right: str) -> str:
    """Return SQL that is true where two values are equal, or both NULL."""
    return _mark("same", left, right)


def render(sql: str, fragments: Fragments) -> str:
    """Return a statement with its marks replaced, the innermost first."""
    while True:
        done = _MARK.sub(lambda m: fragments[m[1]](*m[2].split("¦")), sql)
        if done == sql:
            return done
        sql = done


class Damaged(ValueError):
    """What is needed to decide about a row cannot be read; the text says of what."""


def document_of(text: str | bytes | None) -> dict[str, Any]:
    """Return a document; it is empty where it is damaged, or where there is none."""
    return _read(text or b"{}") or {}


def is_document(text: str | bytes) -> bool:
    """Tell a document from what is damaged; it may be empty."""
    return _read(text) is not None


def as_bytes(text: str) -> bytes:
    """Return the bytes of a document; none if it is damaged text."""
    return text.encode() if type(text) is str else b""


def intact(text: str) -> str:
    """Return a key of a document as it is. Raises Damaged if it is no whole text."""
    if type(text) is not str:
        raise Damaged(f"{text!r} is damaged")
    return text


def is_damaged(value: object) -> bool:
    """Return True if a value of a column is damaged text."""
    return isinstance(value, str) and type(value) is not str


def _read(text: str | bytes) -> dict[str, Any] | None:
    if is_damaged(text):
        return None
    try:
        found = msgspec.json.decode(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
