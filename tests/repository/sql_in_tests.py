"""Finds SQL in the string literals of a module."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SQL = re.compile(
    r"\b(SELECT\s|UPDATE \w|INSERT( OR \w+)? INTO\b|DELETE FROM\b|PRAGMA\b"
    r"|(CREATE|ALTER|DROP) (TABLE|INDEX|VIEW|TRIGGER)\b)"
)


RAW = {"rows", "rows_with_names", "write", "opened"}
"""What `scenes.databases` has for tests of the store: each takes SQL."""


def raw_access(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of each import by which a test can run SQL."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "scenes.databases":
            names = {alias.name for alias in node.names}
            yield from ((node.lineno, name) for name in sorted(names & RAW))


def sql_literals(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each literal with SQL; `X` stands for what is filled in."""
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) for part in _parts(node)}
    for node in ast.walk(tree):
        if id(node) not in parts and SQL.search(text := _text(node)):
            yield node.lineno, " ".join(text.split())  # type: ignore[attr-defined]  # a literal has a line


def _parts(node: ast.AST) -> list[ast.expr]:
    return node.values if isinstance(node, ast.JoinedStr) else []


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "X" for part in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""
