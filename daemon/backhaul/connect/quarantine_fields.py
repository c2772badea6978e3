"""The fields of a quarantined row, as its record and its source name them."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backhaul.core.strict_json import storable
from backhaul.store.filters import Filter
from backhaul.store.records import ReasonClass
from backhaul_sdk.records import CANCEL_REASONS, STOCK_REASONS, TRACKING_STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul.store.read_models import Reader
    from backhaul.store.read_records import NearMatch, QuarantineDetail
    from backhaul_sdk import Bad

NEW_KINDS: Mapping[str, str] = {
    "fulfill": "shipment",
    "cancel": "cancellation",
    "adjust": "stock adjustment",
    "level": "stock count",
    "track": "status of a parcel",
}
"""The kinds that an operator can give to a row that never became a record.

The end of a full list is not among them: alone, it would set all articles to 0.
"""
LONGEST_VALUE = 2_000
MOST_COLUMNS = 60
MOST_LINES = 30
"""Lines of a shipment with inputs of their own."""
LINE = re.compile(r"lines\.([1-9]\d{0,3})\.(sku|quantity)", re.ASCII)
"""The name of a value of the n-th line of a shipment: `lines.1.sku`."""


class InputType(Struct, frozen=True):
    """How a field is entered: as `text`, a whole `number`, a `time` or a `choice`.

    `choices` are values with the word for each. `near` is what near matches are found
    of: `sku`, `order` or `carrier`.
    """

    name: str
    choices: Mapping[str, str] = {}
    near: str = ""
    needed: bool = False


_TEXT, _TIME = InputType("text"), InputType("time")
_NUMBER = InputType("number", needed=True)
_SKU = InputType("text", near="sku", needed=True)
_ORDER = InputType("text", near="order", needed=True)
_CARRIER = InputType("text", near="carrier")
_YES_OR_NO = {"true": "yes", "false": "no"}


def _one_of(words: Sequence[str]) -> InputType:
    return InputType("choice", dict(zip(words, words, strict=True)), needed=True)


FIELDS: Mapping[str, Mapping[str, InputType]] = {
    "fulfill": {
        "order": _ORDER,
        "tracking_company": _CARRIER,
        "tracking_number": _TEXT,
        "lines": _TEXT,
        "everything": InputType("choice", _YES_OR_NO),
        "shipped_at": _TIME,
    },
    "cancel": {
        "order": _ORDER,
        "restock": InputType("choice", _YES_OR_NO, needed=True),
        "reason": _one_of(sorted(CANCEL_REASONS)),
    },
    "adjust": {
        "sku": _SKU,
        "delta": _NUMBER,
        "reason": _one_of(sorted(STOCK_REASONS)),
    },
    "level": {
        "sku": _SKU,
        "quantity": _NUMBER,
        "as_of": InputType("time", needed=True),
    },
    "track": {
        "tracking_number": InputType("text", needed=True),
        "status": _one_of(TRACKING_STATUSES),
        "at": _TIME,
        "tracking_company": _CARRIER,
        "order": InputType("text", near="order"),
        "on_return": _one_of(("park", "cancel")),
    },
}
"""The fields of each kind of record that an operator can edit, in their order."""
_DEFAULTS: Mapping[tuple[str, str], str] = {
    ("track", "on_return"): "park",
    ("cancel", "reason"): "OTHER",
    ("adjust", "reason"): "MANUAL_ADJUSTMENT",
    ("fulfill", "everything"): "false",
}
"""Values of fields that a record has if nobody gives them."""
_LINE_INPUTS = {
    "sku": InputType("text", near="sku"),
    "quantity": InputType("number"),
}


class Field(Struct, frozen=True):
    """One field of a row: its name in the record, and its `column` in the source.

    `problem` is the reason of the row if this field is the invalid one.
    """

    name: str
    label: str
    column: str
    value: str
    input: InputType
    problem: str = ""


class RowFields(Struct, frozen=True):
    """What a row holds: the fields of its record, and the columns of its source.

    `kind` is None if it is not known what record the row was meant to be.
    """

    kind: str | None
    is_record: bool
    fields: tuple[Field, ...]
    source: tuple[tuple[str, str], ...]

    @property
    def invalid(self) -> Field | None:
        """The field that the reason is about, None if none is."""
        return next((each for each in self.fields if each.problem), None)


def near_of(reader: Reader, row: QuarantineDetail, form: RowFields) -> list[NearMatch]:
    """Return the near matches of the invalid name of a row, the most similar first."""
    invalid = form.invalid
    if invalid is None or not invalid.input.near or not invalid.value:
        return []
    return reader.near_matches(invalid.input.near, row.store or "", invalid.value)


def open_articles(
    reader: Reader, row: QuarantineDetail, form: RowFields
) -> list[NearMatch]:
    """Return what is left to ship of a shipment's order, if its SKU is invalid."""
    invalid = form.invalid
    if form.kind != "fulfill" or invalid is None or invalid.input.near != "sku":
        return []
    order = next((each.value for each in form.fields if each.name == "order"), "")
    found = reader.near_matches("open", row.store or "", order, MOST_LINES)
    return [each for each in found if each.name != invalid.value]


