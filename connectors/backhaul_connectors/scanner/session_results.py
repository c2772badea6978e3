"""What a complete session becomes: a shipment, or the CSV file of a count."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING

from backhaul_sdk import CheckFailed, Fulfillment, Line

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul_connectors.scanner.session_store import Session

FOLDER = "counts"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def require_folder(folder: Path) -> None:
    """Create the folder of counts if it is missing. Raises CheckFailed."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        problem = f"{folder} cannot be used for counts: {error}"
        raise CheckFailed(problem) from None


def fulfillment_of(session: Session, lines: tuple[Line, ...]) -> Fulfillment:
    """Return the one shipment of a picked order."""
    return Fulfillment(
        key=f"picked:{session.name}",
        order=session.order,
        tracking_company=session.tracking_company,
        tracking_number=session.tracking_number,
        lines=lines,
        shipped_at=session.shipped_at,
        locator=f"order {session.order} picked with {session.device}",
        raw="\n".join(f"{line.sku} {line.quantity}" for line in lines),
    )


def write_count(folder: Path, session: Session, lines: tuple[Line, ...]) -> str:
    """Write `sku,quantity` atomically; the same count is the same file."""
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
    """Return the SKU in a form that no spreadsheet runs as a formula."""
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
