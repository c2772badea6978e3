"""Cells that no spreadsheet runs."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?", re.ASCII)


def formula_safe(cell: str) -> str:
    """Return the cell so that no spreadsheet runs it; numbers stay numbers."""
    is_formula = cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{cell}" if is_formula and not _NUMBER.fullmatch(cell) else cell
