"""Finds in a module's source the names that few or no modules may use."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET_NAME = re.compile(r"signature|hmac", re.IGNORECASE)
DIGEST_CALLS = {"digest", "hexdigest"}

Use = tuple[int, str]


def uses(source: str) -> Iterator[Use]:
    """Yield (line, dotted name) of everything imported or built in that is used."""
    tree = ast.parse(source)
    aliases = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            head, _, rest = dotted(node).partition(".")
            if head in aliases:
                yield node.lineno, f"{aliases[head]}.{rest}".rstrip(".")
            elif isinstance(node, ast.Name):
                yield node.lineno, node.id
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{a.name}") for a in node.names)


def imported(tree: ast.Module) -> dict[str, str]:
    """Return what each imported name stands for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                found[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for such an expression; empty for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := dotted(node.value)):
        return f"{head}.{node.attr}"
    return ""


def leaky_comparisons(source: str) -> Iterator[int]:
    """Yield the lines where a signature or computed digest is compared by `==`.

    Such a comparison takes longer the more of a forged value is right;
    `hmac.compare_digest` does not. Comparing with a literal tells nobody anything,
    and a stored digest of content, which is no secret, may be compared.
    """
    if not re.search(f"digest|{SECRET_NAME.pattern}", source, re.IGNORECASE):
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        equality = any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
        literal = any(isinstance(side, ast.Constant) for side in sides)
        if equality and not literal and any(map(is_secret, sides)):
            yield node.lineno


def is_secret(side: ast.expr) -> bool:
    """Tell whether a value, or the call that makes it, is named like a secret one."""
    if isinstance(side, ast.Call):
        return getattr(side.func, "attr", "") in DIGEST_CALLS or is_secret(side.func)
    owner, _, last = dotted(side).rpartition(".")
    return bool(SECRET_NAME.search(last)) and not owner[:1].isupper()


def trusts_anybody(source: str) -> Iterator[int]:
    """Yield the lines in which asyncssh does not check the host key."""
    if "known_hosts" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        given: list[tuple[str | None, ast.expr]] = []
        if isinstance(node, ast.Call):
            given = [(each.arg, each.value) for each in node.keywords]
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            given = [
                (str(key.value), value)
                for key, value in pairs
                if isinstance(key, ast.Constant)
            ]
        for name, value in given:
            nothing = isinstance(value, ast.Constant) and not value.value
            if name == "known_hosts" and nothing:
                yield value.lineno


def stores_jobs(source: str) -> Iterator[int]:
    """Yield the lines in which APScheduler is given a store, or a name of one."""
    if "jobstore" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "add_jobstore":
            yield node.lineno
        elif isinstance(node, ast.keyword) and node.arg == "jobstores":
            yield node.value.lineno
