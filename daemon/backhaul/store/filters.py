"""The filter language: one text selects rows on pages, in the API and in the CLI.

A filter is terms such as `state=open reason=unknown_sku since=1h`, and words that a row
must contain. All terms must match. A value with a space is quoted: `sku="LAMP 2"`. The
URL of a page has the text of its filter, so the URL is the view.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct

from backhaul.core.clock import normalize, to_text
from backhaul.core.lifecycle import Kind, State
from backhaul.errors import BackhaulError
from backhaul.store.inbox import EventState
from backhaul.store.records import ReasonClass
from backhaul.store.stock_lists import PushState

if TYPE_CHECKING:
    from datetime import datetime


class Filter(Struct, frozen=True):
    """Which rows; None and an empty tuple are any.

    Without `state`, rows that are selected by `ids` may have any state, and other rows
    have the usual state of their list. `reason` is a ReasonClass in the quarantine, and
    words of the reason in other lists. `subject` is what the reason is about, empty for
    a reason without one. `like` is the number of a row whose class, subject and reason
    the rows share. `object` is the id of an order, product or customer. `since`
    and `until` are text in UTC; `until` is exclusive. `below` is a whole number, as
    text, and the stock is less. `keys` are the ids of commands, or first characters of
    them. A row must contain all `words`, in any capitals.
    """

    state: str | None = None
    kind: str | None = None
    topic: str | None = None
    store: str | None = None
    connector: str | None = None
    order: str | None = None
    sku: str | None = None
    object: str | None = None
    reason: str | None = None
    subject: str | None = None
    like: str | None = None
    since: str | None = None
    until: str | None = None
    below: str | None = None
    ids: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def in_words(self) -> str:
        """Return the filter as a text that `parse_filter` reads as the same filter."""
        terms = [
            f"{name}={_quoted(value)}"
            for name in FIELDS
            if (value := getattr(self, name)) is not None
        ]
        listed = ",".join(map(str, self.ids or self.keys))
        ids = [f"{ID}={listed}"] if listed else []
        return " ".join([*ids, *terms, *map(_quoted, self.words)])


NO_FILTER = Filter()


class SelectedRows(Struct, frozen=True):
    """How many rows of a selection can be changed in the same way.

    In the quarantine, `content` is `record`, `question` (a record that an operator
    decides about), `list` (the end of a full stock list), `event`, `kept` (its
    connector can apply the row), `read` (the row never became a record, but its values
    were read) or `bad` (only its text is known), and the state of a row that was used
    is `retried`. The `content` of a command is `target` (a stock
    count), `sent` or `unsent`, and that of a delivery is `delivery`.
    """

    store: str
    state: str
    content: str
    rows: int


class QuarantineGroup(Struct, frozen=True):
    """Rows of the quarantine with one reason: 38 rows of `unknown_sku`, `LAMP-2`.

    `reason` is the text of rows with a wrong value, which tells their causes apart; it
    is empty for other classes. `row` is the newest of the rows.
    """

    reason_class: str
    subject: str
    reason: str
    row: int
    rows: int
    last_at: str


class QuarantineCounts(Struct, frozen=True):
    """How many rows match a filter, by class of reason and in groups.

    `states` counts all rows by their state, whatever the filter says: to match the rows
    of all the past may take seconds.
    """

    states: dict[str, int]
    reasons: dict[str, int]
    groups: list[QuarantineGroup]


class FilterError(BackhaulError):
    """The text of a filter is wrong; the error says what, where, and what to write."""


ID = "id"
FIELDS = tuple(
    name for name in Filter.__struct_fields__ if name not in {"ids", "keys", "words"}
)
Allowed: TypeAlias = Mapping[str, Sequence[str]]
"""The fields of one list. A field with values allows only these; without, any text."""
ANY = "any"
"""The value of `state` that also selects rows of other states than the default."""
QUARANTINE: Allowed = {
    ID: (),
    "state": ("open", "retried", "dropped", ANY),
    "kind": (
        *("fulfill", "cancel", "adjust", "level", "track", "list", "kept"),
        *("order", "product", "customer"),
    ),
    "store": (),
    "connector": (),
    "order": (),
    "sku": (),
    "reason": tuple(each.value for each in ReasonClass),
    "subject": (),
    "like": (),
    "since": (),
    "until": (),
}
"""The fields for rows of the quarantine."""
COMMANDS: Allowed = {
    ID: (),
    "state": tuple(each.value for each in State),
    "kind": tuple(each.value for each in Kind),
    "store": (),
    "connector": (),
    "order": (),
    "sku": (),
    "reason": (),
    "since": (),
    "until": (),
}
"""The fields for commands and stock targets; `id` has texts."""
EVENTS: Allowed = {
    ID: (),
    "state": tuple(each.value for each in EventState),
    "topic": (),
    "kind": ("order", "product", "level", "customer"),
    "store": (),
    "order": (),
    "object": (),
    "since": (),
    "until": (),
}
"""The fields for events; `kind` is the kind of the object that an event is about."""
DELIVERIES: Allowed = {
    ID: (),
    "state": tuple(each.value for each in State),
    "topic": (),
    "kind": ("order", "product", "stock", "customer"),
    "store": (),
    "connector": (),
    "order": (),
    "object": (),
    "reason": (),
    "since": (),
    "until": (),
}
"""The fields for deliveries to connections."""
STOCK: Allowed = {
    "state": tuple(each.value for each in PushState),
    "store": (),
    "connector": (),
    "sku": (),
    "object": (),
    "below": (),
    "since": (),
    "until": (),
}
"""The fields for the stock of variants; `state` is what Backhaul pushes."""

LISTS: Mapping[str, Allowed] = {
    "commands": COMMANDS,
    "events": EVENTS,
    "deliveries": DELIVERIES,
    "quarantine": QUARANTINE,
    "stock": STOCK,
}
"""The fields of each list, by its name."""


class Sort(StrEnum):
    """The order of a list: `usual` is its own, such as parked commands first.

    Only a list of stock has the order `lowest`.
    """

    USUAL = "usual"
    NEWEST = "newest"
    OLDEST = "oldest"
    LOWEST = "lowest"


class Span(Struct, frozen=True):
    """The numbers of the rows that one page searches, both inclusive.

    `more` is True if the search continues on the next page.
    """

    first: int
    last: int
    more: bool = False

    def continues(self, sort: Sort) -> int | None:
        """Return the number after which the next page searches; None at the end."""
        if not self.more:
            return None
        return self.last if sort is Sort.OLDEST else self.first


_TERM = re.compile(r'(?:(?P<name>[^\s"=]+)=)?(?P<value>"(?:[^"\\]|\\.)*"|[^\s"]*)')
_PLAIN = re.compile(r'[^\s"=\\]+')
_AGO = re.compile(r"(\d{1,6})(m|min|h|d|w)")
_UNITS = {
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_TIMES = frozenset({"since", "until"})
_NUMBERS = re.compile(r"\d{1,18}(,\d{1,18})*", re.ASCII)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_WHOLE = re.compile(r"-?\d{1,9}", re.ASCII)
_KEYS = re.compile(r"[0-9a-f]{2,32}(,[0-9a-f]{2,32})*")
LONGEST_FILTER = 20_000


def parse_filter(text: str, allowed: Allowed, now: datetime) -> Filter:
    """Return the filter of a text; a time such as `1h` means an hour before `now`.

    Raises FilterError.
    """
    if len(text) > LONGEST_FILTER:
        raise FilterError(f"a filter has at most {LONGEST_FILTER:,} characters")
    found: dict[str, str] = {}
    ids: tuple[int, ...] | tuple[str, ...] = ()
    words: list[str] = []
    place = _next(text, 0)
    while place < len(text):
        term = _TERM.match(text, place)
        if term is None or not _is_whole(term, text):
            raise FilterError(_unreadable(text, place))
        name, value = term["name"], _unquoted(term["value"])
        at = f"at character {place + 1}"
        if name is None:
            words.append(value)
        elif name in found:
            raise FilterError(f"{name} is given twice, {at}; keep one of them")
        else:
            _check(name, value, at, allowed)
            found[name] = _time(name, value, at, now) if name in _TIMES else value
            if name == ID:
                is_text = allowed is COMMANDS
                ids = _keys(value, at) if is_text else _ids(value, at)
        place = _next(text, term.end())
    terms = {name: value for name, value in found.items() if name != ID}
    own = {"keys" if allowed is COMMANDS else "ids": ids}
    return msgspec.convert({**terms, **own, "words": words}, Filter)


def with_term(text: str, name: str, value: str | None) -> str:
    """Return the text of a filter with another value of a field; None leaves it out.

    Times stay as they were written, so that `since=1h` still moves with the clock.
    """
    kept = [
        found[0] for found in _TERM.finditer(text) if found[0] and found["name"] != name
    ]
    more = [] if value is None else [f"{name}={_quoted(value)}"]
    return " ".join([*kept, *more])


def value_of(text: str, name: str) -> str | None:
    """Return the value of a field in the text of a filter, as it was written."""
    for found in _TERM.finditer(text):
        if found["name"] == name:
            return _unquoted(found["value"])
    return None


def terms_of(text: str) -> list[tuple[str, str]]:
    """Return each term or word of a filter, and the text of the filter without it."""
    parts = [found[0] for found in _TERM.finditer(text) if found[0]]
    return [
        (part, " ".join(parts[:place] + parts[place + 1 :]))
        for place, part in enumerate(parts)
    ]


def _keys(value: str, at: str) -> tuple[str, ...]:
    if not _KEYS.fullmatch(value):
        raise FilterError(
            f"id cannot be {value[:40]!r}, {at}; write ids of commands, or their first"
            " characters, with commas between them, such as id=3f2a9c01,77aa"
        )
    return tuple(dict.fromkeys(value.split(",")))


def _ids(value: str, at: str) -> tuple[int, ...]:
    if not _NUMBERS.fullmatch(value):
        raise FilterError(
            f"id cannot be {value[:40]!r}, {at}; write numbers with commas between"
            " them, such as id=3,4"
        )
    return tuple(dict.fromkeys(map(int, value.split(","))))


def _next(text: str, place: int) -> int:
    """Return where the next term begins."""
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _is_whole(term: re.Match[str], text: str) -> bool:
    """Return True if a term ends where a term may end, and is no value without name."""
    end = term.end()
    has_name = term["name"] is not None or not term["value"].startswith("=")
    return has_name and end > term.start() and not text[end : end + 1].strip()


def _unreadable(text: str, place: int) -> str:
    rest = text[place:].split()[0]
    if '"' in rest:
        return (
            f"the quotation mark in {rest[:40]!r}, at character {place + 1}, has no"
            ' partner; quote a whole value, such as sku="LAMP 2"'
        )
    return (
        f"{rest[:40]!r}, at character {place + 1}, is not a term; write FIELD=VALUE,"
        ' and quote words that contain "="'
    )


def _check(name: str, value: str, at: str, allowed: Allowed) -> None:
    if name not in allowed:
        listed = f"the fields are {', '.join(allowed)}"
        raise FilterError(
            f"there is no field {name[:40]!r}, {at}{_near(name, allowed)}; {listed}"
        )
    if not value and name != "subject":
        raise FilterError(f"{name}, {at}, has no value; write {name}=VALUE")
    known = allowed[name]
    if known and value not in known:
        listed = f"{name} is one of {', '.join(known)}"
        raise FilterError(
            f"{name} cannot be {value[:40]!r}, {at}{_near(value, known)}; {listed}"
        )
    if name == "like" and not _NUMBER.fullmatch(value):
        raise FilterError(
            f"like cannot be {value[:40]!r}, {at}; write the number of a row, such as"
            " like=12 for all rows with its reason"
        )
    if name == "below" and not _WHOLE.fullmatch(value):
        raise FilterError(
            f"below cannot be {value[:40]!r}, {at}; write a whole number, such as"
            " below=5 for a stock of 4 or less"
        )


def _near(word: str, known: Sequence[str] | Allowed) -> str:
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else ""


def _time(name: str, value: str, at: str, now: datetime) -> str:
    ago = _AGO.fullmatch(value)
    try:
        if ago:
            return to_text(now - int(ago[1]) * _UNITS[ago[2]])
        return normalize(value)
    except (ValueError, OverflowError):
        raise FilterError(
            f"{name} cannot be {value[:40]!r}, {at}; write how long ago, such as 30m,"
            " 1h, 2d or 1w, or a time, such as 2026-03-01 or 2026-03-01T12:00Z"
        ) from None


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)
