"""Writes the messages of an interchange as rows of one kind of file."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backhaul_connectors.file_drop.columns import (
    FulfillmentColumns,
    StockLevelColumns,
)
from backhaul_connectors.file_drop.csv_reader import key_of
from backhaul_connectors.file_drop.edi.desadv import DespatchAdvice
from backhaul_connectors.file_drop.edi.envelope import Envelopes
from backhaul_connectors.file_drop.edi.invrpt import InventoryReport
from backhaul_connectors.file_drop.edi.repetitions import Content, Documents, digest_of
from backhaul_connectors.file_drop.edi.rows import COLUMNS, KEYS, Notes, sender_of
from backhaul_connectors.file_drop.edi.segments import segments_of
from backhaul_connectors.file_drop.edi.x12_inventory import InventoryAdvice
from backhaul_connectors.file_drop.edi.x12_shipments import ShipNotice, ShippingAdvice
from backhaul_connectors.file_drop.files import FileCopy, FileUnreadable, matches
from backhaul_connectors.file_drop.json_reader import csv_line
from backhaul_connectors.file_drop.parsing import file_kinds
from backhaul_sdk import Bad
from backhaul_sdk.files import run_in_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from typing import BinaryIO, TypeAlias

    from backhaul_connectors.file_drop.edi.envelope import Message
    from backhaul_connectors.file_drop.edi.rows import EdiRow, MessageReader
    from backhaul_connectors.file_drop.edi_settings import EdiSettings
    from backhaul_connectors.file_drop.files import ReadableFile, TemporaryCopies
    from backhaul_connectors.file_drop.parsing import FileKind
    from backhaul_connectors.file_drop.settings import Settings

    Reader: TypeAlias = "Callable[[Message, EdiSettings, Notes], MessageReader]"

STEP_ROWS = 500
MOST_UNREAD = 10_000
"""Most messages of a file that are reported as not read; they are in memory."""
NOT_READ = frozenset({"CONTRL", "APERAK", "TA1", "997", "999", "824"})
"""Acknowledgements: they say nothing about the store, so a note is enough."""
READERS: Mapping[str, tuple[str, Reader]] = {
    "DESADV": ("fulfillment", DespatchAdvice),
    "INVRPT": ("stock level", InventoryReport),
    "856": ("fulfillment", ShipNotice),
    "945": ("fulfillment", ShippingAdvice),
    "846": ("stock level", InventoryAdvice),
}
"""The messages that are read: the kind of their rows, and their reader."""


class InterchangeFacts(Struct, frozen=True):
    """What is known of an interchange besides its rows.

    `messages` names the types, `unread` are messages that are not read, and `notes`
    are for the log. `partner` is the sender and `own` the recipient, each with its
    qualifier.
    """

    messages: str
    notes: tuple[str, ...] = ()
    unread: tuple[Bad, ...] = ()
    own: tuple[str, str] = ("", "")
    partner: tuple[str, str] = ("", "")


class ReadInterchange(Struct, frozen=True):
    """The rows of an interchange as a file of CSV, and the settings that read it."""

    rows: FileCopy
    settings: Settings
    facts: InterchangeFacts


async def read_interchange(
    file: ReadableFile, settings: Settings, copies: TemporaryCopies
) -> ReadInterchange:
    """Return the rows of an interchange. Raises FileUnreadable or FileChanged."""
    lines = copies.make()
    work = _Spread(file, settings, lines)
    await run_in_steps(work.run())
    own = settings_for_rows(settings)
    form = next(each for each in file_kinds(own) if each.kind == work.kind)
    rows = FileCopy(file.name, form, file.fingerprint, lines)
    return ReadInterchange(rows, own, work.facts())


def settings_for_rows(settings: Settings) -> Settings:
    """Return the settings that read the rows: our own columns, ISO times."""
    return settings.model_copy(
        update={
            "fulfillment_columns": FulfillmentColumns(),
            "stock_level_columns": StockLevelColumns(),
            "key_columns": KEYS,
            "header": (),
            "header_row": "find",
            "quote": '"',
            "decimal": ".",
            "date_format": "",
        }
    )


class _Spread:
    """Writes the rows; the first message that is read decides the kind of the file."""

    def __init__(self, file: ReadableFile, settings: Settings, lines: BinaryIO) -> None:
        self._file = file
        self._settings = settings
        self._lines = lines
        self._notes = Notes()
        self._unread: list[Bad] = []
        self._types = Counter[str]()
        self._documents = Documents()
        self._first: Message | None = None
        self.kind = ""

    def run(self) -> Generator[None]:
        """Write the header and the rows, in steps. Raises FileUnreadable."""
        encoding = self._settings.encoding
        number = 0
        with self._file.open() as stream:
            segments = segments_of(stream, "" if encoding == "auto" else encoding)
            for message in Envelopes(segments).messages():
                for row in self._rows(message):
                    self._write(row.cells(COLUMNS[self.kind]))
                    number += 1
                    if number % STEP_ROWS == 0:
                        yield
        if not self.kind:
            raise FileUnreadable(self._nothing())
        yield

    def facts(self) -> InterchangeFacts:
        first = self._first
        if first is None:
            raise TypeError("an interchange without a message has no facts")
        around = first.interchange
        types = ", ".join(f"{name} ({n})" for name, n in self._types.items())
        syntax = "X12" if first.type.isdigit() else f"EDIFACT {first.version}"
        return InterchangeFacts(
            messages=f"{syntax.strip()}: {types}",
            notes=tuple(f"{self._file.name}: {said}" for said in self._notes),
            unread=tuple(self._unread),
            own=(around.recipient, around.recipient_qualifier),
            partner=(around.sender, around.sender_qualifier),
        )

    def _rows(self, message: Message) -> Iterator[EdiRow]:
        check_parties(message, self._settings.edi)
        self._types[message.type] += 1
        if message.type in NOT_READ:
            self._notes.add(f"{message.name} is an acknowledgement, and is not read")
            return
        kind, reader = READERS.get(message.type, ("", None))
        if reader is None:
            known = ", ".join(READERS)
            self._leave(message, f"Backhaul reads only {known}")
            return
        if not self.kind:
            self._begin(message, kind)
        if kind != self.kind and self._first is not None:
            self._leave(
                message,
                f"the file is read as {self.kind}s because of {self._first.name}"
                f" ({self._first.type}). Ask the sender for a file of its own",
            )
            return
        begin, content = self._lines.tell(), Content(message.segments)
        digested = replace(message, segments=iter(content))
        found, parts = reader(digested, self._settings.edi, self._notes), array("Q")
        for row in found.rows():
            if row.part:
                parts.append(digest_of(row.part))
            yield row
        self._compare(message, found.document, content.digest, parts, begin)

    def _compare(
        self,
        message: Message,
        document: str,
        content: int,
        parts: array[int],
        begin: int,
    ) -> None:
        """Remove the rows of a message from `begin` on if the file had them before."""
        seen = self._documents.add(message, document, content, parts)
        if seen == "new":
            return
        self._lines.seek(begin)
        self._lines.truncate()
        if seen == "repeated":
            self._notes.add(
                f"{message.name} repeats an earlier message of this file, so it is left"
                " out"
            )
        else:
            self._leave(
                message,
                f"an earlier message of this file has the document {document!r} with"
                " other content, for an order or a SKU that this message has too. Ask"
                " the sender which one is right. If it is this one, or both are,"
                " correct the orders or the stock in the store",
                content,
            )

    def _begin(self, message: Message, kind: str) -> None:
        """Set the kind of the file, if the settings have files of that kind here."""
        form = _form(self._settings, kind, self._file.name)
        if form is None:
            setting = f"{kind.replace(' ', '_')}s"
            raise FileUnreadable(
                f"{message.name} is {message.type}, which has {kind}s, and the name"
                f" {self._file.name!r} does not match the pattern {setting}; set"
                f' {setting}, such as {setting} = "*.{_ending(self._file.name)}"'
            )
        self.kind, self._first = kind, message
        self._write(COLUMNS[kind])

    def _write(self, cells: Sequence[str]) -> None:
        line = f"{csv_line([_one_line(cell) for cell in cells])}\n"
        self._lines.write(line.encode("utf-8", "surrogateescape"))

    def _leave(self, message: Message, why: str, content: int | None = None) -> None:
        """Report a message; `content` distinguishes those with the same references.

        Raises FileUnreadable if there are too many of them.
        """
        if len(self._unread) >= MOST_UNREAD:
            raise FileUnreadable(
                f"the file has more than {MOST_UNREAD:,} messages that cannot be read;"
                f" {message.name} is {message.type}, and {why}"
            )
        around = message.interchange
        named = [sender_of(message), around.reference, message.reference, message.type]
        self._unread.append(
            Bad(
                key=key_of("message", named if content is None else [*named, content]),
                raw=self._file.name,
                reason=f"{message.name} is {message.type}, and is not read: {why}",
                locator=f"{self._file.name}, {message.name}",
            )
        )

    def _nothing(self) -> str:
        has = ", ".join(f"{name} ({n})" for name, n in self._types.items())
        return (
            "the interchange has no message that Backhaul reads"
            f" ({', '.join(READERS)}); it has {has or 'none'}"
        )


def check_parties(message: Message, edi: EdiSettings) -> None:
    """Refuse a test, and an interchange of another sender or for somebody else."""
    around = message.interchange
    if around.is_test and not edi.test:
        raise FileUnreadable(
            f"the interchange {around.reference} is marked as a test, so Backhaul took"
            " nothing of it; set edi.test = true if tests are to be imported"
        )
    for whose, said, expected in (
        ("recipient", around.recipient, edi.own_id),
        ("sender", around.sender, edi.partner_id),
    ):
        setting = "own_id" if whose == "recipient" else "partner_id"
        if expected and said != expected:
            raise FileUnreadable(
                f"the {whose} of the interchange {around.reference} is {said!r}, and"
                f" edi.{setting} is {expected!r}; correct edi.{setting}, or give the"
                " file to its recipient"
            )


def _form(settings: Settings, kind: str, name: str) -> FileKind | None:
    """Return the kind of file, if its pattern of the settings matches the name."""
    return next(
        (
            each
            for each in file_kinds(settings)
            if each.kind == kind and matches(name.lower(), each.pattern)
        ),
        None,
    )


def _ending(name: str) -> str:
    return name.rpartition(".")[2] or "edi"


def _one_line(cell: str) -> str:
    return " ".join(cell.split()) if "\n" in cell or "\r" in cell else cell
