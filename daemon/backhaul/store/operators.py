"""Operators: users, tokens, logins, and their requests to the owners of stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.operations import AuditEntry

T = TypeVar("T")
MAX_IDLE_SECONDS = 30 * 60.0
MAX_SESSION_SECONDS = 12 * 3_600.0
MAX_SESSIONS = 1_000
RESET_SECONDS = 3_600.0
"""Failures count until none was added for this long."""
MAX_KEYS = 30_000
BEGUN_SECONDS = 600.0
"""How long a login may take between its two steps."""
MAX_BEGUN, MAX_BEGUN_OF_CLIENT = 10_000, 50
"""Begun logins, and those of one address: nobody can fill the place of all others."""
NO_PASSWORD = "!"  # noqa: S105 - no hash is like this
"""The `secret` of a user whom the identity provider lets in."""
Notices: TypeAlias = tuple[tuple[str, str], ...]
"""A kind, `good` or `bad`, and a text each."""


class Role(IntEnum):
    """What a user is allowed to do; each role includes the ones before."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """Return the role's name as it is written and stored."""
        return self.name.lower()


ROLES = {role.word: role for role in Role}


class User(Struct, frozen=True):
    """A user; a new password gets a new `epoch`, which ends all older sessions.

    `identity` is the issuer and the subject of a user who logs in at an identity
    provider. `totp` is the sealed secret of the second factor, `recovery_codes` are
    the digests of the codes that were not used.
    """

    name: str
    role: Role
    secret: str
    epoch: int
    created_at: str
    last_login_at: str | None = None
    identity: str | None = None
    disabled_at: str | None = None
    totp: str | None = None
    recovery_codes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Leave the secrets out."""
        return f"User({self.name!r}, {self.role.word})"


class NewView(Struct, frozen=True):
    """The filter and order of a list that a user saves under a name.

    `list` is the address of the list without `/`, such as `commands`.
    """

    list: str
    name: str
    filter: str
    sort: str


class SavedView(Struct, frozen=True):
    """The filter and order of a list that a user saved under a name."""

    id: int
    name: str
    filter: str
    sort: str


MOST_VIEWS = 30
"""The views that one user saves of one list."""


class Users(Protocol):
    """Users of the dashboard; each change has an audit entry. May raise Busy."""

    async def list(self) -> Sequence[User]:
        """Return all users by name."""
        ...

    async def find(self, name: str) -> User | None:
        """Return one user, or None."""
        ...

    async def add(
        self, name: str, role: Role, secret: str, who: str, *, first: bool = False
    ) -> None:
        """Add a user. Raises BackhaulError if it exists, or is not the `first`."""
        ...

    async def remove(self, name: str, who: str) -> None:
        """Remove a user. Raises BackhaulError for the last administrator."""
        ...

    async def set_role(self, name: str, role: Role, who: str) -> None:
        """Change a role. Raises BackhaulError for the last administrator."""
        ...

    async def set_secret(self, name: str, secret: str, who: str) -> None:
        """Change a password. Raises BackhaulError if there is no such user."""
        ...

    async def set_disabled(self, name: str, disabled: bool, who: str) -> None:
        """Let a user log in or not. Raises BackhaulError for the last administrator."""
        ...

    async def sign_on(self, identity: str, name: str, role: Role, who: str) -> User:
        """Return the user with this identity, with this role.

        A new user gets the name, or one with a number if another user has it. Raises
        BackhaulError if the user is disabled.
        """
        ...

    async def end_access(self, identity: str, who: str, detail: str) -> None:
        """End the sessions of the user with this identity, if there is one."""
        ...

    async def set_totp(
        self, name: str, totp: str | None, codes: Sequence[str], entry: AuditEntry
    ) -> None:
        """Set or remove a second factor, and the digests of its recovery codes."""
        ...

    async def set_recovery_codes(
        self, name: str, codes: Sequence[str], entry: AuditEntry
    ) -> None:
        """Replace the digests of the recovery codes."""
        ...

    async def reseal_totp(self, name: str, old: str, new: str) -> None:
        """Replace the sealed secret, unless it has changed since."""
        ...

    async def use_totp_step(self, name: str, step: int) -> bool:
        """Accept a time step once: return False if it or a later one was accepted."""
        ...

    async def use_recovery_code(self, name: str, digest: str) -> bool:
        """Accept a recovery code once; return whether it was there."""
        ...

    async def record_login(self, name: str, detail: str) -> None:
        """Record that a user logged in, in the audit log too."""
        ...

    async def logins(self, name: str, since: str) -> Sequence[str]:
        """Return the different details of logins since a time, newest first."""
        ...

    async def save_view(self, who: str, view: NewView) -> None:
        """Save a view of a user; one of the same name is replaced.

        Raises BackhaulError if the user has MOST_VIEWS others of the list.
        """
        ...

    async def delete_view(self, who: str, view: int) -> str:
        """Delete a view of a user; return its list. Raises BackhaulError."""
        ...

    async def record_action(self, entry: AuditEntry) -> None:
        """Add an audit entry for an action that changes no row of the store."""
        ...


class OpenSession(Struct, frozen=True):
    """One browser of one user; the next page shows its `notices` once.

    `created_at` and `epoch` are the user's at the login: another password ends it.
    """

    user: str
    created_at: str
    epoch: int
    notices: Notices = ()


class Failures(Struct, frozen=True):
    """The failed attempts under a key; `age_seconds` is the time since the last one."""

    number: int
    age_seconds: float


Change: TypeAlias = Callable[[Mapping[str, Failures]], tuple[T, Mapping[str, Failures]]]
"""Takes the failures of some keys; returns a result, and the failures to store."""


class Logins(Protocol):
    """Sessions and failed attempts, by keys that reveal neither a token nor a name.

    Members of a cluster share them. All methods may raise Busy.
    """

    async def begin(self, key: str, session: OpenSession) -> None:
        """Open a session. Ends expired sessions, and the oldest above the limit."""
        ...

    async def find(self, key: str, *, touch: bool) -> OpenSession | None:
        """Return an open session; `touch` counts as activity of its user."""
        ...

    async def set_notices(self, key: str, notices: Notices) -> None:
        """Replace the notices of a session."""
        ...

    async def end(self, key: str) -> None:
        """End a session."""
        ...

    async def keep_begun(self, key: str, client: str, content: str) -> None:
        """Keep a login that has begun, for ten minutes; `client` is its address."""
        ...

    async def find_begun(self, key: str) -> str | None:
        """Return the content of a begun login."""
        ...

    async def take_begun(self, key: str) -> str | None:
        """Return the content of a begun login to one caller, and delete it."""
        ...

    async def change_failures(self, keys: Sequence[str], change: Change[T]) -> T:
        """Change the failures of some keys in one step, and return the result.

        `change` gets only the keys that have failures. A number of 0 deletes a key.
        """
        ...


class _Activity(Struct):
    session: OpenSession
    began: float
    last: float

    def is_over(self, now: float) -> bool:
        idle, age = now - self.last, now - self.began
        return idle > MAX_IDLE_SECONDS or age > MAX_SESSION_SECONDS


class MemoryLogins:
    """The logins of a daemon that is alone: they end with it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[str, _Activity] = {}
        self._failures: dict[str, tuple[int, float]] = {}
        self._begun: dict[str, tuple[str, str, float]] = {}

    async def begin(self, key: str, session: OpenSession) -> None:
        now = self._clock.monotonic()
        for old in [k for k, each in self._open.items() if each.is_over(now)]:
            del self._open[old]
        while len(self._open) >= MAX_SESSIONS:
            del self._open[min(self._open, key=lambda key: self._open[key].last)]
        self._open[key] = _Activity(session, now, now)

    async def find(self, key: str, *, touch: bool) -> OpenSession | None:
        found, now = self._open.get(key), self._clock.monotonic()
        if found is None or found.is_over(now):
            return None
        if touch:
            found.last = now
        return found.session

    async def set_notices(self, key: str, notices: Notices) -> None:
        if found := self._open.get(key):
            found.session = replace(found.session, notices=notices)

    async def end(self, key: str) -> None:
        self._open.pop(key, None)

    async def keep_begun(self, key: str, client: str, content: str) -> None:
        now = self._clock.monotonic()
        self._begun.pop(key, None)
        kept = {k: v for k, v in self._begun.items() if now - v[2] < BEGUN_SECONDS}
        own = [k for k, (who, *_) in kept.items() if who == client]
        dropped = {
            *own[: 1 - MAX_BEGUN_OF_CLIENT],
            *[*kept][: 1 - MAX_BEGUN],
        }
        self._begun = {k: v for k, v in kept.items() if k not in dropped}
        self._begun[key] = client, content, now

    async def find_begun(self, key: str) -> str | None:
        _, content, at = self._begun.get(key, ("", None, 0.0))
        return content if self._clock.monotonic() - at < BEGUN_SECONDS else None

    async def take_begun(self, key: str) -> str | None:
        found = await self.find_begun(key)
        self._begun.pop(key, None)
        return found

    async def change_failures(self, keys: Sequence[str], change: Change[T]) -> T:
        now = self._clock.monotonic()
        known = {key: self._failures[key] for key in keys if key in self._failures}
        found = {key: Failures(n, now - last) for key, (n, last) in known.items()}
        result, changed = change(found)
        for key, each in changed.items():
            # Move the key to the end: the first keys are the oldest.
            self._failures.pop(key, None)
            if each.number:
                self._failures[key] = each.number, now - each.age_seconds
            while len(self._failures) > MAX_KEYS:
                del self._failures[next(iter(self._failures))]
        return result


