"""A finished count as a file for a person: a scan alone sets no stock."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul_connectors.scanner.journal import Session
    from backhaul_sdk import Line

FOLDER = "counts"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_count(folder: Path, session: Session, lines: tuple[Line, ...]) -> str:
    """Write `sku,quantity`, whole or not at all; the same count is the same file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("sku", "quantity"))
    writer.writerows((_as_text(line.sku), line.quantity) for line in lines)
    counts = folder / FOLDER
    counts.mkdir(exist_ok=True, mode=0o700)
    file = counts / f"{session.id:06}-{session.device}-{session.name[:8]}.csv"
    _write_durably(file, text.getvalue())
    return f"{FOLDER}/{file.name}"


def _as_text(sku: str) -> str:
    """Keep a spreadsheet from taking it for a formula."""
    return f"'{sku}" if sku.startswith(_FORMULA) else sku


def _write_durably(file: Path, text: str) -> None:
    unfinished = file.with_suffix(".tmp")
    with unfinished.open("w", encoding="utf-8", newline="") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
