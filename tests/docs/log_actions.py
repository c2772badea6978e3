"""Finds every log call of the daemon and its action word."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

DAEMON = Path(__file__).resolve().parents[2] / "daemon/backhaul"
LEVELS = {"trace", "debug", "info", "success", "warning", "error", "critical"}
LEVELS |= {"exception"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class LogCall:
    """A call such as `logger.bind(action="order.folded").info("Constant message")`.

    `actions` are the words it may have: a parameter stands for what the module calls
    the function with, and `*` for what is put into an f-string. None if that is
    unknown. `message` is None unless it is a constant.
    """

    line: int
    level: str
    actions: tuple[str, ...]
    message: str | None


def log_calls(source: str) -> Iterator[LogCall]:
    """Yield the log calls in a module's source."""
    tree = ast.parse(source)
    for node in _calls(tree):
        if not isinstance(node.func, ast.Attribute):
            continue
        method, owner = node.func.attr, node.func.value
        if method in LEVELS and node.args:
            message = _constant(node.args[0])
        elif method == "log" and _root(owner) == "logger" and len(node.args) > 1:
            message = _constant(node.args[1])
        else:
            continue
        action = _bound_action(owner)
        yield LogCall(node.lineno, method, tuple(_words(tree, action)), message)


def actions() -> dict[str, list[str]]:
    """Return every action word of the daemon, with the levels it is logged at."""
    found: dict[str, set[str]] = defaultdict(set)
    for _, call in daemon_log_calls():
        for action in call.actions:
            found[action].add("error" if call.level == "exception" else call.level)
    return {action: sorted(found[action]) for action in sorted(found)}


@cache
def daemon_log_calls() -> tuple[tuple[str, LogCall], ...]:
    """Return each log call of the daemon with the path of its module."""
    return tuple(
        (str(path.relative_to(DAEMON)), call)
        for path in sorted(DAEMON.rglob("*.py"))
        for call in log_calls(path.read_text(encoding="utf-8"))
    )


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _root(node: ast.expr) -> str:
    """Return the name a chain of attributes and calls begins with."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def _bound_action(owner: ast.expr) -> ast.expr | None:
    """Return the `action` of a `.bind(…)` in the chain before the call."""
    while isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute):
        for keyword in owner.keywords if owner.func.attr == "bind" else ():
            if keyword.arg == "action":
                return keyword.value
        owner = owner.func.value
    return None


def _words(tree: ast.AST, value: ast.expr | None) -> Iterator[str]:
    if isinstance(value, ast.IfExp):
        yield from _words(tree, value.body)
        yield from _words(tree, value.orelse)
    elif isinstance(value, ast.JoinedStr):
        yield "".join(_constant(part) or "*" for part in value.values)
    elif isinstance(value, ast.Name):
        yield from _handed_in(tree, value)
    elif value is not None and (word := _constant(value)):
        yield word


def _handed_in(tree: ast.AST, name: ast.Name) -> Iterator[str]:
    """Yield the constants that the function around `name` is called with for it."""
    for function in ast.walk(tree):
        if not isinstance(function, Function) or name not in ast.walk(function):
            continue
        parameters = [each.arg for each in function.args.args if each.arg != "self"]
        for call in _calls(tree) if name.id in parameters else ():
            if ast.unparse(call.func).split(".")[-1] == function.name:
                given = call.args[parameters.index(name.id) :][:1]
                given += [key.value for key in call.keywords if key.arg == name.id]
                yield from filter(None, map(_constant, given))


def _constant(node: ast.expr) -> str | None:
    text = node.value if isinstance(node, ast.Constant) else None
    return text if isinstance(text, str) else None
