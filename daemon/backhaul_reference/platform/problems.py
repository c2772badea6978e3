"""Error responses as RFC 9457 problem documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TITLES = {
    400: "The request cannot be understood",
    401: "The caller is not known",
    403: "The caller may not do this",
    404: "There is no such thing",
    405: "The method is not offered here",
    409: "The present state does not allow this",
    413: "The body is too large",
    415: "The media type is not accepted",
    422: "The request is not valid",
    429: "Too many requests",
    500: "The server failed",
    503: "The server cannot do this now",
}


class Problem(Exception):
    """One refusal: a status, a stable code, a sentence, and members of its own."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.members = {
            name.removesuffix("_").replace("_", "-") if name.endswith("_") else name: v
            for name, v in members.items()
        }

    def document(self, *, instance: str, request_id: str) -> dict[str, Any]:
        return {
            "type": f"https://errors.example/{self.code}",
            "title": TITLES.get(self.status, "The request failed"),
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            "code": self.code,
            "requestId": request_id,
            "errors": [],
            **self.members,
        }


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing wrong with a body or query: where, which kind, and a sentence."""

    pointer: str
    code: str
    detail: str

    def document(self) -> dict[str, str]:
        return {"pointer": self.pointer, "code": self.code, "detail": self.detail}


TELLING = ("READ_ONLY", "VARIANT_REQUIRED")
"""Codes of flaws that name the whole problem where there is no other flaw."""


def invalid(flaws: Sequence[Flaw]) -> Problem:
    """Return a 422 that lists one or more flaws."""
    codes = {flaw.code for flaw in flaws}
    code = next((one for one in TELLING if codes == {one}), "VALIDATION_ERROR")
    count = len(flaws)
    detail = "1 member is not valid" if count == 1 else f"{count} members are not valid"
    return Problem(422, code, detail, errors=[flaw.document() for flaw in flaws])


def not_found(kind: str, named: str = "") -> Problem:
    """Return a 404; `named` is the requested id, never a token."""
    noun = kind.lower()
    detail = f"there is no {noun} {named[:64]}" if named else f"there is no such {noun}"
    return Problem(404, f"{kind}_NOT_FOUND", detail)
