"""Shipments that join several causes, such as the rows of one parcel in a file.

A part that another record of the connection has is not shipped again, so only the new
parts of a shipment become a record. A record that was not carried out yet gives its
parts to a later record that has all of them.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from backhaul.store.sql.dialect import as_bytes
from backhaul.store.sql.records.content import record_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from backhaul.store.records import NewRecord
    from backhaul.store.sql.family import Connection

MERGED = "merged"
"""The state of a record whose parts a later record took over."""
_OPEN = frozenset({"waiting", "quarantined"})
_BY_KEY = """
    SELECT r.id, r.key, r.state, r.payload FROM records r
    WHERE r.instance = :instance AND r.key = :key AND r.state != 'merged'
    UNION
    SELECT r.id, r.key, r.state, r.payload
    FROM record_parts p JOIN records r ON r.id = p.record
    WHERE p.instance = :instance AND p.key = :key AND r.state != 'merged'
    ORDER BY id DESC LIMIT 1
"""
_IS_PART = "SELECT 1 FROM record_parts WHERE instance = :instance AND key = :key"
_ADD_PART = """
    INSERT INTO record_parts (instance, key, record) VALUES (:instance, :key, :record)
    ON CONFLICT (instance, key) DO UPDATE SET record = excluded.record
"""
_MERGE = "UPDATE records SET state = :merged, reason = :reason WHERE id = :id"
_CLOSE_ROW = """
    UPDATE quarantine SET state = 'retried'
    WHERE source = 'record' AND name = :instance AND key = :key
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
        """The keys of its parts; a record without parts is its own part."""
        return {part["key"] for part in self.record.get("parts") or ()} or {self.key}

    def content(self, key: str) -> list[object]:
        """Return what the record asks for in one of its parts."""
        parts = self.record.get("parts") or ()
        lines = next((p["lines"] for p in parts if p["key"] == key), None)
        return _content(self.record, self.record["lines"] if lines is None else lines)


def split_shipment(
    connection: Connection, instance: str, new: NewRecord
) -> Split | None:
    """Return what is left of a shipment; None for a record with one cause only."""
    record = record_of(new.payload or b"")
    parts: list[dict[str, Any]] = record.get("parts") or []
    if not parts:
        values = {"instance": instance, "key": new.key}
        if connection.execute(_IS_PART, values).fetchone() is None:
            return None
        parts = [
            {"key": new.key, "lines": record.get("lines") or [], "earlier_keys": []}
        ]
    return _Splitter(connection, instance, new, record, parts).split()


def record_parts(
    connection: Connection, instance: str, id_: int, payload: bytes
) -> None:
    """Keep the parts of a record."""
    if b'"parts"' not in payload:
        return
    parts = record_of(payload).get("parts") or ()
    values = [{"instance": instance, "key": p["key"], "record": id_} for p in parts]
    connection.executemany(_ADD_PART, values)


def _content(record: dict[str, Any], lines: Sequence[dict[str, Any]]) -> list[object]:
    units = Counter[str]()
    for line in lines:
        units[line["sku"]] += line["quantity"]
    carrier = record.get("tracking_company"), record.get("tracking_number")
    return [record["order"], *carrier, units]


class _Splitter:
    """Divides one shipment into parts that are new and parts that are known."""

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
        new = self._record_of(self._fresh) if self._fresh else None
        for known in self._merged.values():
            if new is None or known.key != new.key:
                self._merge(known)
        return Split(new, tuple(self._contradicted))

    def _sort(self, part: dict[str, Any]) -> None:
        known = self._find(part["key"])
        if known is None:
            self._take_unknown_lines(part)
        elif self._is_replaced(known):
            self._fresh.append(part)
        elif known.state not in _OPEN and not self._agrees(known, part):
            contradicted = self._record_of([part]), known.state, known.payload
            self._contradicted.append(contradicted)

    def _take_unknown_lines(self, part: dict[str, Any]) -> None:
        """Take a part without the lines that an older version submitted alone."""
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
        return known is not None and not self._is_replaced(known)

    def _is_replaced(self, known: _Known) -> bool:
        """Return True if this shipment replaces a record that was not carried out.

        A record whose other rows are still in the file is complete without this one.
        """
        beside = set(self._record.get("beside") or ())
        if known.state not in _OPEN or (known.keys - self._own) & beside:
            return False
        self._merged[known.id] = known
        return True

    def _agrees(self, known: _Known, part: dict[str, Any]) -> bool:
        """Return True if a part and the known one ask for the same.

        Their equal keys prove it if the keys are made from the content.
        """
        if self._record.get("by_content"):
            return True
        return known.content(part["key"]) == _content(self._record, part["lines"])

    def _find(self, key: str) -> _Known | None:
        values = {"instance": self._instance, "key": key}
        row = self._connection.execute(_BY_KEY, values).fetchone()
        if row is None:
            return None
        id_, known_key, state, text = row
        payload = as_bytes(text)
        return _Known(id_, known_key, state, payload, record_of(payload))

    def _merge(self, known: _Known) -> None:
        reason = f"a part of {self._new.locator or self._new.key}"
        values = {"merged": MERGED, "reason": reason, "id": known.id}
        self._connection.execute(_MERGE, values)
        row = {"instance": self._instance, "key": known.key}
        self._connection.execute(_CLOSE_ROW, row)

    def _record_of(self, parts: list[dict[str, Any]]) -> NewRecord:
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
