"""A store's API key in a file: whoever replaces it there need not restart us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loguru import logger
from pydantic import SecretStr

from backhaul.core.identity import fingerprint
from backhaul.settings.secret_files import Unreadable, read_secret_file
from backhaul.settings.values import check_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from backhaul.shop.transport import Transport


class KeyFile:
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
        self._told = ""

    def renew(self) -> bool:
        """Use the key that stands in the file now; tell whether it is another one."""
        try:
            text = read_secret_file(self._path, private=True).strip()
            check_secret(SecretStr(text))
        except (Unreadable, ValueError) as error:
            self._tell_unusable(str(error))
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

    def _tell_unusable(self, problem: str) -> None:
        if problem != self._told:
            self._told = problem
            logger.bind(action="store.key_unusable", store=self._store).warning(
                "store {}: the API key cannot be read again from {}: {}",
                self._store,
                self._path,
                problem,
            )
