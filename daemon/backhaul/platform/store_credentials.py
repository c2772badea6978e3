"""A store's API key, the webhook secrets of its platform, and sealed secrets."""

from __future__ import annotations

import base64
import os
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from loguru import logger
from pydantic import SecretStr

from backhaul.core.identity import fingerprint
from backhaul.errors import ConfigurationError, Finding
from backhaul.settings.secret_files import SecretFileError, read_secret_file
from backhaul.settings.values import check_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from backhaul.platform.transport import Transport
    from backhaul.store.operations import SealedSecrets


GIVEN = "guardian"
"""Origin of secrets that the platform issued with a subscription."""
KEPT = 3
"""Previous secrets to keep: deliveries signed with them may still arrive."""
NONCE_BYTES = 12


class Keyring(Protocol):
    """The webhook secrets that the platform issued for one store, the newest first."""

    async def load(self) -> list[bytes]:
        """Return all secrets. May raise Busy; ConfigurationError without their key."""
        ...

    async def keep(self, secret: bytes) -> list[bytes]:
        """Add a secret durably; return all. May raise Busy."""
        ...


class WebhookSecretFile(Keyring):
    """Secrets in a file of this machine; `hide` keeps them out of the log."""

    def __init__(
        self, state_dir: Path, store: str, hide: Callable[[Iterable[str]], None]
    ) -> None:
        self._path = state_dir / "secrets" / store
        self._hide = hide
        self._hide([secret.decode() for secret in self.secrets()])

    def secrets(self) -> list[bytes]:
        """Return the stored secrets, the newest first."""
        try:
            return self._path.read_bytes().split()
        except FileNotFoundError:
            return []

    async def load(self) -> list[bytes]:
        return self.secrets()

    async def keep(self, secret: bytes) -> list[bytes]:
        self._hide([secret.decode()])
        kept = _with(secret, self.secrets())
        write_secrets(self._path, kept)
        return kept


def write_secrets(path: Path, secrets: list[bytes]) -> None:
    """Replace a file of secrets, one on each line; only its owner can read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_suffix(".new")
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(b"\n".join(secrets) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _with(secret: bytes, known: list[bytes]) -> list[bytes]:
    return [secret, *(each for each in known if each != secret)][:KEPT]


class SecretCipher:
    """Seals secrets for the database with keys that only the machines have.

    The first key seals, and each key opens what it has sealed. AES-GCM also protects
    the name of the store, so nobody can give one store the secrets of another.
    """

    def __init__(self, keys: Sequence[SecretStr]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # slow

        texts = (key.get_secret_value().encode() for key in keys)
        self._ciphers = [AESGCM(sha256(text).digest()) for text in texts]

    def seal(self, store: str, secrets: list[bytes]) -> str:
        nonce = os.urandom(NONCE_BYTES)
        text = b"\n".join(secrets)
        sealed = self._ciphers[0].encrypt(nonce, text, store.encode())
        return base64.b64encode(nonce + sealed).decode()

    def open(self, store: str, sealed: str) -> list[bytes]:
        """Return a store's secrets. Raises ConfigurationError if no key fits."""
        found = self.find(store, sealed)
        if found is not None:
            return found[1]
        problem = (
            f"the webhook secrets of store {store} in the database were sealed with"
            " another key"
        )
        hint = "give all machines a file with the same keys"
        raise ConfigurationError(
            [Finding("configuration", "cluster.key", problem, hint)]
        )

    def find(self, name: str, sealed: str) -> tuple[int, list[bytes]] | None:
        """Return the number of the key that fits, from 0, and the secrets; or None."""
        from cryptography.exceptions import InvalidTag

        token = base64.b64decode(sealed)
        nonce, rest = token[:NONCE_BYTES], token[NONCE_BYTES:]
        for number, cipher in enumerate(self._ciphers):
            try:
                return number, cipher.decrypt(nonce, rest, name.encode()).split()
            except InvalidTag:
                continue
        return None


class SharedKeyring(Keyring):
    """Secrets in the database, which every daemon on it can open.

    `left` returns the secrets in the file of this machine, from a time without a key.
    They are used if the database has none.
    """

    def __init__(
        self,
        store: str,
        sealed: SealedSecrets,
        cipher: SecretCipher,
        hide: Callable[[Iterable[str]], None],
        left: Callable[[], list[bytes]] = list,
    ) -> None:
        self._store = store
        self._sealed = sealed
        self._cipher = cipher
        self._hide = hide
        self._left = left

    async def load(self) -> list[bytes]:
        sealed = await self._sealed.get(self._store)
        if sealed is None:
            secrets = self._left()
            if secrets:
                await self._sealed.adopt(self._store, self._seal(secrets))
            return secrets
        secrets = self._cipher.open(self._store, sealed)
        self._hide([secret.decode() for secret in secrets])
        return secrets

    async def keep(self, secret: bytes) -> list[bytes]:
        self._hide([secret.decode()])
        kept = _with(secret, await self.load())
        await self._sealed.put(self._store, self._seal(kept))
        return kept

    def _seal(self, secrets: list[bytes]) -> str:
        return self._cipher.seal(self._store, secrets)


class ApiKeyFile:
    """Reads the key again; `hide` keeps it out of the log."""

    def __init__(
        self,
        store: str,
        path: Path,
        transport: Transport,
        hide: Callable[[Iterable[str]], None],
    ) -> None:
        self._store = store
        self._path = path
        self._transport = transport
        self._hide = hide
        self._reported = ""

    def reload(self) -> bool:
        """Use the key in the file; return True if it is another one."""
        try:
            text = read_secret_file(self._path, private=True).strip()
            check_secret(SecretStr(text))
        except (SecretFileError, ValueError) as error:
            self._log_unusable(str(error))
            return False
        if fingerprint(text) == self._transport.key_fingerprint:
            return False
        self._hide([text])
        self._transport.use_key(text)
        logger.bind(action="store.key_replaced", store=self._store).info(
            "store {}: {} holds another API key; it is used from now on",
            self._store,
            self._path,
        )
        return True

    def _log_unusable(self, problem: str) -> None:
        if problem != self._reported:
            self._reported = problem
            logger.bind(action="store.key_unusable", store=self._store).warning(
                "store {}: the API key cannot be read again from {}: {}",
                self._store,
                self._path,
                problem,
            )