def encode_read(bad: Bad) -> bytes | None:
    """Return the values of a bad row as a document, None if it has none."""
    if bad.kind is None:
        return None
    values = {
        _stored(name): [_stored(each.text), _stored(each.column)]
        for name, each in list(bad.read.items())[:MOST_COLUMNS]
    }
    return msgspec.json.encode(
        {"kind": None, "read": {"kind": bad.kind, "values": values}}
    )


def _stored(text: str) -> str:
    return storable(text.replace("\0", ""))[:LONGEST_VALUE]


def read_values(document: Any) -> tuple[str | None, dict[str, str], dict[str, str]]:
    """Return kind, values and columns of a row that never became a record."""
    read = document.get("read") if isinstance(document, dict) else None
    if not isinstance(read, dict):
        return None, {}, {}
    kind, pairs = read["kind"], read["values"]
    values = {name: text for name, (text, _) in pairs.items()}
    columns = {name: column for name, (_, column) in pairs.items()}
    if kind == "fulfill":
        values, columns = _with_line(values), _with_line(columns)
    return kind, values, columns


def _with_line(read: dict[str, str]) -> dict[str, str]:
    """Return values whose `sku` and `quantity` are those of the first line."""
    return {
        f"lines.1.{name}" if name in _LINE_INPUTS else name: text
        for name, text in read.items()
    }


def fields_of(row: QuarantineDetail, kind: str | None = None) -> RowFields:
    """Return the fields of a row; `kind` is the one that an operator has chosen."""
    document = _document(row.payload)
    source = tuple(_columns(row))
    if document.get("kind") is not None:
        kind, is_record = document["kind"], True
        values, columns = _record_values(document), _columns_by_value(document, source)
    else:
        found, values, columns = read_values(document)
        kind, is_record = kind or found, False
    if kind is None or kind not in FIELDS:
        return RowFields(kind, is_record, (), source)
    inputs = dict(_inputs(kind, values))
    invalid = _invalid_field(row, values, inputs, columns)
    fields = tuple(
        Field(
            name,
            _label(name),
            columns.get(name, ""),
            values.get(name) or _DEFAULTS.get((kind, name), ""),
            input_,
            row.reason if name == invalid else "",
        )
        for name, input_ in inputs.items()
    )
    return RowFields(kind, is_record, fields, source)


def fields_of_many(row: QuarantineDetail) -> dict[str, str]:
    """Return what can be edited in many rows like this one: names with their labels.

    A line's SKU or quantity is named without its line. The invalid field is the first.
    """
    form, found = fields_of(row), dict[str, str]()
    for each in sorted(form.fields, key=lambda each: not each.problem):
        line = LINE.fullmatch(each.name)
        name = line[2] if line else each.name
        label = _label(name)
        if each.column and each.column.lower() not in (name, label.lower()):
            label = f"{label} ({each.column})"
        found.setdefault(name, label)
    return found


