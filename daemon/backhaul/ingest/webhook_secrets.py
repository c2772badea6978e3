"""Webhook secrets that are accepted, and when each last signed a delivery."""

from __future__ import annotations

from collections import ChainMap, Counter
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from loguru import logger

from backhaul.errors import Busy, ConfigurationError
from backhaul.ingest.secret_rings import LiveSecrets, SecretRings, secret_fingerprint
from backhaul.platform.store_credentials import GIVEN
from backhaul.runtime.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.platform.store_credentials import Keyring
    from backhaul.store.operations import AuditEntry, SealedSecrets, WebhookSecrets

CHANGE_SECONDS = 1.0
"""How soon a daemon accepts a secret that another one got."""
SAVE_SECONDS = 30.0
"""The interval of saving `last used`; a crash loses at most this much of it."""


class SecretRegistry(SecretRings):
    """The secrets that each store accepts; they are stored, and change at run time."""

    def __init__(
        self,
        kept: WebhookSecrets,
        clock: Clock,
        verified: Counter[tuple[str, ...]] | None = None,
    ) -> None:
        super().__init__(verified)
        self._kept = kept
        self._clock = clock
        self._known: dict[str, dict[str, dict[str, bytes]]] = {}
        self.changed = Signal[[]]()
        """Other secrets are accepted from now on."""

    async def load(self, configured: Mapping[str, Iterable[bytes]]) -> None:
        """Accept the configured secrets, except those that an operator revoked."""
        for store, values in configured.items():
            await self.admit(store, values, "settings")

    async def admit(self, store: str, values: Iterable[bytes], source: str) -> None:
        """Accept these secrets as all of `source`, beside those of other sources."""
        named = {secret_fingerprint(value): value for value in values}
        dropped = await self._kept.set_known(store, list(named), source)
        self._known.setdefault(store, {})[source] = named
        self._refresh(store, dropped)

    async def drop(
        self, store: str, name: str, entry: AuditEntry, *, dropped: bool = True
    ) -> None:
        """Revoke the secret with this fingerprint, or accept it again."""
        self._refresh(store, await self._kept.set_revoked(store, name, dropped, entry))

    def _refresh(self, store: str, dropped: Collection[str]) -> None:
        known = ChainMap(*self._known[store].values())
        live = {name: known[name] for name in known if name not in dropped}
        self._rings[store] = LiveSecrets(tuple(live), tuple(live.values()))
        self.changed.emit()
        if known and not live:
            logger.bind(action="secrets.none", store=store).error(
                "store {}: every webhook secret was revoked, so every delivery is"
                " refused; configure another one",
                store,
            )

    async def save(self) -> None:
        """Save when each secret was last used. May raise Busy."""
        used, self._used = self._used, {}
        if not used:
            return
        try:
            await self._kept.record_uses(used)
        except BaseException:
            # Keep them for the next save; newer uses win.
            self._used = used | self._used
            raise

    async def run(self) -> None:
        """Save periodically. Cancel to stop, then call `save` once more."""
        while True:
            await self._clock.sleep(SAVE_SECONDS)
            await self.save()


class SecretWatch:
    """Accepts the secrets that another daemon got, and refuses those revoked there.

    It polls for changes once a second. Call `start` before the secrets are loaded.
    """

    def __init__(
        self,
        sealed: SealedSecrets,
        registry: SecretRegistry,
        keyrings: Mapping[str, Keyring],
        clock: Clock,
    ) -> None:
        self._sealed = sealed
        self._registry = registry
        self._keyrings = keyrings
        self._clock = clock
        self._seen = 0

    async def start(self) -> None:
        """Note which changes the next load includes. Raises ReadFailed."""
        self._seen, _ = await self._sealed.changes(0)

    async def run(self) -> NoReturn:
        """Poll for changes until cancelled."""
        while True:
            await self._clock.sleep(CHANGE_SECONDS)
            with suppress(Busy):  # the receiver says that the database is away
                await self.check()

    async def check(self) -> None:
        """Accept what changed since the last check. May raise Busy."""
        newest, stores = await self._sealed.changes(self._seen)
        for store in set(stores) & self._registry.live().keys():
            try:
                await self._registry.admit(store, await self._load(store), GIVEN)
            except ConfigurationError as error:
                logger.bind(action="secrets.unreadable", store=store).error("{}", error)
        self._seen = newest

    async def _load(self, store: str) -> list[bytes]:
        keyring = self._keyrings.get(store)
        return [] if keyring is None else await keyring.load()
