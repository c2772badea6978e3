"""Users of the dashboard: passwords, sessions, and limits of password guessing."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import secrets
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from functools import partial
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from backhaul.errors import BackhaulError
from backhaul.store.filters import LISTS, parse_filter
from backhaul.store.operations import AuditEntry
from backhaul.store.operators import (
    RESET_SECONDS,
    ROLES,
    Failures,
    NewView,
    OpenSession,
    Role,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from backhaul.store.operators import Logins, User, Users


LOG_COST, BLOCK, LANES = 14, 8, 5
"""Parameters of scrypt as OWASP recommends them; each hash takes 16 MiB of memory."""
SALT_BYTES, HASH_BYTES = 16, 32
_PREFIX = f"$scrypt$ln={LOG_COST},r={BLOCK},p={LANES}$"
MIN_LENGTH, MAX_LENGTH = 12, 256
"""Limits of a password in characters; nothing else is required of it."""


class Passwords:
    """Hashes and verifies passwords, one at a time, because each takes memory."""

    def __init__(self) -> None:
        self._lock = asyncio.Semaphore(1)
        self._dummy = ""

    async def hash(self, password: str) -> str:
        """Return the hash of a password. Raises BackhaulError for a bad length."""
        if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
            raise BackhaulError(
                f"the password must have {MIN_LENGTH} to {MAX_LENGTH} characters;"
                " several words make a good password"
            )
        async with self._lock:
            return await asyncio.to_thread(_hashed, password)

    async def verify(self, secret: str | None, password: str) -> bool:
        """Return whether the password matches; takes equally long without a user."""
        async with self._lock:
            return await asyncio.to_thread(self._verify, secret, password[:MAX_LENGTH])

    def _verify(self, secret: str | None, password: str) -> bool:
        if not self._dummy:
            self._dummy = _hashed("no password")
        # The password of nobody, and a hash of another kind, take as long.
        is_known = secret is not None and secret.startswith(_PREFIX)
        is_right = _is_hash_of(secret if secret and is_known else self._dummy, password)
        return is_right and is_known


def _hashed(password: str) -> str:
    """Return the hash in the form of the Password Hashing Competition (PHC)."""
    salt = os.urandom(SALT_BYTES)
    return f"{_PREFIX}{_base64(salt)}${_base64(_scrypt(password, salt))}"


def _is_hash_of(text: str, password: str) -> bool:
    parts = text.removeprefix(_PREFIX).split("$")
    if len(parts) != 2:
        return False
    try:
        digest = _scrypt(password, b64decode(f"{parts[0]}=="))
    except ValueError:  # a damaged salt
        return False
    return hmac.compare_digest(_base64(digest).encode(), parts[1].encode())


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(
        # JSON can write a password with lone surrogates.
        password.encode(errors="surrogatepass"),
        salt=salt,
        n=1 << LOG_COST,
        r=BLOCK,
        p=LANES,
        maxmem=128 * BLOCK * ((1 << LOG_COST) + LANES + 2),
        dklen=HASH_BYTES,
    )


def _base64(data: bytes) -> str:
    return b64encode(data).decode().rstrip("=")


TOKEN_FILE = "first-login-token"  # noqa: S105 - a file's name
USER_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}", re.ASCII)


def user_actions(
    users: Users, passwords: Passwords
) -> dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]]:
    """Return the actions on users by name; `who` of each is the acting user."""

    async def add(values: Mapping[str, Any]) -> dict[str, Any]:
        role = role_of(values["role"])
        await create_user(users, passwords, values["name"], role, values)
        return {"name": values["name"], "role": role.word}

    async def remove(values: Mapping[str, Any]) -> dict[str, Any]:
        await users.remove(values["name"], values["who"])
        return {"name": values["name"]}

    async def set_role(values: Mapping[str, Any]) -> dict[str, Any]:
        role = role_of(values["role"])
        await users.set_role(values["name"], role, values["who"])
        return {"name": values["name"], "role": role.word}

    async def set_password(values: Mapping[str, Any]) -> dict[str, Any]:
        secret = await passwords.hash(values["password"])
        await users.set_secret(values["name"], secret, values["who"])
        return {"name": values["name"]}

    async def save_view(values: Mapping[str, Any]) -> dict[str, Any]:
        view = msgspec.convert(values["view"], NewView)
        _require_view(view)
        await users.save_view(values["user"], view)
        return {"list": view.list, "name": view.name}

    async def delete_view(values: Mapping[str, Any]) -> dict[str, Any]:
        return {"list": await users.delete_view(values["user"], values["view"])}

    async def set_disabled(disabled: bool, values: Mapping[str, Any]) -> dict[str, Any]:
        await users.set_disabled(values["name"], disabled, values["who"])
        return {"name": values["name"], "disabled": disabled}

    async def reset_totp(values: Mapping[str, Any]) -> dict[str, Any]:
        entry = AuditEntry(values["who"], "users totp", f"{values['name']}: reset")
        await users.set_totp(values["name"], None, (), entry)
        return {"name": values["name"]}

    return {
        "views/save": save_view,
        "views/delete": delete_view,
        "users/add": add,
        "users/disable": partial(set_disabled, True),
        "users/enable": partial(set_disabled, False),
        "users/password": set_password,
        "users/remove": remove,
        "users/resettotp": reset_totp,
        "users/role": set_role,
    }


LONGEST_VIEW_NAME = 40
_SOME_TIME = datetime(2026, 1, 1, tzinfo=UTC)
"""A view keeps a time such as `1h` as it was written."""


def _require_view(view: NewView) -> None:
    """Raise BackhaulError if a view has no name, or a filter that cannot be read."""
    if not 0 < len(view.name) <= LONGEST_VIEW_NAME:
        raise BackhaulError(
            f"the name of a view must have 1 to {LONGEST_VIEW_NAME} characters"
        )
    allowed = LISTS.get(view.list)
    if allowed is None:
        raise BackhaulError(f"there is no list {view.list!r} with views")
    parse_filter(view.filter, allowed, _SOME_TIME)


async def create_user(
    users: Users,
    passwords: Passwords,
    name: str,
    role: Role,
    values: Mapping[str, Any],
    *,
    first: bool = False,
) -> None:
    """Add a user with the `password` in `values`. Raises BackhaulError."""
    if not USER_NAME.fullmatch(name):
        raise BackhaulError(
            "the user name must have 1 to 64 of the characters a-z, 0-9 and . _ @ -"
            " and begin with a letter or digit"
        )
    secret = await passwords.hash(values["password"])
    await users.add(name, role, secret, values["who"], first=first)


def role_of(word: str) -> Role:
    """Return the role with this name. Raises BackhaulError."""
    if word not in ROLES:
        raise BackhaulError(
            f"no role is called {word!r}; the roles are {', '.join(ROLES)}"
        )
    return ROLES[word]


class FirstLoginToken:
    """The one-time token that creates the first user, in a file with mode 0600."""

    def __init__(self, state_dir: Path) -> None:
        self.file = state_dir / TOKEN_FILE

    def create(self) -> None:
        """Write a new token atomically, unless one exists. Raises OSError."""
        if self._read():
            return
        unfinished = self.file.with_name(f"{TOKEN_FILE}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(unfinished, flags, 0o600), "w") as written:
            written.write(secrets.token_urlsafe(32) + "\n")
        # On a full disk the file would be empty, and nobody could log in.
        unfinished.replace(self.file)

    def verify(self, given: str) -> bool:
        """Return whether this is the token."""
        known = self._read()
        return bool(known) and hmac.compare_digest(
            known.encode(), given.encode(errors="replace")
        )

    def _read(self) -> str:
        try:
            return self.file.read_text("utf-8").strip()
        except OSError:
            return ""

    def delete(self) -> None:
        """Delete the token."""
        self.file.unlink(missing_ok=True)


TOKEN_BYTES = 32


class Session:
    """The browser that sent a request, with notices for the next page."""

    def __init__(self, token: str, opened: OpenSession) -> None:
        self.key = _session_key(token)
        self.user = opened.user
        self.notices = list(opened.notices)
        # Derived, so that every member knows it and no table has it.
        self.csrf = hmac.digest(token.encode(), b"csrf", "sha256").hex()
        self._opened = opened

    def __repr__(self) -> str:
        """Leave the token out."""
        return f"Session({self.user!r})"

    def add_notice(self, kind: str, text: str) -> None:
        """Show a notice on the next page; `kind` is `good` or `bad`."""
        self.notices.append((kind, text))

    def belongs_to(self, user: User) -> bool:
        """Return whether the session began with the user's current password."""
        begun_with = self._opened.created_at, self._opened.epoch
        return begun_with == (user.created_at, user.epoch)

    @property
    def has_other_notices(self) -> bool:
        """Whether notices were added or shown since the request came."""
        return tuple(self.notices) != self._opened.notices


