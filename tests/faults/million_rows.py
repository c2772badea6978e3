"""`python -m faults.million_rows FOLDER ENDING ROWS`: takes a file, says its memory."""

from __future__ import annotations

import asyncio
import resource
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.dropping import Drop
from connectors.spreadsheets import PARTS, sheet_of

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = "order,tracking_company,tracking_number"
PIECE = 10_000


def pieces(rows: int) -> Iterator[list[str]]:
    for first in range(0, rows, PIECE):
        yield [f"{n},DHL,JJD{n * 7919:012}" for n in range(first, first + PIECE)]


def write_csv(path: Path, rows: int) -> None:
    with path.open("w", encoding="utf-8") as stream:
        stream.write(f"{HEADER}\n")
        for piece in pieces(rows):
            stream.write("\n".join(piece) + "\n")


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


async def take(drop: Drop) -> int:
    taken = 0
    connector = drop.connector()
    await connector.open()
    async for batch in connector.pull(None):
        taken += len(batch.records)
        await batch.ack()
    return taken


def main(folder: str, ending: str, rows: str) -> None:
    write = {"csv": write_csv, "xlsx": write_xlsx}[ending]
    write(Path(folder, f"fulfillments.{ending}"), int(rows))
    drop = Drop(Path(folder), {"batch_rows": 5_000, "max_unzipped_mb": 500})
    taken = asyncio.run(take(drop))
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sys.stdout.write(f"{taken} {kilobytes // 1000}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
