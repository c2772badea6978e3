"""Checks that a message comes from the courier: by a signature, or by a secret token.

Sources: docs.easypost.com/docs/webhooks, www.aftership.com/docs/tracking/webhook/
webhook-signature, and for others the documents that their presets name.
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

    from backhaul_connectors.courier.settings import Settings, Signature
    from backhaul_sdk import HttpRequest

EASYPOST_PREFIX = "hmac-sha256-hex="


def is_genuine(settings: Settings, request: HttpRequest, now: float) -> bool:
    """Return True if a message is signed with one of the secrets and is recent.

    `now` is in seconds since 1970.
    """
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
        return _is_signed(keys, request.body, _hex, [given], EASYPOST_PREFIX)
    time, path = (request.headers.get(name, "") for name in ("x-timestamp", "x-path"))
    said = f"{time}{request.method.upper()}{path}"
    signed = said.encode("utf-8", "surrogateescape") + request.body
    genuine = _is_signed(keys, signed, _hex, [given], EASYPOST_PREFIX)
    return genuine and _is_recent(_seconds_of_date(time), now, settings)


def _aftership(settings: Settings, request: HttpRequest, now: float) -> bool:
    given = request.headers.get("aftership-hmac-sha256", "")
    return _is_signed(_keys(settings.secrets), request.body, _base64, [given])


def _sendcloud(settings: Settings, request: HttpRequest, now: float) -> bool:
    given = request.headers.get("sendcloud-signature", "")
    return _is_signed(_keys(settings.secrets), request.body, _hex, [given])


def _generic(settings: Settings, request: HttpRequest, now: float) -> bool:
    return METHODS[settings.signature.method](settings, request, now)


def _by_hmac(settings: Settings, request: HttpRequest, now: float) -> bool:
    how = settings.signature
    given, time = _signatures_and_time(how, request)
    signed, recent = request.body, True
    if how.signs_time:
        signed = f"{time}.".encode("utf-8", "surrogateescape") + request.body
        recent = _is_recent(_seconds_of(time), now, settings)
    genuine = _is_signed(
        _keys(settings.secrets), signed, _encoder(how), given, how.prefix
    )
    return genuine and recent


def _by_digest(settings: Settings, request: HttpRequest, now: float) -> bool:
    """Check the SHA-256 of the body, a slash and the secret."""
    how = settings.signature
    encode = _encoder(how)
    digests = [
        hashlib.sha256(b"%b/%b" % (request.body, key)).digest()
        for key in _keys(settings.secrets)
    ]
    given = request.headers.get(how.header.lower(), "")
    return _is_one_of([how.prefix + encode(each) for each in digests], [given])


def _by_token(settings: Settings, request: HttpRequest, now: float) -> bool:
    """Check the secret itself, in a parameter of the URL or in a header."""
    how = settings.signature
    given = (
        request.query.get(how.parameter, "")
        if how.parameter
        else request.headers.get(how.header.lower(), "")
    )
    tokens = [how.prefix + each.get_secret_value() for each in settings.secrets]
    return _is_one_of(tokens, [given])


CHECKS: Mapping[str, Callable[[Settings, HttpRequest, float], bool]] = {
    "easypost": _easypost,
    "aftership": _aftership,
    "sendcloud": _sendcloud,
    "generic": _generic,
}
METHODS: Mapping[str, Callable[[Settings, HttpRequest, float], bool]] = {
    "hmac": _by_hmac,
    "sha256": _by_digest,
    "token": _by_token,
}


def _signatures_and_time(
    how: Signature, request: HttpRequest
) -> tuple[Sequence[str], str]:
    """Return the signatures and the signed time; the time is empty if it is missing.

    A courier that replaces its secret can sign a message with both secrets: then the
    header has several parts with the name of the signature.
    """
    given = request.headers.get(how.header.lower(), "")
    if not how.signature_part:
        return [given], request.headers.get(how.timestamp_header.lower(), "")
    parts = [part.strip().partition("=") for part in given.split(",")]
    wanted = how.signature_part
    signatures = [value for name, _, value in parts if name == wanted]
    times = {name: value for name, _, value in parts}
    return signatures, times.get(how.timestamp_part, "")


def _is_signed(
    keys: Sequence[bytes],
    signed: bytes,
    encode: Callable[[bytes], str],
    given: Sequence[str],
    prefix: str = "",
) -> bool:
    digests = [hmac.new(key, signed, hashlib.sha256).digest() for key in keys]
    return _is_one_of([prefix + encode(each) for each in digests], given)


def _is_one_of(expected: Sequence[str], given: Sequence[str]) -> bool:
    """Compare each with each, so that the duration does not show which one matches."""
    genuine = False
    for text in given:
        presented = text.strip().encode("utf-8", "surrogateescape")
        for each in expected:
            genuine |= hmac.compare_digest(each.encode(), presented)
    return genuine


def _keys(secrets: Sequence[SecretStr]) -> list[bytes]:
    return [each.get_secret_value().encode() for each in secrets]


def _encoder(how: Signature) -> Callable[[bytes], str]:
    return _hex if how.encoding == "hex" else _base64


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
