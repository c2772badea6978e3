"""The second factor of users with a password: one-time codes and recovery codes.

The codes are those of RFC 6238 with SHA-1, six digits and steps of 30 seconds, which
every authenticator app knows.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING
from urllib.parse import quote

from markupsafe import Markup
from pydantic import SecretStr

from backhaul.errors import BackhaulError
from backhaul.platform.store_credentials import SecretCipher, write_secrets
from backhaul_sdk.extras import missing_extra

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.settings import Settings
    from backhaul.store.operators import User, Users

STEP_SECONDS, DIGITS = 30, 6
SECRET_BYTES, RECOVERY_BYTES = 20, 10
RECOVERY_CODES = 10
DRIFT_STEPS = (0, -1, 1)
"""Steps around the present one whose codes are accepted: clocks differ a little."""
KEY_FILE = "totp.key"
"""In `state_dir/secrets`; no store has a name with a dot."""
NEEDS_KEY = (
    "a second factor needs a key: on PostgreSQL all machines encrypt its secret with"
    " [cluster] key_file; set it on all machines and restart them"
)


def code_at(secret: str, step: int, digits: int = DIGITS) -> str:
    """Return the code of a secret in base32 at a time step."""
    from cryptography.hazmat.primitives.hashes import SHA1  # slow
    from cryptography.hazmat.primitives.twofactor.hotp import HOTP  # slow

    key = base64.b32decode(secret)
    hotp = HOTP(key, digits, SHA1(), enforce_key_length=False)  # noqa: S303 - RFC 6238
    return hotp.generate(step).decode()


def new_recovery_codes() -> list[str]:
    """Return codes such as `k3vq-7hxa-p2dn-w5me`, of 80 random bits each."""
    texts = (
        base64.b32encode(secrets.token_bytes(RECOVERY_BYTES)).decode().lower()
        for _ in range(RECOVERY_CODES)
    )
    return ["-".join(t[i : i + 4] for i in range(0, len(t), 4)) for t in texts]


def recovery_digest(code: str) -> str:
    """Return the digest of a recovery code, typed with or without hyphens."""
    return hashlib.sha256(_typed(code).encode()).hexdigest()


def recovery_digests(codes: Sequence[str]) -> list[str]:
    return [recovery_digest(code) for code in codes]


def _typed(code: str) -> str:
    return "".join(each for each in code.lower() if each.isalnum() and each.isascii())


def qr_code(name: str, secret: str) -> Markup:
    """Return the QR code that an authenticator app reads, as SVG."""
    import segno  # slow

    label = quote(f"Backhaul:{name}")
    uri = f"otpauth://totp/{label}?secret={secret}&issuer=Backhaul"
    drawn = segno.make(uri, error="m", micro=False)
    return Markup(  # noqa: S704 - it has only the numbers of the drawing
        drawn.svg_inline(omitsize=True, svgclass="qr", lineclass=None, light="#fff")
    )


class SecondFactors:
    """Seals the secrets of second factors, and checks codes, each accepted once."""

    def __init__(self, settings: Settings, users: Users, clock: Clock) -> None:
        self._users = users
        self._clock = clock
        self._keys = settings.cluster.key
        self._is_shared = settings.database.is_server
        self._file = settings.state_dir / "secrets" / KEY_FILE
        self.is_required = settings.admin.require_totp

    def must_set_up(self, user: User) -> bool:
        """Return whether the user has to set up a second factor first."""
        return self.is_required and user.identity is None and user.totp is None

    def new_secret(self) -> str:
        """Return a new secret in base32."""
        return base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode()

    def seal(self, name: str, secret: str) -> str:
        """Seal a secret for the database. Raises BackhaulError without a key."""
        return self._cipher(create=True).seal(_place(name), [secret.encode()])

    def open(self, name: str, sealed: str) -> str:
        """Return a sealed secret. Raises BackhaulError if no key fits."""
        return self._open(name, sealed)[1]

    def _open(self, name: str, sealed: str) -> tuple[int, str]:
        found = self._cipher().find(_place(name), sealed)
        if found is None:
            raise BackhaulError(
                f"the second factor of user {name} is encrypted with a key that"
                f" this machine does not have; restore the key in"
                f" {self._place_of_key()}, or reset the second factor: backhaul"
                f" users reset-totp {name}"
            )
        number, (secret,) = found
        return number, secret.decode()

    def _place_of_key(self) -> str:
        return "[cluster] key_file" if self._is_shared else str(self._file)

    def _cipher(self, *, create: bool = False) -> SecretCipher:
        """Return the cipher: the first key seals. After a move, older keys open."""
        if missing := missing_extra("login"):
            raise BackhaulError(f"a second factor needs {missing}")
        local = _key_in(self._file)
        if create and not (local or self._is_shared):
            local = [secrets.token_urlsafe(32).encode()]
            write_secrets(self._file, local)
        own = [SecretStr(key.decode()) for key in local]
        keys = [*self._keys, *own] if self._is_shared else [*own, *self._keys]
        if not keys or (create and self._is_shared and not self._keys):
            raise BackhaulError(NEEDS_KEY)
        return SecretCipher(keys)

    def step_of(self, secret: str, code: str) -> int | None:
        """Return the step near the present one with this code, or None."""
        now = int(self._clock.now().timestamp()) // STEP_SECONDS
        typed = _typed(code).encode()
        for drift in DRIFT_STEPS:
            if hmac.compare_digest(code_at(secret, now + drift).encode(), typed):
                return now + drift
        return None

    async def accept(self, user: User, code: str) -> bool:
        """Return whether a one-time code or a recovery code is right, and use it up.

        Raises BackhaulError if the secret cannot be opened.
        """
        if user.totp is None:
            return False
        step = self.step_of(self.open(user.name, user.totp), code)
        if step is not None:
            return await self._users.use_totp_step(user.name, step)
        return await self._users.use_recovery_code(user.name, recovery_digest(code))

    async def reseal(self) -> None:
        """Seal all secrets with the first key, if an older one can open them."""
        for user in await self._users.list():
            if user.totp is None:
                continue
            try:
                number, secret = self._open(user.name, user.totp)
            except BackhaulError:  # the login says so
                continue
            if number:
                sealed = self.seal(user.name, secret)
                await self._users.reseal_totp(user.name, user.totp, sealed)


def _place(name: str) -> str:
    return f"totp:{name}"


def _key_in(file: Path) -> list[bytes]:
    try:
        return file.read_bytes().split()
    except FileNotFoundError:
        return []
