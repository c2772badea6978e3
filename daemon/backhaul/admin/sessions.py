"""Who is logged in: sessions in memory, ended by silence, age, or a new password."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.store.users import User

IDLE_SECONDS = 30 * 60.0
LONGEST_SECONDS = 12 * 3_600.0
MOST = 1_000
TOKEN_BYTES = 32


class Session(Struct):
    """One browser of one person; `said` is what the next page tells once."""

    user: str
    born: tuple[str, int]
    began: float
    last: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_BYTES))
    said: list[tuple[str, str]] = field(default_factory=list)

    def __repr__(self) -> str:
        """Leave the token out."""
        return f"Session({self.user!r})"

    def tell(self, kind: str, words: str) -> None:
        """Let the next page say it: `good` or `bad` news."""
        self.said.append((kind, words))

    def is_of(self, user: User) -> bool:
        """Tell whether it was begun with the password that the user has now."""
        return self.born == (user.created_at, user.epoch)


class Sessions:
    """Kept by a digest of their token: what is read out of memory opens nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[bytes, Session] = {}

    def begin(self, user: User) -> str:
        """Return the token of a new session."""
        now = self._clock.monotonic()
        self._forget(now)
        token = secrets.token_urlsafe(TOKEN_BYTES)
        born = (user.created_at, user.epoch)
        self._open[_key(token)] = Session(user.name, born, now, now)
        return token

    def find(self, token: str, *, touch: bool = True) -> Session | None:
        """Return the session; `touch` says that its person did something."""
        session = self._open.get(_key(token))
        now = self._clock.monotonic()
        if session is None or _is_over(session, now):
            return None
        if touch:
            session.last = now
        return session

    def end(self, token: str) -> None:
        """End a session."""
        self._open.pop(_key(token), None)

    def _forget(self, now: float) -> None:
        for key in [k for k, one in self._open.items() if _is_over(one, now)]:
            del self._open[key]
        while len(self._open) >= MOST:
            del self._open[min(self._open, key=lambda key: self._open[key].last)]


def _is_over(session: Session, now: float) -> bool:
    idle, age = now - session.last, now - session.began
    return idle > IDLE_SECONDS or age > LONGEST_SECONDS


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
