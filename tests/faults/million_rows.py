"""`python -m faults.million_rows FOLDER KIND ROWS`: takes rows, says its memory.

KIND is that of a file, or the way in which a table of SQLite is read.
"""

from __future__ import annotations

import asyncio
import json
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.dropping import Drop
from connectors.spreadsheets import PARTS, sheet_of
from connectors.tables import MOVEMENTS, SHIPMENTS, SqliteTables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul_sdk import Connector

HEADER = "order,tracking_company,tracking_number"
PIECE = 10_000
BATCH_ROWS = 5_000


def pieces(rows: int) -> Iterator[list[str]]:
    for first in range(0, rows, PIECE):
        yield [f"{n},DHL,JJD{n * 7919:012}" for n in range(first, first + PIECE)]


def write_csv(path: Path, rows: int) -> None:
    with path.open("w", encoding="utf-8") as stream:
        stream.write(f"{HEADER}\n")
        for piece in pieces(rows):
            stream.write("\n".join(piece) + "\n")


def write_jsonl(path: Path, rows: int) -> None:
    names = HEADER.split(",")
    with path.open("w", encoding="utf-8") as stream:
        for piece in pieces(rows):
            for row in piece:
                stream.write(json.dumps(dict(zip(names, row.split(","), strict=True))))
                stream.write("\n")


def write_xlsx(path: Path, rows: int) -> None:
    before, _, after = sheet_of(["\0"]).partition("<row>")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in PARTS.items():
            archive.writestr(name, text)
        with archive.open("xl/worksheets/sheet1.xml", "w") as sheet:
            sheet.write(before.encode() + cells([HEADER]))
            for piece in pieces(rows):
                sheet.write(cells(piece))
            sheet.write(after.partition("</row>")[2].encode())


def cells(rows: list[str]) -> bytes:
    whole = sheet_of(rows)
    return whole[whole.index("<row>") : whole.rindex("</row>") + 6].encode()


def file_of(folder: Path, kind: str, rows: int) -> Connector[Any]:
    FILES[kind](folder / f"fulfillments.{kind}", rows)
    options = {"batch_rows": BATCH_ROWS, "max_unzipped_mb": 500}
    return Drop(folder, options).connector()


def followed(folder: Path, rows: int) -> Connector[Any]:
    tables = SqliteTables(folder / "erp.db")
    tables.ship(0, rows)
    return tables.connector(fulfillments=SHIPMENTS, batch_rows=BATCH_ROWS)


def marked(folder: Path, rows: int) -> Connector[Any]:
    tables = SqliteTables(folder / "erp.db")
    tables.move(0, rows)
    return tables.connector(stock_deltas=MOVEMENTS, batch_rows=BATCH_ROWS)


FILES = {"csv": write_csv, "jsonl": write_jsonl, "xlsx": write_xlsx}
TABLES = {"followed": followed, "marked": marked}


async def take(connector: Connector[Any]) -> int:
    taken = 0
    await connector.open()
    async for batch in connector.pull(None):
        taken += len(batch.records)
        await batch.ack()
    await connector.close()
    return taken


def main(folder: str, kind: str, rows: str) -> None:
    if kind in TABLES:
        connector = TABLES[kind](Path(folder), int(rows))
    else:
        connector = file_of(Path(folder), kind, int(rows))
    taken = asyncio.run(take(connector))
    sys.stdout.write(f"{taken} {most_kilobytes() // 1000}\n")


def most_kilobytes() -> int:
    """Return the most that was resident; `ru_maxrss` counts who started us, too."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
