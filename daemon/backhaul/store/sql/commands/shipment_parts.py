"""Shipments that join several causes, such as the rows of one parcel in a file.

A part that another record of the instance brought is not shipped again, so only what
is new of a shipment becomes a record. A record that was not carried out yet gives its
parts to a later one that has all of them.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from backhaul.store.sql.records.content import record_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from backhaul.store.records import NewRecord
    from backhaul.store.sql.family import Connection

MERGED = "merged"
"""The state of a record whose parts a later one took over."""
_OPEN = frozenset({"waiting", "quarantined"})
_BY_KEY = """
    SELECT r.id, r.key, r.state, CAST(r.payload AS BLOB) FROM records r
    WHERE r.instance = :instance AND r.key = :key AND r.state != 'merged'
    UNION
    SELECT r.id, r.key, r.state, CAST(r.payload AS BLOB)
    FROM record_parts p JOIN records r ON r.id = p.record
    WHERE p.instance = :instance AND p.key = :key AND r.state != 'merged'
    ORDER BY id DESC LIMIT 1
"""


class Split(NamedTuple):
    """What is left of a shipment: its new parts, and those that contradict others.

    `contradicted` has each record with the state and the payload of the known one.
    """

    new: NewRecord | None
    contradicted: tuple[tuple[NewRecord, str, bytes], ...]


class _Known(NamedTuple):
    id: int
    key: str
    state: str
    payload: bytes
    record: dict[str, Any]

    @property
    def keys(self) -> set[str]:
        """The keys of its parts; a record without parts is one itself."""
        return {part["key"] for part in self.record.get("parts") or ()} or {self.key}

    def says(self, key: str) -> list[object]:
        """Return what it says of one of its parts."""
        parts = self.record.get("parts") or ()
        lines = next((p["lines"] for p in parts if p["key"] == key), None)
        return _said(self.record, self.record["lines"] if lines is None else lines)


def split_shipment(
    connection: Connection, instance: str, new: NewRecord
) -> Split | None:
    """Return what is left of a shipment; None for a record that is one cause alone."""
    record = record_of(new.payload or b"")
    parts: list[dict[str, Any]] = record.get("parts") or []
    if not parts:
        if not _is_part(connection, instance, new.key):
            return None
        parts = [
            {"key": new.key, "lines": record.get("lines") or [], "earlier_keys": []}
        ]
    return _Splitting(connection, instance, new, record, parts).split()


def record_parts(
    connection: Connection, instance: str, id_: int, payload: bytes
) -> None:
    """Keep which record has which parts."""
    if b'"parts"' not in payload:
        return
    connection.executemany(
        "INSERT OR REPLACE INTO record_parts VALUES (?, ?, ?)",
        [
            (instance, part["key"], id_)
            for part in record_of(payload).get("parts") or ()
        ],
    )


def _is_part(connection: Connection, instance: str, key: str) -> bool:
    query = "SELECT 1 FROM record_parts WHERE instance = ? AND key = ?"
    return connection.execute(query, (instance, key)).fetchone() is not None


def _said(record: dict[str, Any], lines: Sequence[dict[str, Any]]) -> list[object]:
    units = Counter[str]()
    for line in lines:
        units[line["sku"]] += line["quantity"]
    carrier = record.get("tracking_company"), record.get("tracking_number")
    return [record["order"], *carrier, units]


class _Splitting:
    """One shipment among what is known."""

    def __init__(
        self,
        connection: Connection,
        instance: str,
        new: NewRecord,
        record: dict[str, Any],
        parts: list[dict[str, Any]],
    ) -> None:
        self._connection = connection
        self._instance = instance
        self._new = new
        self._record = record
        self._parts = parts
        self._own = {key for part in parts for key in _keys(part)}
        self._merged: dict[int, _Known] = {}
        self._fresh: list[dict[str, Any]] = []
        self._contradicted: list[tuple[NewRecord, str, bytes]] = []

    def split(self) -> Split:
        for part in self._parts:
            self._sort(part)
        made = self._of(self._fresh) if self._fresh else None
        for known in self._merged.values():
            if made is None or known.key != made.key:
                self._merge(known)
        return Split(made, tuple(self._contradicted))

    def _sort(self, part: dict[str, Any]) -> None:
        known = self._find(part["key"])
        if known is None:
            self._take_unknown_lines(part)
        elif self._gives_way(known):
            self._fresh.append(part)
        elif known.state not in _OPEN and not self._agrees(known, part):
            self._contradicted.append((self._of([part]), known.state, known.payload))

    def _take_unknown_lines(self, part: dict[str, Any]) -> None:
        """Take a part without the lines that an older version brought by themselves."""
        earlier = part.get("earlier_keys") or []
        is_known = [bool(key) and self._is_known_earlier(key) for key in earlier]
        if not any(is_known):
            self._fresh.append(part)
            return
        pairs = zip(part["lines"], is_known, strict=False)
        if lines := [line for line, known in pairs if not known]:
            self._fresh.append({**part, "lines": lines, "earlier_keys": []})

    def _is_known_earlier(self, key: str) -> bool:
        known = self._find(key)
        return known is not None and not self._gives_way(known)

    def _gives_way(self, known: _Known) -> bool:
        """Tell whether a record that was not carried out is replaced by this one.

        One whose other rows are still in the file is whole by itself.
        """
        beside = set(self._record.get("beside") or ())
        if known.state not in _OPEN or (known.keys - self._own) & beside:
            return False
        self._merged[known.id] = known
        return True

    def _agrees(self, known: _Known, part: dict[str, Any]) -> bool:
        """Tell whether a part says the same as the known one; its key may say so."""
        if self._record.get("by_content"):
            return True
        return known.says(part["key"]) == _said(self._record, part["lines"])

    def _find(self, key: str) -> _Known | None:
        values = {"instance": self._instance, "key": key}
        row = self._connection.execute(_BY_KEY, values).fetchone()
        if row is None:
            return None
        id_, known_key, state, payload = row
        return _Known(id_, known_key, state, payload, record_of(payload))

    def _merge(self, known: _Known) -> None:
        self._connection.execute(
            "UPDATE records SET state = ?, reason = ? WHERE id = ?",
            (MERGED, f"a part of {self._new.locator or self._new.key}", known.id),
        )
        self._connection.execute(
            "UPDATE quarantine SET state = 'retried'"
            " WHERE source = 'record' AND name = ? AND key = ?",
            (self._instance, known.key),
        )

    def _of(self, parts: list[dict[str, Any]]) -> NewRecord:
        """Return the record of these parts; the others are still beside it."""
        if parts == self._parts:
            return self._new
        kept = {part["key"] for part in parts}
        others = self._own - {key for part in parts for key in _keys(part)}
        beside = [*(self._record.get("beside") or ()), *sorted(others - kept)]
        lines = [line for part in parts for line in part["lines"]]
        key = _key(sorted(kept))
        record = self._record | {"key": key, "parts": parts, "lines": lines}
        if self._record.get("beside") is not None:
            record |= {"beside": beside}
        document = msgspec.json.encode({"kind": "fulfill", "record": record})
        return replace(self._new, key=key, payload=document)


def _keys(part: dict[str, Any]) -> Collection[str]:
    return {part["key"], *filter(None, part.get("earlier_keys") or ())}


def _key(keys: Sequence[str]) -> str:
    if len(keys) == 1:
        return keys[0]
    digest = sha256("\n".join(keys).encode()).hexdigest()
    return f"parcel:{digest[:40]}"
