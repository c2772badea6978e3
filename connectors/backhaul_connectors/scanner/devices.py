"""Which device a request comes from."""

from __future__ import annotations

import hmac
import stat
from typing import TYPE_CHECKING

from backhaul_connectors.scanner.settings import parse_tokens, problem_of
from backhaul_sdk import CheckFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import SecretStr

    from backhaul_connectors.scanner.settings import Settings

OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Devices:
    """The tokens of all devices; shows none of them."""

    def __init__(self, tokens: Mapping[str, SecretStr]) -> None:
        self._tokens = tokens

    def __repr__(self) -> str:
        return f"Devices({', '.join(self._tokens)})"

    def of(self, headers: Mapping[str, str]) -> str | None:
        """Return the device whose token is given, or None."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        found = self.of_token(given)
        return found if scheme.lower() == "bearer" else None

    def of_token(self, given: str) -> str | None:
        """Return the device that this token belongs to, or None."""
        presented = given.strip().encode("utf-8", "surrogateescape")
        found = None
        # Every token is compared, so that the time tells nothing about any.
        for name, token in self._tokens.items():
            expected = token.get_secret_value().encode("utf-8")
            if hmac.compare_digest(presented, expected):
                found = name
        return found


def read_devices(settings: Settings) -> Devices:
    """Return the devices of the settings and of the file. Raises CheckFailed."""
    tokens = dict(settings.devices)
    if settings.tokens_file is not None:
        tokens |= _read(settings.tokens_file)
    if problem := problem_of(tokens):
        raise CheckFailed(problem)
    return Devices(tokens)


def _read(file: Path) -> dict[str, SecretStr]:
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or "unknown"
        raise CheckFailed(f"{file} cannot be read: {reason.lower()}") from None
    except UnicodeDecodeError:
        # The error itself would show the bytes around the place.
        raise CheckFailed(f"{file} is not UTF-8 text") from None
    if mode & OPEN_TO_OTHERS:
        raise CheckFailed(f"{file} is open to group or others: chmod 600 {file}")
    try:
        tokens = parse_tokens(text)
    except ValueError as error:
        raise CheckFailed(f"{file}: {error}") from None
    if not tokens:
        raise CheckFailed(f"{file} names no device; write a line name=token for each")
    return tokens
