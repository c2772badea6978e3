"""Decides whether the sender of a message is allowed, and whether it is the sender."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from backhaul_connectors.file_drop.imap_settings import ANYBODY
from backhaul_connectors.file_drop.mail_parts import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NOT_ALLOWED = (
    "imap.senders does not allow the sender. Add the sender there, or delete the"
    " message"
)
NOT_PROVED = (
    "neither DKIM nor DMARC passed for the sender's domain, so the sender may be"
    " forged. Ask the sender to sign messages, or check imap.authentication"
)
_COMMENT = re.compile(r"\([^()]*\)")
_RESULT = re.compile(r"\s*(?P<method>[\w-]+)\s*=\s*(?P<result>\w+)")
_PROPERTY = re.compile(r"header\.(?P<name>d|i|from)\s*=\s*\"?(?P<value>[^\s;\"]+)")
_FIELD = re.compile(
    rb"^Authentication-Results:(?P<value>.*(?:\r?\n[ \t].*)*)", re.I | re.M
)


def sender_of(envelope: Any) -> str:
    """Return the From address in lower case; empty unless there is exactly one."""
    found: Sequence[Any] = envelope.from_ or ()
    if len(found) != 1 or not found[0].mailbox or not found[0].host:
        return ""
    return f"{text_of(found[0].mailbox)}@{text_of(found[0].host)}".lower()


def is_allowed(address: str, senders: Sequence[str]) -> bool:
    """Return True if the settings have the address or its domain."""
    domain = f"@{address.rpartition('@')[2]}"
    return ANYBODY in senders or (
        address != "" and {address, domain} & {*senders} != set()
    )


def is_authenticated(headers: bytes, server: str, address: str) -> bool:
    """Return True if the mail server verified that the message is from the address.

    Only the first header of `server` counts: the sender wrote those further down.
    """
    domain = address.rpartition("@")[2]
    for name, results in _headers(headers):
        if name == server.lower():
            return domain != "" and any(_proves(each, domain) for each in results)
    return False


def _headers(headers: bytes) -> Iterator[tuple[str, list[str]]]:
    """Yield the server and the results of each Authentication-Results header."""
    for found in _FIELD.finditer(headers):
        text = text_of(found["value"])
        while text != (text := _COMMENT.sub(" ", text)):
            pass
        server, *results = text.split(";")
        # A version may follow the name of the server.
        yield (server.lower().split() or [""])[0], results


def _proves(result: str, domain: str) -> bool:
    found = _RESULT.match(result)
    if found is None or found["result"].lower() != "pass":
        return False
    method = found["method"].lower()
    names = {"dkim": ("d", "i"), "dmarc": ("from",)}.get(method, ())
    return any(
        _covers(each["value"].rpartition("@")[2].lower(), domain)
        for each in _PROPERTY.finditer(result)
        if each["name"] in names
    )


def _covers(signed: str, domain: str) -> bool:
    """Return True if a signature of one domain holds for the other one."""
    return domain == signed or ("." in signed and domain.endswith(f".{signed}"))