class Sessions:
    """Stores sessions by the digest of their token, so that a copy opens none."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    async def begin(self, user: User) -> str:
        """Return the token of a new session. May raise Busy."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        opened = OpenSession(user.name, user.created_at, user.epoch)
        await self._logins.begin(_session_key(token), opened)
        return token

    async def find(self, token: str, *, touch: bool = True) -> Session | None:
        """Return the session, if it is open; `touch` counts as activity of its user."""
        found = await self._logins.find(_session_key(token), touch=touch)
        return None if found is None else Session(token, found)

    async def save(self, session: Session) -> None:
        """Store the notices for the next request, if they changed."""
        if session.has_other_notices:
            await self._logins.set_notices(session.key, tuple(session.notices))

    async def end(self, token: str) -> None:
        """End a session."""
        await self._logins.end(_session_key(token))


def _session_key(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


FREE_PAIR = 5
"""Failures of a name at an address without a wait; each more doubles the wait."""
FREE_KNOWN_PAIR = 20
"""The same limit for an address from which the user logged in before."""
FREE_ADDRESS = 20
"""Failures of an address with any name: a whole office may share one address."""
FREE_NAME = 100
"""Failures of a name from all addresses."""
MAX_WAIT_SECONDS = 300.0
PREFIX_BITS = 64
"""The IPv6 network that a provider gives one customer."""
LOGIN_PREFIX = "from "
Found: TypeAlias = "Mapping[str, Failures]"


class Throttle:
    """Limits password guessing: each further failure doubles the wait."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    async def attempt(self, name: str, address: str, *, known: bool = False) -> float:
        """Count a failure in advance; return 0, or the seconds to wait instead.

        Callers count before the check, so that concurrent guesses count. The failure
        counts for the address, and for the name unless it is empty. With `known` the
        user logged in from this address before: then only failures of this name at
        this address count, with a higher limit.
        """
        of_address, *named = keys = _keys(name, address)
        limits = {} if known else {of_address: FREE_ADDRESS}
        if named:
            of_name, of_pair = named
            limits[of_pair] = FREE_KNOWN_PAIR if known else FREE_PAIR
            limits |= {} if known else {of_name: FREE_NAME}

        def change(found: Found) -> tuple[float, Found]:
            waits = [_wait(found.get(key), free) for key, free in limits.items()]
            if (wait := max(waits)) > 0:
                return wait, {}
            return 0.0, {key: Failures(_number(found, key) + 1, 0) for key in keys}

        return await self._logins.change_failures(keys, change)

    async def succeeded(self, name: str, address: str) -> None:
        """Clear the failures of the name at the address; subtract one elsewhere.

        The address keeps its count, so that a user cannot clear it by logging in
        while guessing other names.
        """
        keys = _keys(name, address)

        def change(found: Found) -> tuple[None, Found]:
            less = {
                key: Failures(each.number - 1, each.age_seconds)
                for key, each in found.items()
            }
            cleared = {keys[-1]: Failures(0, 0)} if name else {}
            return None, less | cleared

        await self._logins.change_failures(keys, change)


def _keys(name: str, address: str) -> list[str]:
    """Return the keys of the address and, for a name, of the name and of the pair.

    Only digests are stored: people type passwords into the field for the name.
    """
    named = [(name, ""), (name, address)] if name else []
    texts = ["\0".join(each) for each in (("", address), *named)]
    return [hashlib.sha256(text.encode(errors="replace")).hexdigest() for text in texts]


def _number(found: Found, key: str) -> int:
    failures = found.get(key)
    if failures is None or failures.age_seconds > RESET_SECONDS:
        return 0
    return failures.number


def _wait(failures: Failures | None, free: int) -> float:
    if failures is None or failures.number < free:
        return 0.0
    wait = min(2.0 ** min(failures.number - free, 20), MAX_WAIT_SECONDS)
    return max(wait - failures.age_seconds, 0.0)


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
