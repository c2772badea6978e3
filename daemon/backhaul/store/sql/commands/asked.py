"""What commands ask for: their payloads, with the SKUs that the mirror knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from backhaul.store.asked import Asked, AskedLine
from backhaul.store.sql.dialect import document_of
from backhaul.store.sql.mirror.rows import KEYS, NEWEST, key_is, read_by_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backhaul.store.sql.family import Connection

Key: TypeAlias = "tuple[str, ...]"
LISTED_LINES = 3
"""The lines of a command that a list shows."""
_LINES = f"""
    SELECT t.store, t.order_id, t.id, t.sku, t.title
    FROM {KEYS} order_items t ON {key_is("t", ("store", "order_id", "id"))}
"""  # noqa: S608 - constants
_VARIANTS = f"""
    SELECT v.store, v.id, v.sku, v.title
    FROM {KEYS} variants v ON {key_is("v", ("store", "id"))} WHERE {NEWEST}
"""  # noqa: S608 - constants
_LOCATORS = f"""
    SELECT r.command_id, r.locator
    FROM {KEYS} records r ON {key_is("r", ("command_id",))} ORDER BY r.id DESC
"""  # noqa: S608 - constants


def asked_for(
    connection: Connection,
    commands: Iterable[tuple[str, str, str, str, str]],
    most_lines: int = LISTED_LINES,
) -> dict[str, Asked]:
    """Return by id what commands ask for; each has id, store, kind, target, payload.

    At most so many lines of each are read; the others are counted.
    """
    wanted = [(*each[:4], document_of(each[4])) for each in commands]
    lines: dict[Key, tuple[str | None, str | None]] = {}
    variants: dict[Key, tuple[str | None, str | None]] = {}
    for _, store, kind, target, payload in wanted:
        if kind == "fulfill":
            for line in _lines_of(payload)[:most_lines]:
                lines[store, target, str(line["line_id"])] = (None, None)
        elif payload.get("variant_id"):
            variants[store, str(payload["variant_id"])] = (None, None)
    _read(connection, _LINES, lines)
    _read(connection, _VARIANTS, variants)
    return {
        id_: _asked(store, kind, target, payload, most_lines, lines | variants)
        for id_, store, kind, target, payload in wanted
    }


def locators(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """Return the place of the first record of each command, such as `f.csv:2`."""
    rows = read_by_keys(connection, _LOCATORS, [(id_,) for id_ in ids])
    return dict(map(tuple, rows))


def _read(
    connection: Connection, query: str, names: dict[Key, tuple[str | None, str | None]]
) -> None:
    """Complete the SKU and title of each key."""
    if names:
        for row in read_by_keys(connection, query, [*names]):
            *key, sku, title = row
            names[tuple(key)] = (sku, title)


def _lines_of(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = payload.get("lines")
    return [
        line
        for line in (found if isinstance(found, list) else ())
        if isinstance(line, dict) and "line_id" in line
    ]


def _asked(
    store: str,
    kind: str,
    target: str,
    payload: Mapping[str, Any],
    most_lines: int,
    names: Mapping[Key, tuple[str | None, str | None]],
) -> Asked:
    def name(*key: str) -> tuple[str | None, str | None]:
        return names.get((store, *key)) or (None, None)

    if not payload:
        return Asked(kind, is_damaged=True)
    if kind == "fulfill":
        lines = _lines_of(payload)
        shown = [
            AskedLine(*name(target, str(line["line_id"])), _units(line, "quantity"))
            for line in lines[:most_lines]
        ]
        return Asked(
            kind,
            lines=tuple(shown),
            more_lines=len(lines) - len(shown),
            tracking_number=payload.get("tracking_number"),
            tracking_company=payload.get("tracking_company"),
        )
    if kind == "cancel":
        return Asked(
            kind,
            restock=bool(payload.get("restock")),
            restock_unshipped=bool(payload.get("restock_unshipped")),
            reason=payload.get("reason"),
        )
    variant = str(payload.get("variant_id") or "?")
    sku, title = name(variant)
    units = _units(payload, "quantity" if kind == "target" else "delta")
    line = AskedLine(sku or variant, title, units)
    return Asked(kind, lines=(line,), reason=payload.get("reason"))


def _units(document: Mapping[str, Any], member: str) -> int | None:
    found = document.get(member)
    return found if isinstance(found, int) else None
