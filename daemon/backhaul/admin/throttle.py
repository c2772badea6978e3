"""Slows down password guessing."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.core.clock import Clock
    from backhaul.store.users import User, Users

FREE_PAIR = 5
"""Failures of a name at an address that cost nothing; then each doubles the wait."""
FREE_KNOWN_PAIR = 20
"""The same at an address from which the name logged in before."""
FREE_ADDRESS = 20
"""Failures of an address with any names: an office has one address for all."""
FREE_NAME = 100
"""Failures of a name from all addresses together."""
LONGEST_SECONDS = 300.0
FORGOTTEN_SECONDS = 3_600.0
MOST_KEYS = 10_000
PREFIX_BITS = 64
"""What one customer of a provider gets of IPv6: any address in it is theirs."""
LOGIN_WORDS = "from "

_Key: TypeAlias = tuple[str, str]
"""A name and an address; "" stands for all."""


class _Tries(Struct):
    failures: int
    last: float


class Throttle:
    """Counts failures, before they are known to be: who guesses at once is counted."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pairs: dict[_Key, _Tries] = {}
        self._addresses: dict[_Key, _Tries] = {}
        self._names: dict[_Key, _Tries] = {}

    def wait(self, name: str, address: str, *, known: bool = False) -> float:
        """Return for how many seconds this name may not try again from this address.

        `known` says that it logged in from there before: then only its own failures
        at the address count, and more of them cost nothing.
        """
        now = self._clock.monotonic()
        free = FREE_KNOWN_PAIR if known else FREE_PAIR
        waits = [_wait(self._pairs.get((name, address)), free, now)]
        if not known:
            waits.append(_wait(self._addresses.get(("", address)), FREE_ADDRESS, now))
            waits.append(_wait(self._names.get((name, "")), FREE_NAME, now))
        return max(waits)

    def failed(self, name: str, address: str) -> None:
        """Count a failure; without a name only that of the address."""
        now = self._clock.monotonic()
        for kept, key in self._kept(name, address):
            before = kept.pop(key, None)
            if before is None or now - before.last > FORGOTTEN_SECONDS:
                before = _Tries(0, now)
            # The oldest stand first: who comes back goes to the end.
            kept[key] = _Tries(before.failures + 1, now)
            while len(kept) > MOST_KEYS:
                del kept[next(iter(kept))]

    def succeeded(self, name: str, address: str) -> None:
        """Forget the failures of the name at the address; take one back elsewhere.

        Whoever has an account must not clear an address that guesses others.
        """
        self._pairs.pop((name, address), None)
        for kept, key in self._kept(name, address):
            if (found := kept.get(key)) is not None and found.failures:
                found.failures -= 1

    def _kept(
        self, name: str, address: str
    ) -> Iterator[tuple[dict[_Key, _Tries], _Key]]:
        yield self._addresses, ("", address)
        if name:
            yield self._pairs, (name, address)
            yield self._names, (name, "")


def _wait(tries: _Tries | None, free: int, now: float) -> float:
    if tries is None or tries.failures < free:
        return 0.0
    wait = min(2.0 ** min(tries.failures - free, 20), LONGEST_SECONDS)
    return max(tries.last + wait - now, 0.0)


class PastLogins:
    """The addresses from which each user logged in before, read from the audit once."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self._known: dict[tuple[str, str], set[str]] = {}

    async def has(self, user: User, address: str) -> bool:
        """Return whether the user logged in from the address, as `counted` gives it."""
        return address in await self._of(user)

    async def add(self, user: User, address: str) -> None:
        """Remember a login that has just been."""
        (await self._of(user)).add(address)

    async def _of(self, user: User) -> set[str]:
        key = (user.name, user.created_at)
        if key not in self._known:
            details = await self._users.logins(user.name, user.created_at)
            found = {counted(each.removeprefix(LOGIN_WORDS)) for each in details}
            # Somebody of this name who was removed has left no address behind.
            self._known = {k: v for k, v in self._known.items() if k[0] != user.name}
            self._known[key] = found
        return self._known[key]


def counted(address: str) -> str:
    """Return what an address counts as: an IPv6 address as its network of 64 bits."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:64]
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ip_network((int(found), PREFIX_BITS), strict=False))
