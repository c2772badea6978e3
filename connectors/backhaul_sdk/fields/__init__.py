"""Reads the fields of a row, an item or a message: one function for each kind.

Every connector uses this package, so that a value means the same in a file, in a table
and in a JSON document. An unusable value raises Unusable with a text for operators.
"""

from backhaul_sdk.fields.identifiers import article, identifier, key, label
from backhaul_sdk.fields.quantities import (
    TAKEN_AS_ZERO,
    DecimalSign,
    shipped_units,
    stock_change,
    stock_of,
    whole_number,
)
from backhaul_sdk.fields.texts import (
    UNREADABLE,
    Unusable,
    counted,
    is_placeholder,
    missing,
    plain,
    without_text_mark,
)
from backhaul_sdk.fields.times import (
    Inexact,
    day_alone,
    moment,
    moment_if_exact,
    parse_time,
    rfc3339,
    zone_named,
)
from backhaul_sdk.fields.words import (
    checked_reason_map,
    reason,
    reason_of,
    word,
    yes_or_no,
)

__all__ = [
    "TAKEN_AS_ZERO",
    "UNREADABLE",
    "DecimalSign",
    "Inexact",
    "Unusable",
    "article",
    "checked_reason_map",
    "counted",
    "day_alone",
    "identifier",
    "is_placeholder",
    "key",
    "label",
    "missing",
    "moment",
    "moment_if_exact",
    "parse_time",
    "plain",
    "reason",
    "reason_of",
    "rfc3339",
    "shipped_units",
    "stock_change",
    "stock_of",
    "whole_number",
    "without_text_mark",
    "word",
    "yes_or_no",
    "zone_named",
]
