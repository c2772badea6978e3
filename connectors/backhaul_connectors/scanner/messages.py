"""Messages that are JSON or a code alone, and answers in the same form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul_connectors.scanner.intake import Answer, refusal_of
from backhaul_connectors.scanner.scan import MAX_TEXT, Refused, read_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul_connectors.scanner.intake import Intake

MOST_BYTES = 4_096
_WORDS = {200: "OK", 503: "AGAIN"}


class Reply(Struct, frozen=True):
    """An answer, and which scan it is for, as the device numbered it."""

    answer: Answer
    sequence: object = None

    def formed_for(self, message: bytes) -> bytes:
        """Write JSON for JSON, else a line that begins with `OK`, `NO` or `AGAIN`."""
        if not message.lstrip().startswith(b"{"):
            word = _WORDS.get(self.answer.status, "NO")
            return f"{word} {self.answer.what}".encode()
        document = {"status": self.answer.status, **self.answer.document}
        if self.sequence is not None:
            document["sequence"] = self.sequence
        return json.dumps(document).encode()


async def reply_to(message: bytes, device: str, intake: Intake) -> Reply:
    """Take one message."""
    if len(message) > MOST_BYTES:
        what = f"the line is longer than {MOST_BYTES} bytes"
        return Reply(Answer(413, what))
    raw = message.decode("utf-8", "replace").replace("\0", "\ufffd").rstrip("\r")
    sequence: object = None
    try:
        document = read_line(message)
        sequence = _sequence_in(document)
        return Reply(await intake.take(document, device, raw), sequence)
    except Refused as refused:
        return Reply(refusal_of(refused), sequence)


def _sequence_in(document: Mapping[str, object]) -> object:
    given = document.get("sequence")
    short = isinstance(given, str | int) and len(str(given)) <= MAX_TEXT
    return given if short else None
