"""Limits password guessing: each further failure doubles the wait."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.core.clock import Clock
    from backhaul.store.operations import User, Users

FREE_PAIR = 5
"""Failures of a name at an address without a wait; each more doubles the wait."""
FREE_KNOWN_PAIR = 20
"""The same limit for an address from which the user logged in before."""
FREE_ADDRESS = 20
"""Failures of an address with any name: a whole office may share one address."""
FREE_NAME = 100
"""Failures of a name from all addresses."""
MAX_WAIT_SECONDS = 300.0
RESET_SECONDS = 3_600.0
MAX_KEYS = 10_000
PREFIX_BITS = 64
"""The IPv6 network that a provider gives one customer."""
LOGIN_PREFIX = "from "

_Key: TypeAlias = tuple[str, str]
"""A name and an address; "" means any."""


class _Failures(Struct):
    failures: int
    last: float


class Throttle:
    """Counts failed logins and says how long a client must wait.

    Callers count a failure before the check, so that concurrent guesses count.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pairs: dict[_Key, _Failures] = {}
        self._addresses: dict[_Key, _Failures] = {}
        self._names: dict[_Key, _Failures] = {}

    def wait(self, name: str, address: str, *, known: bool = False) -> float:
        """Return the seconds until this name may try again from this address.

        With `known` the user logged in from this address before: then only failures
        of this name at this address count, with a higher limit.
        """
        now = self._clock.monotonic()
        free = FREE_KNOWN_PAIR if known else FREE_PAIR
        waits = [_wait(self._pairs.get((name, address)), free, now)]
        if not known:
            waits.append(_wait(self._addresses.get(("", address)), FREE_ADDRESS, now))
            waits.append(_wait(self._names.get((name, "")), FREE_NAME, now))
        return max(waits)

    def failed(self, name: str, address: str) -> None:
        """Count a failure of the address, and of the name unless it is empty."""
        now = self._clock.monotonic()
        for kept, key in self._kept(name, address):
            before = kept.pop(key, None)
            if before is None or now - before.last > RESET_SECONDS:
                before = _Failures(0, now)
            # Move the key to the end: the first keys are the oldest.
            kept[key] = _Failures(before.failures + 1, now)
            while len(kept) > MAX_KEYS:
                del kept[next(iter(kept))]

    def succeeded(self, name: str, address: str) -> None:
        """Clear the failures of the name at the address; subtract one elsewhere.

        The address keeps its count, so that a user cannot clear it by logging in
        while guessing other names.
        """
        self._pairs.pop((name, address), None)
        for kept, key in self._kept(name, address):
            if (found := kept.get(key)) is not None and found.failures:
                found.failures -= 1

    def _kept(
        self, name: str, address: str
    ) -> Iterator[tuple[dict[_Key, _Failures], _Key]]:
        yield self._addresses, ("", address)
        if name:
            yield self._pairs, (name, address)
            yield self._names, (name, "")


def _wait(tries: _Failures | None, free: int, now: float) -> float:
    if tries is None or tries.failures < free:
        return 0.0
    wait = min(2.0 ** min(tries.failures - free, 20), MAX_WAIT_SECONDS)
    return max(tries.last + wait - now, 0.0)


class PastLogins:
    """The addresses from which each user logged in, read once from the audit log."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self._known: dict[tuple[str, str], set[str]] = {}

    async def has(self, user: User, address: str) -> bool:
        """Return whether the user logged in from this address (see `counted`)."""
        return address in await self._of(user)

    async def add(self, user: User, address: str) -> None:
        """Remember a login."""
        (await self._of(user)).add(address)

    async def _of(self, user: User) -> set[str]:
        key = (user.name, user.created_at)
        if key not in self._known:
            details = await self._users.logins(user.name, user.created_at)
            found = {throttle_key(each.removeprefix(LOGIN_PREFIX)) for each in details}
            # Drop the addresses of a removed user who had the same name.
            self._known = {k: v for k, v in self._known.items() if k[0] != user.name}
            self._known[key] = found
        return self._known[key]


def throttle_key(address: str) -> str:
    """Return the key under which an address counts: for IPv6 its /64 network."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:64]
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ip_network((int(found), PREFIX_BITS), strict=False))
