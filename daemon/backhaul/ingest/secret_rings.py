"""The webhook secrets that are accepted now, and what signatures have shown of them."""

from __future__ import annotations

import secrets as random_secrets
from collections import Counter
from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.core import webhook

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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


class LiveSecrets(Struct, frozen=True):
    """A store's accepted secrets and their fingerprints."""

    names: tuple[str, ...]
    values: tuple[bytes, ...]


def secret_fingerprint(secret: bytes) -> str:
    """Return a name for a secret that does not reveal it: 12 digits of its SHA-256."""
    return sha256(secret).hexdigest()[:12]


class SecretRings:
    """The webhook secrets that each store accepts, and what signatures have shown."""

    def __init__(self, verified: Counter[tuple[str, ...]] | None = None) -> None:
        self._verified = Counter() if verified is None else verified
        self._rings: dict[str, LiveSecrets] = {}
        # An unknown store takes as long as a wrong signature, so it reveals nothing.
        self._nobody = LiveSecrets(("",), (random_secrets.token_bytes(32),))
        self._used: dict[tuple[str, str], str] = {}
        self._refused: dict[str, Refusal] = {}

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

    def rings(self) -> dict[str, dict[str, bytes]]:
        """Return the accepted secrets of each store by their fingerprints."""
        return {
            store: dict(zip(ring.names, ring.values, strict=True))
            for store, ring in self._rings.items()
        }

    def replace(self, rings: Mapping[str, Mapping[str, bytes]]) -> None:
        """Accept these secrets of each store, by their fingerprints, and no others."""
        self._rings = {
            store: LiveSecrets(tuple(named), tuple(named.values()))
            for store, named in rings.items()
        }

    def take_uses(self) -> tuple[list[tuple[str, str, str]], dict[str, Refusal]]:
        """Return what signatures have shown since the last call.

        First when each secret signed last, as (store, fingerprint, time); then why
        deliveries of a store were refused since the last one that was accepted.
        """
        used = [(*secret, at) for secret, at in self._used.items()]
        refused, self._used, self._refused = self._refused, {}, {}
        return used, refused

    def add_uses(
        self, used: Iterable[tuple[str, str, str]], refused: Mapping[str, Refusal]
    ) -> None:
        """Take over what signatures have shown to another process."""
        for store, name, at in used:
            self._used[store, name] = at
            self._refused.pop(store, None)
        for store, refusal in refused.items():
            if refusal is Refusal.UNSIGNED:
                self.unsigned(store)
            elif store in self._rings:
                self._refused[store] = refusal
