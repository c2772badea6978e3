"""What is known of the secrets that sign a store's webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.store.deeds import Deed


class WebhookSecrets(Protocol):
    """What is known of each webhook secret; a fingerprint stands for it."""

    async def know(self, store: str, names: Sequence[str], source: str) -> set[str]:
        """Make these all of what is known from `source`; return the store's dropped."""
        ...

    async def used(self, uses: Mapping[tuple[str, str], str]) -> None:
        """Write down when each (store, fingerprint) was last used."""
        ...

    async def last_used(self, store: str, name: str) -> str | None:
        """Return when the secret last signed a delivery."""
        ...

    async def drop(self, store: str, name: str, dropped: bool, deed: Deed) -> set[str]:
        """Remember that a person dropped the secret, or took it back; return all."""
        ...
