"""Only one function changes the state of a command."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from backhaul.store import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

SETS_STATE = re.compile(
    r"UPDATE\s+commands\s+SET\s+(?:(?!WHERE).)*?\bstate\s*=\s*[:?'{]"
)
CASES = re.compile(r"CASE\b.*?\bEND\b")


def texts() -> Iterator[tuple[str, str]]:
    folder = Path(sql.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant | ast.JoinedStr):
                text = " ".join(ast.unparse(node).replace("\\n", " ").split())
                yield path.name, CASES.sub("", text)


def test_no_other_statement_sets_a_state() -> None:
    found = {name for name, text in texts() if SETS_STATE.search(text)}
    assert found == set()


def test_such_a_statement_would_be_found() -> None:
    assert SETS_STATE.search("UPDATE commands SET reason = :reason, state = :state")
    assert not SETS_STATE.search(
        "UPDATE commands SET hold_reason = 'dry_run' WHERE state = 'planned'"
    )
