"""Makes the record of a quarantined row with the fields that an operator edited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backhaul.connect.new_mappings import near_in_words
from backhaul.connect.quarantine_fields import (
    FIELDS,
    LINE,
    NEW_KINDS,
    fields_of,
    read_values,
)
from backhaul.connect.record_matching import RECORD_TYPES
from backhaul.errors import BackhaulError
from backhaul.store.records import QuarantinedRow
from backhaul_sdk.fields import Unusable, reason_of, stock_change
from backhaul_sdk.records import CANCEL_REASONS, STOCK_REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.store.read_models import Reader
    from backhaul.store.read_records import QuarantineDetail


KEPT_KIND = "kept"
"""The kind of a row that its connector keeps and applies unchanged."""
READ_ONLY_FIELDS = frozenset(
    {"key", "raw", "locator", "parts", "beside", "by_content", "question"}
)
"""Members of a record that an operator cannot edit."""


def edited_record(
    row: QuarantinedRow, kind: str | None, fields: Mapping[str, str]
) -> bytes:
    """Return a quarantined row's record with edited fields. Raises BackhaulError.

    A row that never became a record becomes one of its `kind`, with the values that
    were read and are not edited. `kind` may be missing if the reader knew it. The
    values of a shipment's lines have names such as `lines.1.sku`; `sku` alone is that
    of the lines that the row's reason is about, or of the only line.
    """
    known = msgspec.json.decode(row.payload)
    if known is None or known["kind"] is None:
        read_kind, values, _ = read_values(known)
        kind = _new_kind(kind or read_kind)
        known = {"kind": kind, "record": _record_of(row)}
        fields = {**_usable(kind, values), **fields}
    elif known["kind"] == "fulfill":
        # Older versions have no such member: no lines meant everything.
        known["record"].setdefault("everything", not known["record"].get("lines"))
    _require_editable(row, kind, known)
    type_ = RECORD_TYPES[known["kind"]]
    record, fields = _with_lines(row, known, fields)
    allowed = set(type_.__struct_fields__) - READ_ONLY_FIELDS
    if strange := sorted(set(fields) - allowed):
        raise BackhaulError(
            f"a record of the kind {known['kind']} has no field"
            f" {', '.join(strange)}; its fields are {', '.join(sorted(allowed))}"
        )
    record |= {name: _value(fields[name]) for name in fields}
    record = {n: v for n, v in record.items() if v != "" or n not in _OPTIONAL}
    if record.get("lines") and "everything" not in fields:
        record.pop("everything", None)
    return _encoded(known, record, type_)


class PreviewedEdit(Struct, frozen=True):
    """What an edit of one field does in a row: `3 → 4`, or why it is refused."""

    change: str = ""
    problem: str = ""


def preview_edit(row: QuarantineDetail, field: str, value: str) -> PreviewedEdit:
    """Return what an edit of one field would do in a row.

    A field of a line is named without its line, as in `edited_record`.
    """
    found = QuarantinedRow(
        row.id,
        row.source,
        row.name,
        row.key,
        row.locator,
        row.state,
        row.reason,
        row.payload or "null",
        None,
        row.store or "",
        row.subject,
    )
    try:
        payload = edited_record(found, None, {field: value}).decode()
    except BackhaulError as error:
        return PreviewedEdit(problem=str(error))
    before = {each.name: each.value for each in fields_of(row).fields}
    changes = [
        f"{before.get(each.name) or 'none'} → {each.value or 'none'}"
        for each in fields_of(replace(row, payload=payload)).fields
        if each.name.rpartition(".")[2] == field
        and each.value != before.get(each.name, "")
    ]
    return PreviewedEdit(", ".join(changes))


def _usable(kind: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return the values that were read and that a record of the kind has."""
    names = {*FIELDS[kind]}
    return {
        name: text
        for name, text in values.items()
        if text and (name in names or (kind == "fulfill" and LINE.fullmatch(name)))
    }


_OPTIONAL = frozenset(
    {"tracking_company", "shipped_at", "at"} | {"everything", "restock", "reason"}
)
"""Fields that an empty text removes from a record."""


def _require_editable(
    row: QuarantinedRow, kind: str | None, known: Mapping[str, Any]
) -> None:
    if known["kind"] == KEPT_KIND:
        raise BackhaulError(
            f"row {row.id} cannot be edited, because its content is not in the"
            f" database: it is in a file that the connector keeps. To apply it,"
            f" run: backhaul quarantine retry {row.id}"
        )
    if kind not in {None, known["kind"]}:
        raise BackhaulError(
            f"row {row.id} is a record of the kind {known['kind']}, not {kind}; leave"
            " out --kind"
        )
    if known["kind"] not in RECORD_TYPES:
        raise BackhaulError(
            f"{known['kind']!r} is not a kind of record; the kinds are"
            f" {', '.join(RECORD_TYPES)}"
        )


