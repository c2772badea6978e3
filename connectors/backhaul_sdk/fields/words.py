"""Reads words with a fixed meaning: yes or no, reasons, and statuses."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from backhaul_sdk.fields.identifiers import text_of
from backhaul_sdk.fields.texts import (
    Unusable,
    missing,
    plain,
    shown,
    without_text_mark,
)
from backhaul_sdk.records import CANCEL_REASONS, STOCK_REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping

YES = frozenset({"yes", "y", "true", "t", "1"})
NO = frozenset({"no", "n", "false", "f", "0"})


def yes_or_no(value: object, name: str) -> bool:
    """Return the truth value of yes, no, true, false, 1, 0 and their initials."""
    text = without_text_mark(value) if isinstance(value, str) else _number_word(value)
    if text.casefold() not in YES | NO:
        raise Unusable(f"{name} must be yes or no, not {shown(value)}")
    return text.casefold() in YES


def _number_word(value: object) -> str:
    if isinstance(value, int | float | Decimal) and value in (0, 1):
        return str(int(value))
    return ""


def word(value: object, name: str) -> str:
    """Return a required word that the settings may translate, such as a status.

    A placeholder is a word like any other. Raises Unusable if there is none.
    """
    text = text_of(value, name)
    if not text:
        raise Unusable(missing(None, name))
    return text


def reason(
    value: object,
    known: frozenset[str],
    default: str,
    reason_map: Mapping[str, str] | None = None,
) -> str:
    """Return the platform's reason; `default` if there is none.

    `known` are `CANCEL_REASONS` or `STOCK_REASONS`. `reason_map` maps the back office's
    own words, in any spelling; `*` stands for all others. A word that neither knows is
    refused with a list of the valid ones.
    """
    text = without_text_mark(text_of(value, "reason"))
    named = {_folded(each): meaning for each, meaning in (reason_map or {}).items()}
    if text and (meaning := named.get(_folded(text))) in known:
        return str(meaning)
    try:
        return reason_of(text, known, default)
    except Unusable as error:
        if (meaning := named.get("*")) in known:
            return str(meaning)
        raise Unusable(f"{error}, or add the reason to reason_map") from None


def reason_of(text: str, known: frozenset[str], default: str) -> str:
    """Return the platform's reason for a text in any spelling; `default` if empty.

    `known` are `CANCEL_REASONS` or `STOCK_REASONS`: "out of stock" is OUT_OF_STOCK.
    Raises Unusable for an unknown reason.
    """
    found = re.sub(r"[\s-]+", "_", text).upper() or default
    if found not in known:
        raise Unusable(
            f"the reason {text!r} is unknown; use {', '.join(sorted(known))}"
        )
    return found


def checked_reason_map(reason_map: Mapping[str, str]) -> Mapping[str, str]:
    """Return a `reason_map` of settings. Raises ValueError for an unknown reason."""
    known = CANCEL_REASONS | STOCK_REASONS
    if wrong := sorted(set(reason_map.values()) - known):
        names = ", ".join(sorted(known))
        raise ValueError(
            f"reason_map contains unknown reasons: {', '.join(wrong)}. The reasons"
            f" are {names}"
        )
    return reason_map


def _folded(text: str) -> str:
    return re.sub(r"[\s_-]+", "_", plain(text)).casefold()
