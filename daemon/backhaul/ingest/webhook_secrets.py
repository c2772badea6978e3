"""Webhook secrets that are accepted, and when each last signed a delivery."""

from __future__ import annotations

import secrets as random_secrets
from collections import ChainMap, Counter
from contextlib import suppress
from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING, NoReturn

from loguru import logger
from msgspec import Struct

from backhaul.core import webhook
from backhaul.errors import Busy, ConfigurationError
from backhaul.platform.store_credentials import GIVEN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.platform.store_credentials import Keyring
    from backhaul.store.operations import AuditEntry, SealedSecrets, WebhookSecrets

CHANGE_SECONDS = 1.0
"""How soon a daemon accepts a secret that another one got."""
SAVE_SECONDS = 30.0
"""The interval of saving `last used`; a crash loses at most this much of it."""


class Refusal(Enum):
    """Why deliveries were refused since the last accepted one, with an explanation.

    Only a signature that does not match is evidence that the secret is wrong.
    """

    MISMATCHED = ""
    NONE = (
        "no delivery with a wrong signature has arrived since the start; if the"
        " platform's deliveries go on being refused, check whether a proxy before"
        " Backhaul answers 401"
    )
    DOUBLED = (
        "the signature header came twice, with different values; the proxy before"
        " Backhaul must pass it on unchanged"
    )
    UNSIGNED = (
        "deliveries came without a whole signature in the header X-Service-Hmac-Sha256;"
        " the proxy before Backhaul must pass it on unchanged"
    )


class _LiveSecrets(Struct, frozen=True):
    """A store's accepted secrets and their fingerprints."""

    names: tuple[str, ...]
    values: tuple[bytes, ...]


def secret_fingerprint(secret: bytes) -> str:
    """Return a name for a secret that does not reveal it: 12 digits of its SHA-256."""
    return sha256(secret).hexdigest()[:12]


class SecretRegistry:
    """The webhook secrets that each store accepts; they may change while it runs."""

    def __init__(
        self,
        kept: WebhookSecrets,
        clock: Clock,
        verified: Counter[tuple[str, ...]] | None = None,
    ) -> None:
        self._kept = kept
        self._verified = Counter() if verified is None else verified
        self._clock = clock
        self._known: dict[str, dict[str, dict[str, bytes]]] = {}
        self._rings: dict[str, _LiveSecrets] = {}
        # An unknown store takes as long as a wrong signature, so it reveals nothing.
        self._nobody = _LiveSecrets(("",), (random_secrets.token_bytes(32),))
        self._used: dict[tuple[str, str], str] = {}
        self._refused: dict[str, Refusal] = {}

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
        self._rings[store] = _LiveSecrets(tuple(live), tuple(live.values()))
        if known and not live:
            logger.bind(action="secrets.none", store=store).error(
                "store {}: every webhook secret was revoked, so every delivery is"
                " refused; configure another one",
                store,
            )

    def live(self) -> dict[str, tuple[str, ...]]:
        """Return the fingerprints of each store's accepted secrets."""
        return {store: ring.names for store, ring in self._rings.items()}

    def known(self, store: str) -> str:
        """Return the name of a configured store, or `unknown` for any other name."""
        return store if store in self._rings else "unknown"

    def signed(self, store: str, body: bytes, presented: str, now: str) -> bool:
        """Return whether an accepted secret signed the body, which arrived `now`."""
        ring = self._rings.get(store, self._nobody)
        signer = webhook.verify(body, presented, ring.values)
        if signer is None or ring is self._nobody:
            self._note_refusal(store, presented)
            return False
        self._refused.pop(store, None)
        signed_by = store, ring.names[signer]
        self._used[signed_by] = now
        self._verified[signed_by] += 1
        return True

    def doubled(self, store: str) -> None:
        """Record that a delivery came with several signatures that differ."""
        if store in self._rings:
            self._refused[store] = Refusal.DOUBLED

    def unsigned(self, store: str) -> None:
        """Record that a delivery came without a signature.

        A stranger can send one too: it never replaces what a signature has shown.
        """
        if store in self._rings:
            self._refused.setdefault(store, Refusal.UNSIGNED)

    def _note_refusal(self, store: str, presented: str) -> None:
        if not webhook.is_well_formed(presented):
            self.unsigned(store)
        elif store in self._rings:
            self._refused[store] = Refusal.MISMATCHED

    def why_kept(self, store: str) -> str:
        """Return why a refused delivery is no reason to replace the secret.

        "" where a delivery since the last accepted one had a signature that does not
        match: then the secret may be wrong.
        """
        return self._refused.get(store, Refusal.NONE).value

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