def _encoded(known: Mapping[str, Any], record: object, type_: type[Any]) -> bytes:
    try:
        plain = msgspec.to_builtins(msgspec.convert(record, type_, strict=False))
        _require_usable(known["kind"], plain)
        return msgspec.json.encode({**known, "record": plain})
    except (msgspec.ValidationError, Unusable) as error:
        raise BackhaulError(
            f"the edited row is not a valid {known['kind']}: {error}"
        ) from None
    except UnicodeEncodeError:
        raise BackhaulError(
            "a field contains characters that are not valid text"
        ) from None


def _require_usable(kind: str, record: dict[str, Any]) -> None:
    """Check what only readers check, and spell a reason as the platform does."""
    if kind == "adjust":
        stock_change(record["delta"], "delta", "system")
    if (reasons := _REASONS.get(kind)) is not None:
        known, default = reasons
        record["reason"] = reason_of(record["reason"], known, default)


_REASONS = {
    "cancel": (CANCEL_REASONS, "OTHER"),
    "adjust": (STOCK_REASONS, "MANUAL_ADJUSTMENT"),
}


def require_known_names(store: str, fields: Mapping[str, str], reader: Reader) -> None:
    """Raise BackhaulError if an edit names an unknown SKU or order that is near to one.

    A name that is not like any other may be new: its record waits for it.
    """
    for field, name in fields.items():
        kind = field.rpartition(".")[2]
        if kind not in {"sku", "order"} or not name or reader.knows(kind, store, name):
            continue
        if near := reader.near_matches(kind, store, name, 3):
            word = "SKU" if kind == "sku" else kind
            raise BackhaulError(
                f"store {store} has no {word} {name}{near_in_words(near)}. Nothing was"
                " changed"
            )


def _with_lines(
    row: QuarantinedRow, known: Mapping[str, Any], fields: Mapping[str, str]
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Return the record with the edited lines, and the fields that are not of lines."""
    record = dict(known["record"])
    if known["kind"] != "fulfill":
        return record, fields
    lines = [dict(line) for line in record.get("lines") or ()]
    others: dict[str, str] = {}
    edits: list[tuple[int, str, str]] = []
    for name, text in fields.items():
        if found := LINE.fullmatch(name):
            edits.append((int(found[1]), found[2], text))
        elif name in {"sku", "quantity"}:
            edits += [(n, name, text) for n in _lines_meant(row, name, lines)]
        else:
            others[name] = text
    if not edits:
        return record, others
    for number, part, text in sorted(edits):
        _edit_line(lines, number, part, text)
    for line in lines:
        if line.get("sku") and line.get("quantity") in {None, ""}:
            line["quantity"] = 1  # as readers take a row without a quantity
    return {**record, "lines": [line for line in lines if any(line.values())]}, others


def _lines_meant(
    row: QuarantinedRow, name: str, lines: list[dict[str, Any]]
) -> list[int]:
    """Return the numbers of the lines whose SKU or quantity an edit sets."""
    if len(lines) <= 1:
        return [1]
    about = [n for n, line in enumerate(lines, 1) if line.get("sku") == row.subject]
    if about and name == "sku":
        return about
    raise BackhaulError(
        f"the shipment of row {row.id} has {len(lines)} lines; name the line, such as"
        f" lines.1.{name}"
    )


def _edit_line(lines: list[dict[str, Any]], number: int, part: str, text: str) -> None:
    if number > len(lines) + 1:
        raise BackhaulError(
            f"there is no line {number}: the shipment has {len(lines)} lines, and you"
            f" can add line {len(lines) + 1}"
        )
    if number > len(lines):
        lines.append({})
    lines[number - 1][part] = text.strip()


def _record_of(row: QuarantinedRow) -> dict[str, Any]:
    return {"key": row.key, "locator": row.locator}


def _value(text: str) -> object:
    """Return a JSON list as a list, and any other text unchanged."""
    if text.startswith(("[", "{")):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BackhaulError(f"{text[:40]!r} is not valid JSON: {error}") from None
    return text


def _new_kind(kind: str | None) -> str:
    if kind is None:
        raise BackhaulError(
            "Backhaul could not read this row, so it does not know the kind of the"
            f" record. Add --kind with {_kinds()}"
        )
    if kind not in NEW_KINDS:
        raise BackhaulError(f"--kind cannot be {kind!r}; use {_kinds()}")
    return kind


def _kinds() -> str:
    *others, last = (f"{kind} ({meaning})" for kind, meaning in NEW_KINDS.items())
    return f"one of: {', '.join(others)} or {last}"
