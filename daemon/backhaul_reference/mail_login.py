"""Who we are to the SMTP server, and how that is kept from others."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Tls = Literal["auto", "starttls", "tls", "off"]
USER = "BACKHAUL_REFERENCE_SMTP_USER"
PASSWORD = "BACKHAUL_REFERENCE_SMTP_PASSWORD"  # noqa: S105  - a name, no password
OTHERS_MAY_READ = 0o077


class MailLoginError(Exception):
    """The login cannot be used; the message says why and never quotes it."""


@dataclass(frozen=True, slots=True)
class Login:
    """A user of the SMTP server."""

    user: str
    password: str = field(repr=False)


def login_of(file: Path | None, environment: Mapping[str, str]) -> Login | None:
    """The file's two lines, else the two variables, else nobody."""
    if file is not None:
        return _of_file(file)
    found = [environment.get(name, "") for name in (USER, PASSWORD)]
    if not any(found):
        return None
    if not all(found):
        raise MailLoginError(f"{USER} and {PASSWORD} are set together or not at all")
    return Login(*found)


def _of_file(file: Path) -> Login:
    try:
        with file.open(encoding="utf-8") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            lines = opened.read().splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise MailLoginError(f"--smtp-login {file}: {reason}") from None
    if mode & OTHERS_MAY_READ:
        raise MailLoginError(
            f"--smtp-login {file}: others may read it; chmod 600 {file}"
        )
    if len(lines) != 2 or not all(lines):
        raise MailLoginError(
            f"--smtp-login {file}: must be two lines, the user and the password"
        )
    return Login(*lines)
