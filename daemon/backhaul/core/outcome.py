"""Classifies what a response to a command proves."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping


class Outcome(Enum):
    """Outcome of an attempt, as far as it is known."""

    CONFIRMED = "confirmed"
    """2xx of the expected shape."""
    NEVER_SENT = "never_sent"
    """Proved that no byte of the request reached the platform."""
    UNCERTAIN = "uncertain"
    """It may have taken effect, or may still do so."""
    REJECTED = "rejected"
    """The platform refused it for good."""
    THROTTLED = "throttled"
    """429: wait; this is not a failed attempt."""
    STOPPED = "stopped"
    """The store's send switch is off: nothing is sent until a read works."""
    HELD = "held"
    """The order waits for the merchant's confirmation."""
    WITHOUT_MEMBER = "without_member"
    """The platform does not know an optional member: send again without it."""
    PARKED = "parked"
    """An operator must decide."""
    DEFERRED = "deferred"
    """Refused, and the object could not be read: retry later."""
    CHECK_ABSENT = "check_absent"
    """404: refused for good only if a read confirms it."""
    CHECK_EFFECT = "check_effect"
    """409: applied if the object shows the same effect; else an operator decides."""
    OVERTAKEN = "overtaken"
    """The stock differs from what the adjustment assumed: compute it again."""


class Verdict(Struct, frozen=True):
    """An outcome with its reason, in words for operators."""

    outcome: Outcome
    reason: str
    retry_after_seconds: float | None = None
    member: str | None = None
    only_kind: bool = False
    """Whether only commands of this kind are blocked."""


OPTIONAL_MEMBERS: Mapping[str, frozenset[str]] = {
    "fulfill": frozenset(),
    "cancel": frozenset({"reason", "note"}),
    "adjust": frozenset({"note", "expectedStock"}),
}
"""Members the specification does not show and an effect does not depend on."""

_REFUSALS = {400, 405, 410, 413, 415, 422}
_NAMING = (
    r"""["'`\u201c\u2018]{}["'`\u201d\u2019]""",
    r"[/.]{}\b",
    r"^{}(?:\W*$|\s*:|\s+(?:is|was|not|must|may|cannot)\b)",
    r"(?i:\b(?:unknown|unexpected|unsupported|invalid|fields?|members?|property|"
    r"properties|parameters?|attributes?|keys?)\W{{1,3}}(?:\w+,\s*)*){}\b",
)
"""How a sentence names a member whose name is also an English word."""
_IDEMPOTENCY_UNCERTAIN = {
    (409, "IDEMPOTENCY_IN_PROGRESS"),
    (422, "IDEMPOTENCY_KEY_REUSED"),
}
_NAMED_CONFLICTS = {
    "ORDER_AWAITING_CONFIRMATION": Outcome.HELD,
    "STOCK_CHANGED": Outcome.PARKED,
    "INSUFFICIENT_STOCK": Outcome.PARKED,
}


def classify_refusal(
    kind: str,
    status: int,
    problem: Mapping[str, object] | None,
    retry_after_seconds: float | None = None,
) -> Verdict:
    """Classify a response other than 2xx to a command of `kind`.

    `problem` is the response's JSON object. It is None if the response does not come
    from the platform itself (a proxy, a wrong prefix, a deployment).
    """
    said = f"{status} {describe(problem)}".rstrip()
    if status == 429:
        return Verdict(Outcome.THROTTLED, said, retry_after_seconds)
    if (status, code_of(problem)) in _IDEMPOTENCY_UNCERTAIN:
        return Verdict(Outcome.UNCERTAIN, said)
    if status in {401, 403} or 300 <= status < 400:
        only_kind = status == 403 and code_of(problem) == "INSUFFICIENT_SCOPE"
        return Verdict(Outcome.STOPPED, said, only_kind=only_kind)
    if status == 409 and problem is not None:
        named = _NAMED_CONFLICTS.get(code_of(problem), Outcome.CHECK_EFFECT)
        return Verdict(named, said)
    if status in _REFUSALS or status in {404, 409}:
        return _judge_refusal(kind, status, problem, said)
    return Verdict(Outcome.UNCERTAIN, said)


def _judge_refusal(
    kind: str, status: int, problem: Mapping[str, object] | None, said: str
) -> Verdict:
    if problem is None:
        reason = f"{said}, without the platform's JSON: is something in between?"
        return Verdict(Outcome.STOPPED, reason)
    if status == 404:
        return Verdict(Outcome.CHECK_ABSENT, said)
    if status in {400, 422}:
        if (member := _named(problem, OPTIONAL_MEMBERS[kind])) is not None:
            return Verdict(Outcome.WITHOUT_MEMBER, said, member=member)
        if kind == "adjust" and _named(problem, frozenset({"variantId"})):
            return Verdict(Outcome.PARKED, said)
    return Verdict(Outcome.REJECTED, said)


def code_of(problem: Mapping[str, object] | None) -> str:
    """Return the error's code in upper case, or an empty text."""
    if problem is None:
        return ""
    error = problem.get("error")
    nested = error.get("code") if isinstance(error, dict) else error
    code = problem.get("code") or nested
    # One word may be a sentence ("no"); a code is several, joined.
    is_code = isinstance(code, str) and ("_" in code or code is not error)
    return str(code).upper() if is_code and " " not in str(code) else ""


def describe(problem: Mapping[str, object] | None) -> str:
    """Return the error's own words for operators: code, detail and each member."""
    if problem is None:
        return ""
    words = [code_of(problem), *_sentences(problem)]
    return ": ".join(word for word in words if word)[:500]


def _sentences(problem: Mapping[str, object]) -> list[str]:
    error = problem.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    texts = [problem.get("detail"), message, problem.get("message")]
    first = next((text for text in texts if isinstance(text, str)), "")
    members = [
        f"{entry.get('pointer')} {entry.get('detail')}"
        for entry in _entries(problem)
        if entry.get("pointer")
    ]
    scopes = problem.get("requiredScopes")
    needs = [str(scope) for scope in scopes] if isinstance(scopes, list) else []
    return [first, *members, *(["needs " + ", ".join(needs)] if needs else [])]


def _entries(problem: Mapping[str, object]) -> list[Mapping[str, object]]:
    errors = problem.get("errors")
    return (
        [e for e in errors if isinstance(e, dict)] if isinstance(errors, list) else []
    )


def _named(problem: Mapping[str, object], members: frozenset[str]) -> str | None:
    pointers = {str(entry.get("pointer", ""))[1:] for entry in _entries(problem)}
    if pointers - {""}:
        return next(iter(sorted(pointers & members)), None)
    sentences = _sentences(problem)
    said = (m for m in sorted(members) if any(_names(text, m) for text in sentences))
    return next(said, None)


def _names(text: str, member: str) -> bool:
    """Return True if a sentence names a member, and does not only use its word.

    Else "please note that it is archived" would end all notes.
    """
    if member != member.lower():
        return re.search(rf"\b{member}\b", text) is not None
    return any(re.search(form.format(member), text) for form in _NAMING)
