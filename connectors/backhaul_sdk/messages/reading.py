"""Reads the messages of one source as records, or says what is wrong with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from backhaul_sdk.calls import NotJson, read_json
from backhaul_sdk.fields import Unusable
from backhaul_sdk.json_items import ItemParser, digest_of, text_of
from backhaul_sdk.json_paths import find
from backhaul_sdk.records import Bad, StockLevel
from backhaul_sdk.stock_list_items import StockListItems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul_sdk.messages.broker import Message
    from backhaul_sdk.messages.settings import Source
    from backhaul_sdk.records import Record

LONGEST_ID = 200
NO_KEY = (
    "a stock adjustment needs a key: set key to the id of the movement, or let the"
    " sender set a message id; without one Backhaul cannot tell a repeated message from"
    " a second movement"
)


class MessageReader:
    """Reads the messages of one source.

    The key of a record is the `key` of its item. If the settings name none, it is the
    message's id, and else a digest of the message, with the number of the item in the
    message. A bad record has the message's id or digest, too.
    """

    def __init__(self, name: str, settings: Source) -> None:
        self._name = name
        self._settings = settings

    def read(self, message: Message) -> Sequence[Record | Bad]:
        """Return the records of a message; an unreadable one becomes a bad record."""
        body = message.body
        if len(body) > self._settings.most_bytes:
            return [self._bad(message, body, self._too_large(body), "")]
        if self._settings.format == "lines":
            return self._read_lines(message)
        try:
            items = self._items(_parsed(body))
        except Unusable as error:
            return [self._bad(message, body, str(error), "")]
        places = _places(len(items))
        return self._records(message, list(zip(items, places, strict=True)))

    def _read_lines(self, message: Message) -> Sequence[Record | Bad]:
        items: list[tuple[Any, str]] = []
        bad: list[Bad] = []
        for number, line in enumerate(message.body.split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                items.append((_parsed(line), f"#{number}"))
            except Unusable as error:
                reason = f"line {number}: {error}"
                bad.append(self._bad(message, line, reason, f"#{number}"))
        if not items and not bad:
            bad.append(self._bad(message, message.body, "the message is empty", ""))
        return [*self._records(message, items), *bad]

    def _items(self, document: Any) -> Sequence[Any]:
        found = find(self._settings.items, document)
        if isinstance(found, list):
            return found
        if isinstance(found, dict):
            return [found]
        raise Unusable(
            "the message has neither an object nor an array at"
            f" {self._settings.items!r}, which items names"
        )

    def _records(
        self, message: Message, items: Sequence[tuple[Any, str]]
    ) -> Sequence[Record | Bad]:
        """Return the records of items, each with its place in the message."""
        settings = self._settings
        parser = ItemParser(self._name, settings, message.sent_at, settings.most_bytes)
        levels = StockListItems(adds_up=settings.same_sku == "sum")
        records: list[Record | Bad] = []
        for item, place in items:
            record = self._read_item(message, parser, item, place)
            if settings.kind == "stock_level":
                levels.add(record, parser.number, parser.article(item))
            else:
                records.append(record)
        return [*records, *map(_in_order, levels.records())]

    def _read_item(
        self, message: Message, parser: ItemParser, item: Any, place: str
    ) -> Record | Bad:
        text, own_key = text_of(item), ""
        if self._settings.key is None:
            # Equal messages may be two movements: a digest would join them.
            if not message.id and self._settings.kind == "stock_adjustment":
                return self._bad(message, text.encode(), NO_KEY, place)
            own_key = f"{_identity(message)}{place}"
        record = parser.read(item, text, own_key)
        if isinstance(record, Bad):
            where = f"{record.locator}, {message.locator}"
            return replace(record, key=self._bad_key(message, place), locator=where)
        return record

    def _too_large(self, body: bytes) -> str:
        return (
            f"the message has {len(body):,} bytes, and most_bytes is"
            f" {self._settings.most_bytes:,}; only the beginning is kept here"
        )

    def _bad(self, message: Message, body: bytes, reason: str, place: str) -> Bad:
        return Bad(
            key=self._bad_key(message, place),
            raw=body[: self._settings.most_bytes].decode("utf-8", "replace"),
            reason=reason,
            locator=f"{self._name} {message.locator}",
        )

    def _bad_key(self, message: Message, place: str) -> str:
        return f"{self._name}:bad:{_identity(message)}{place}"


def read_all(reader: MessageReader, messages: Sequence[Message]) -> list[Record | Bad]:
    """Return the records of messages, in their order."""
    return [record for message in messages for record in reader.read(message)]


def _identity(message: Message) -> str:
    """Return what is the same whenever the message is delivered."""
    if message.id and len(message.id) <= LONGEST_ID:
        return message.id
    return digest_of(message.id or message.body.decode("latin-1"))


def _places(number: int) -> Sequence[str]:
    """Return the places of the items of a message; a single item needs none."""
    return [""] if number == 1 else [f"#{place}" for place in range(1, number + 1)]


def _parsed(body: bytes) -> Any:
    try:
        return read_json(body)
    except NotJson as error:
        raise Unusable(f"the message cannot be read: {_why(body, error)}") from None


def _why(body: bytes, error: NotJson) -> str:
    try:
        json.loads(body)
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    except (ValueError, RecursionError) as found:
        return f"it is not JSON: {found}"
    return str(error).replace("response", "message")


def _in_order(record: Record | Bad) -> Record | Bad:
    """Let a level replace an earlier one of the same time: a queue is a journal."""
    return replace(record, in_order=True) if isinstance(record, StockLevel) else record
