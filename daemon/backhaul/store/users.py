"""Users of the dashboard, and the webhook secrets of each store."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.store.deeds import Deed


class Role(IntEnum):
    """What somebody may do; each may all that the ones before may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """Return how it is written."""
        return self.name.lower()


ROLES = {role.word: role for role in Role}


class User(Struct, frozen=True):
    """Somebody; `epoch` is new with each password, and ends the sessions before."""

    name: str
    role: Role
    secret: str
    epoch: int
    created_at: str
    last_login_at: str | None = None

    def __repr__(self) -> str:
        """Leave the hash out."""
        return f"User({self.name!r}, {self.role.word})"


class Users(Protocol):
    """Every verb is written down in the audit as done by `who`; may raise Busy."""

    async def list(self) -> Sequence[User]:
        """Return everybody by name."""
        ...

    async def find(self, name: str) -> User | None:
        """Return somebody."""
        ...

    async def add(
        self, name: str, role: Role, secret: str, who: str, *, first: bool = False
    ) -> None:
        """Add somebody, the `first` only where there is nobody; may refuse."""
        ...

    async def remove(self, name: str, who: str) -> None:
        """Take somebody away. Raises BackhaulError for the last admin."""
        ...

    async def set_role(self, name: str, role: Role, who: str) -> None:
        """Change what somebody may. Raises BackhaulError for the last admin."""
        ...

    async def set_secret(self, name: str, secret: str, who: str) -> None:
        """Change somebody's password. Raises BackhaulError."""
        ...

    async def came(self, name: str, detail: str) -> None:
        """Write down that somebody logged in."""
        ...

    async def logins(self, name: str, since: str) -> Sequence[str]:
        """Return what was written down of somebody's logins since a time, once each."""
        ...

    async def does(self, deed: Deed) -> None:
        """Write down what somebody is about to do, where it is no row of ours."""
        ...


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
