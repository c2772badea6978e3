"""Old words that the glossary replaced: a list, and what finds them in names and prose.

Run `PYTHONPATH=tests python -m docs.words [FOLDER...]` to print every place.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
CODE = ("daemon", "connectors")
NOT_YET = ("daemon/backhaul/store",)
"""Folders whose names and prose are not held to the glossary yet."""

INSTEAD = {
    "acquaintance": "store identity",
    "anew": "again",
    "asking": "refetch or query",
    "beat": "heartbeat",
    "deaf": "unreachable",
    "deed": "audit entry",
    "deeds": "audit entries",
    "desk": "context, endpoint or outbox",
    "door": "send switch",
    "doubt": "conflict or uncertain",
    "doubtful": "uncertain",
    "doubts": "conflicts or uncertain",
    "drain": "fold worker",
    "fence": "hold for audit",
    "fenced": "on hold",
    "forget": "erase",
    "forgetting": "erasure",
    "forgotten": "erased",
    "gate": "send window",
    "gates": "send windows",
    "guardian": "subscription manager",
    "guest": "customer",
    "guests": "customers",
    "hear": "record effects",
    "hears": "records effects",
    "insist": "retry until stored",
    "landed": "took effect",
    "landing": "effect",
    "lands": "takes effect",
    "levers": "test controls",
    "lives": "timelines",
    "look": "check or poll",
    "looked": "checked",
    "looks": "checks",
    "marks": "key-value state",
    "meeting": "first contact",
    "mend": "edit or repair",
    "mended": "edited or repaired",
    "mending": "edit or repair",
    "mischief": "fault plan",
    "news": "change notifications",
    "persons": "customers or operators",
    "pulse": "heartbeat",
    "reckon": "calculate",
    "reckoned": "calculated",
    "refold": "reprocess",
    "refolding": "reprocess",
    "rehearsal": "dry run",
    "rehearse": "dry run",
    "rehearsing": "dry run",
    "reread": "refetch",
    "rereading": "refetch",
    "rereads": "refetches",
    "roll": "registry",
    "settle": "resolve",
    "settled": "resolved",
    "settler": "resolver",
    "settles": "resolves",
    "settling": "resolving",
    "shelf": "stock snapshot",
    "shelves": "stock snapshots",
    "strangers": "foreign",
    "sweep": "full sync",
    "sweeping": "full sync",
    "sweeps": "full syncs",
    "tell": "log, notify or report",
    "telling": "report",
    "tells": "logs, notifies or reports",
    "told": "logged, notified or reported",
    "vain": "failed",
    "walk": "full sync or pass",
    "walking": "pass",
    "walks": "full syncs or passes",
    "whom": "the noun",
}
"""A word that no name may have as a part, and what to write instead."""

PHRASES = {
    r"\banew\b": "again",
    r"\bas is told\b": "as reported",
    r"\bby hand\b": "manually",
    r"\bby itself\b(?! )": "automatically",
    r"\bcannot be told\b": "cannot be determined",
    r"\bhas it that\b": "says",
    r"\bholds? \w+ against\b": "compares with",
    r"\bin doubt\b": "uncertain, or conflicting",
    r"\bin vain\b": "without success",
    r"\b(is|are|was|were|be|been) looked (for|at|after|up)\b": "is checked",
    r"\b(is|are|was|were|be|been) told\b": "is logged, notified or reported",
    r"\b(is|are) no (JSON|number|time|date|text|file|folder|name)\b": "is not a …",
    r"\blooks? (at|for|after|whether|what)\b": "checks, polls or searches",
    r"\bmakes? true\b": "applies",
    r"\bmade true\b": "applied",
    # In quotes it is a key of the alert webhook.
    r"(?<!\")\bmends?(ed|ing)?\b": "repair, fix or edit",
    r"\bno longer ago\b": "at most … ago",
    r"\bno more\b(?! than)": "no longer",
    r"\bnobody but\b": "only",
    r"\bof before\b": "previous",
    r"\bof ours\b": "our",
    r"\bof which no\b": "with no",
    r"\breckon(s|ed|ing)?\b": "calculate",
    r"\bset aside\b": "quarantined, or on hold",
    r"\bstands? in\b": "is listed in",
    r"\bthat one's\b": "name it",
    r"\bthat is none\b": "that is not a …",
    r"\bthe news\b": "the change notifications",
    r"\b(was|were|is|are) handed (in|out|over|on)\b": "is submitted, or delivered",
    r"\bwhat (is|was|are|were) told\b": "what is reported",
    r"\bwhat is wanted\b": "the goal",
    r"\bwho(m)? may\b": "who is allowed to",
    r"\bwhoever\b": "anyone who",
}
"""A pattern that prose does not have, and what to write instead."""

_PATTERNS = [(re.compile(pattern, re.I), to) for pattern, to in PHRASES.items()]
_SEGMENT = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Fault(NamedTuple):
    """An old word: `where` is path and line, `instead` what the glossary says."""

    where: str
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text!r}: write {self.instead}"


def modules(*folders: str) -> list[Path]:
    """Return the modules of folders (all that are held to the glossary by default)."""
    found = [
        path
        for folder in folders or CODE
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    if folders:
        return found
    return [path for path in found if not _name(path).startswith(NOT_YET)]


def pages() -> list[Path]:
    """Return the pages of prose that are held to the glossary."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(path for path in found if not _name(path).startswith(NOT_YET))


def name_faults(path: Path) -> Iterator[Fault]:
    """Yield the old words in the names that a module gives."""
    yield from in_name(path.stem, _name(path))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, Function | ast.ClassDef):
            yield from in_name(node.name, f"{_name(path)}:{node.lineno}")


def in_name(name: str, where: str) -> Iterator[Fault]:
    """Yield the old words in a name: of code, a setting, a command or a log action."""
    for part in _SEGMENT.findall(name):
        if instead := INSTEAD.get(part.lower()):
            yield Fault(where, name, instead)


def prose_faults(path: Path) -> Iterator[Fault]:
    """Yield the old phrases in a page, or in a module's texts and comments."""
    texts = _texts(path) if path.suffix == ".py" else _paragraphs(path)
    for line, text in texts:
        flat = " ".join(text.split())
        for pattern, instead in _PATTERNS:
            for found in pattern.finditer(flat):
                start = max(0, found.start() - 30)
                around = flat[start : found.end() + 20]
                yield Fault(f"{_name(path)}:{line}", around, instead)


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    first, comment = 0, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, text = token.start[0], token.string.lstrip("# ")
        if comment and line == first + comment.count("\n") + 1:
            comment += "\n" + text
        else:
            if comment:
                yield first, comment
            first, comment = line, text
    if comment:
        yield first, comment


def _paragraphs(path: Path) -> Iterator[tuple[int, str]]:
    line = 1
    for paragraph in path.read_text().split("\n\n"):
        yield line, paragraph
        line += paragraph.count("\n") + 2


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def main(folders: list[str]) -> None:
    """Print every old word under some folders, or everywhere."""
    found = [fault for path in modules(*folders) for fault in name_faults(path)]
    found += [fault for path in modules(*folders) for fault in prose_faults(path)]
    if not folders:
        found += [fault for path in pages() for fault in prose_faults(path)]
    for fault in found:
        sys.stdout.write(f"{fault}\n")
    sys.stdout.write(f"{len(found)} old words\n")


if __name__ == "__main__":
    main(sys.argv[1:])