BEGIN_SECONDS = 15.0
"""How long a request waits for an owner: a takeover is over by then."""


class RequestState(StrEnum):
    """How far a request is. The last four are ends, each with an answer.

    `done` has the result. The others have an `error`: `refused` by the action, `busy`
    if it can be tried again, and `unknown` if its daemon ended before it answered.
    """

    WAITING = "waiting"
    BEGUN = "begun"
    DONE = "done"
    REFUSED = "refused"
    BUSY = "busy"
    UNKNOWN = "unknown"


class Request(Struct, frozen=True):
    """An action that `who` asked for on the machine `host`; `store` may be DATABASE."""

    store: str
    verb: str
    arguments: Mapping[str, Any]
    who: str
    host: str


class Claimed(Struct, frozen=True):
    """A request that this member carries out; nobody else ever does."""

    id: int
    request: Request


class Progress(Struct, frozen=True):
    """How far a request is, and its progress lines that the asker has not read.

    `host` is the machine of the member that began it. `is_alive` tells whether that
    member still gives signs of life. `answer` is there at the end.
    """

    state: RequestState
    host: str | None
    is_alive: bool
    answer: Mapping[str, Any]
    lines: Sequence[Mapping[str, Any]]


class PublishedState(Struct, frozen=True):
    """The state of a store, as JSON, that its owner published.

    `host` is the owner's machine. `age_seconds` is the time since the last change, and
    `is_alive` tells whether the owner still gives signs of life.
    """

    store: str
    content: bytes
    host: str
    age_seconds: float
    is_alive: bool


