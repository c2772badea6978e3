"""Quirks: the other readings of what the specification leaves open."""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import msgspec

PLAIN = (
    "bare-v1",
    "bare-webhooks",
    "bare-headers",
    "number-money",
    "lowercase-enums",
    "plain-errors",
    "clamp-limit",
    "no-updated-since",
    "coarse-time",
    "no-sequence",
    "no-idempotency",
    "no-history",
    "no-note",
    "no-store-endpoint",
    "pooled-stock",
    "strict-repeat",
    "refuse-fulfill-cancelled",
    "refulfill-attaches",
    "strict-body",
    "ignore-variant",
    "manual-reason",
    "no-levels",
    "no-webhook-api",
    "ignore-page",
    "ack-202",
    "no-retry",
)
VALUES = {"restock-field": 1, "tracking-fields": 2}
"""Quirks that take member names, and how many."""
NAMES = (*PLAIN, *VALUES)
MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class UnknownQuirkError(ValueError):
    """What was asked for is no quirk; the message says what was meant, perhaps."""


@dataclass(frozen=True, slots=True)
class Quirks:
    """The readings that one store answers by."""

    names: frozenset[str] = frozenset()
    restock_field: str = "restock"
    tracking_fields: tuple[str, str] = ("trackingCompany", "trackingNumber")
    texts: tuple[str, ...] = ()

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __bool__(self) -> bool:
        return bool(self.names)


NONE = Quirks()


def parse(texts: Iterable[str]) -> Quirks:
    """Read `NAME` and `NAME=A,B`; UnknownQuirkError for anything else."""
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, value = text.strip().partition("=")
        members = tuple(value.split(",")) if equals else ()
        _check(name, members)
        found[name] = members
    company, number = found.get("tracking-fields", NONE.tracking_fields)
    return Quirks(
        names=frozenset(found),
        restock_field=found.get("restock-field", ("restock",))[0],
        tracking_fields=(company, number),
        texts=tuple(
            "=".join((name, ",".join(members))) if members else name
            for name, members in sorted(found.items())
        ),
    )


def _check(name: str, members: tuple[str, ...]) -> None:
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UnknownQuirkError(f"there is no quirk {name[:64]!r}{hint}")
    wanted = VALUES.get(name, 0)
    if len(members) != wanted or len(set(members)) != wanted:
        raise UnknownQuirkError(f"{name} takes {_count(wanted)}")
    for member in members:
        if not MEMBER.fullmatch(member):
            raise UnknownQuirkError(f"{name}: {member[:64]!r} is no member name")


def _count(wanted: int) -> str:
    words = ("no value", "one name: NAME=A", "two different names: NAME=A,B")
    return words[wanted]


@lru_cache(maxsize=256)
def stored(text: str) -> Quirks:
    """The quirks of a store as its row keeps them."""
    return parse(msgspec.json.decode(text, type=list[str]))
