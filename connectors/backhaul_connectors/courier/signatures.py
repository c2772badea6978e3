"""Verifies a message: its signature, and its time if the time is signed.

Each signature is computed over the received bytes and compared in constant time. A
missing signature is compared like a wrong one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import unicodedata
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pydantic import SecretStr

    from backhaul_connectors.courier.settings import Settings
    from backhaul_sdk import HttpRequest

EASYPOST_PREFIX = "hmac-sha256-hex="


def is_genuine(settings: Settings, request: HttpRequest, now: float) -> bool:
    """Return True if a message is signed with one of the secrets and is recent."""
    return CHECKS[settings.vendor](settings, request, now)


def _easypost(settings: Settings, request: HttpRequest, now: float) -> bool:
    """Check the newer signature over time, method, path and body where it is there."""
    given = request.headers.get("x-hmac-signature-v2")
    keys = [
        unicodedata.normalize("NFKD", each.get_secret_value()).encode()
        for each in settings.secrets
    ]
    if given is None:
        given = request.headers.get("x-hmac-signature", "")
        return _matches(keys, request.body, _hex, given, EASYPOST_PREFIX)
    time, path = (request.headers.get(name, "") for name in ("x-timestamp", "x-path"))
    said = f"{time}{request.method.upper()}{path}"
    signed = said.encode("utf-8", "surrogateescape") + request.body
    genuine = _matches(keys, signed, _hex, given, EASYPOST_PREFIX)
    return genuine and _is_recent(_seconds_of_date(time), now, settings)


def _aftership(settings: Settings, request: HttpRequest, now: float) -> bool:
    given = request.headers.get("aftership-hmac-sha256", "")
    return _matches(_keys(settings.secrets), request.body, _base64, given)


def _sendcloud(settings: Settings, request: HttpRequest, now: float) -> bool:
    given = request.headers.get("sendcloud-signature", "")
    return _matches(_keys(settings.secrets), request.body, _hex, given)


def _generic(settings: Settings, request: HttpRequest, now: float) -> bool:
    how = settings.signature
    given = request.headers.get(how.header.lower(), "")
    encode = _hex if how.encoding == "hex" else _base64
    signed, recent = request.body, True
    if how.timestamp_header:
        time = request.headers.get(how.timestamp_header.lower(), "")
        signed = f"{time}.".encode("utf-8", "surrogateescape") + request.body
        recent = _is_recent(_seconds_of(time), now, settings)
    genuine = _matches(_keys(settings.secrets), signed, encode, given, how.prefix)
    return genuine and recent


CHECKS: Mapping[str, Callable[[Settings, HttpRequest, float], bool]] = {
    "easypost": _easypost,
    "aftership": _aftership,
    "sendcloud": _sendcloud,
    "generic": _generic,
}


def _matches(
    keys: Sequence[bytes],
    signed: bytes,
    encode: Callable[[bytes], str],
    given: str,
    prefix: str = "",
) -> bool:
    presented = given.strip().encode("utf-8", "surrogateescape")
    genuine = False
    # Every key is tried, so that the duration reveals nothing.
    for key in keys:
        made = prefix + encode(hmac.new(key, signed, hashlib.sha256).digest())
        genuine |= hmac.compare_digest(made.encode(), presented)
    return genuine


def _keys(secrets: Sequence[SecretStr]) -> list[bytes]:
    return [each.get_secret_value().encode() for each in secrets]


def _hex(digest: bytes) -> str:
    return digest.hex()


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode("ascii")


def _is_recent(seconds: float | None, now: float, settings: Settings) -> bool:
    return seconds is not None and abs(now - seconds) <= settings.window_seconds


def _seconds_of(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdecimal() else None


def _seconds_of_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
