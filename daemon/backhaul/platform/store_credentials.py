"""Files of a store's API key and of the webhook secrets it issued."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from loguru import logger
from pydantic import SecretStr

from backhaul.core.identity import fingerprint
from backhaul.settings.secret_files import SecretFileError, read_secret_file
from backhaul.settings.values import check_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from backhaul.platform.transport import Transport


GIVEN = "guardian"
"""Origin of secrets that the platform issued with a subscription."""
KEPT = 3
"""Previous secrets to keep: deliveries signed with them may still arrive."""


class WebhookSecretFile:
    """Secrets of one store, the newest first; `hide` keeps them out of the log."""

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

    def keep(self, secret: bytes) -> None:
        """Store a secret durably before anything relies on it."""
        self._hide([secret.decode()])
        kept = [secret, *(s for s in self.secrets() if s != secret)][:KEPT]
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = self._path.with_suffix(".new")
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(b"\n".join(kept) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._path)


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