class Requests(Protocol):
    """Lets every member ask the owner of a store. All methods may raise Busy.

    `ask`, `follow`, `delete`, `cancel` and `published` are for any member, the others
    for the owner.
    """

    async def ask(self, request: Request, seconds: float) -> int:
        """Store a request that may begin within `seconds`; return its number."""
        ...

    async def follow(self, number: int, after: int) -> Progress:
        """Return how far a request is, with its lines behind the first `after`."""
        ...

    async def delete(self, number: int) -> None:
        """Delete a request whose end was read."""
        ...

    async def cancel(self, number: int) -> bool:
        """Delete a request, unless it has begun; return whether it was deleted."""
        ...

    async def is_waiting(self) -> bool:
        """Return whether `claim` would do anything."""
        ...

    async def claim(self) -> list[Claimed]:
        """Begin the waiting requests: each is returned once, to one member.

        Those that another member had begun before it lost the store become `unknown`.
        """
        ...

    async def add_lines(
        self, number: int, first: int, lines: Sequence[Mapping[str, Any]]
    ) -> None:
        """Store progress lines of a request; `first` is the number of the first one."""
        ...

    async def answer(
        self, number: int, state: RequestState, answer: Mapping[str, Any]
    ) -> None:
        """Store the end of a request."""
        ...

    async def publish(self, states: Mapping[str, bytes]) -> None:
        """Replace the states of these stores; delete requests nobody waits for."""
        ...

    async def published(self) -> list[PublishedState]:
        """Return the state of each store."""
        ...