def _document(payload: str | None) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(payload or "null")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _record_values(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a record as texts, each line's by its own name."""
    values: dict[str, str] = {}
    for name, value in document["record"].items():
        if name == "lines" and isinstance(value, list):
            for number, line in enumerate(value[:MOST_LINES], 1):
                values[f"lines.{number}.sku"] = str(line.get("sku", ""))
                values[f"lines.{number}.quantity"] = str(line.get("quantity", ""))
        else:
            values[name] = text_of(value)
    if document["kind"] == "fulfill":
        # Older versions have no such member: no lines meant everything.
        has_lines = bool(document["record"].get("lines"))
        values.setdefault("everything", text_of(not has_lines))
    return values


def text_of(value: object) -> str:
    """Return a value of a record as people enter it."""
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


def _inputs(kind: str, values: Mapping[str, str]) -> Iterator[tuple[str, InputType]]:
    for name, input_ in FIELDS[kind].items():
        if name != "lines":
            yield name, input_
            continue
        numbers = [int(found[1]) for key in values if (found := LINE.fullmatch(key))]
        for number in range(1, max(numbers, default=0) + 2):
            for part, its_input in _LINE_INPUTS.items():
                yield f"lines.{number}.{part}", its_input


def _label(name: str) -> str:
    if found := LINE.fullmatch(name):
        return f"line {found[1]} {'SKU' if found[2] == 'sku' else found[2]}"
    return "SKU" if name == "sku" else name.replace("_", " ")


_SUBJECTS: Mapping[str, str] = {
    ReasonClass.UNKNOWN_ORDER: "order",
    ReasonClass.UNKNOWN_PARCEL: "tracking_number",
}


def _invalid_field(
    row: QuarantineDetail,
    values: Mapping[str, str],
    names: Mapping[str, object],
    columns: Mapping[str, str],
) -> str:
    """Return the field that a row's reason is about, an empty text if unknown.

    It is the order, SKU or parcel that the row's class names. Otherwise it is the field
    whose name the reason mentions first, in the line whose SKU the reason mentions.
    """
    if (about := _SUBJECTS.get(row.reason_class)) in names:
        return about or ""
    if row.reason_class == ReasonClass.UNKNOWN_SKU:
        skus = [name for name in names if name.endswith("sku")]
        return next((n for n in skus if values.get(n) == row.subject), skus[0])
    if row.reason_class != ReasonClass.VALUE:
        return ""
    places = {
        found: name
        for name in reversed(list(names))
        for word in _words_of(name, columns)
        if (found := _place(word, row.reason)) is not None
    }
    return _in_named_line(places[min(places)], values, row.reason) if places else ""


def _in_named_line(name: str, values: Mapping[str, str], reason: str) -> str:
    """Return the field of the line whose SKU the reason names, else the same field."""
    if (field := LINE.fullmatch(name)) is None:
        return name
    skus = {
        found[1]: sku
        for key, sku in values.items()
        if (found := LINE.fullmatch(key)) and found[2] == "sku"
    }
    named = [n for n, sku in skus.items() if sku and _place(sku, reason) is not None]
    # The longest: MUG is a part of MUG-RED.
    number = max(named, key=lambda n: len(skus[n]), default=field[1])
    return f"lines.{number}.{field[2]}"


def _words_of(name: str, columns: Mapping[str, str]) -> set[str]:
    """Return what a reason may call a field."""
    spoken = name.rpartition(".")[2]
    return {spoken, spoken.replace("_", " "), columns.get(name, "")} - {""}


def _place(word: str, reason: str) -> int | None:
    found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", reason, re.IGNORECASE)
    return found.start() if found else None


def _columns(row: QuarantineDetail) -> Iterator[tuple[str, str]]:
    """Yield the columns of a row's text with their values, if it can be read so.

    The text of a row is a JSON object, or a line of CSV below its header.
    """
    raw = row.raw if isinstance(row.raw, str) else ""
    if row.source != "record":
        return
    if raw.startswith("{"):
        for name, value in list(_document(raw).items())[:MOST_COLUMNS]:
            yield str(name), text_of(value)
        return
    header, _, rest = raw.partition("\n")
    if not rest or "\n" in rest.strip("\n"):
        return
    sign = max(",;\t|", key=header.count)
    try:
        names, cells = csv.reader([header, rest.strip("\n")], delimiter=sign)
    except (csv.Error, ValueError):
        return
    if len(names) >= len(cells) > 0 and any(sign in each for each in (header, rest)):
        cells += [""] * (len(names) - len(cells))
        yield from list(zip(names, cells, strict=True))[:MOST_COLUMNS]


def _columns_by_value(
    document: Mapping[str, Any], source: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """Return the column of each value of a record that one column alone has."""
    columns: dict[str, str] = {}
    for name, value in _record_values(document).items():
        found = [column for column, text in source if text.strip() == value != ""]
        if len(found) == 1:
            columns[name] = found[0]
    return columns


def alike(row: QuarantineDetail) -> Filter:
    """Return the filter of the open rows that have the same reason as a row.

    They have its class and subject. Rows of a connection with a value that cannot be
    used have the same text as their reason.
    """
    reason = row.reason_class
    if row.source == "record" and row.subject:
        return Filter(store=row.store, reason=reason, subject=row.subject)
    if row.source == "record" and reason == ReasonClass.VALUE:
        return Filter(store=row.store, connector=row.name, like=str(row.id))
    return Filter(ids=(row.id,))
