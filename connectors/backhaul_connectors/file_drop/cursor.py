"""How far a file was taken, as the text that the host keeps."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The file taken last: `row` of its `rows` data rows were handed over.

    `sha256` and `size` (bytes) are of the whole file, so that one that grew since is
    recognized by its beginning.
    """

    name: str = ""
    sha256: str = ""
    size: int = 0
    row: int = 0
    rows: int = 0

    @property
    def is_partial(self) -> bool:
        return 0 < self.row < self.rows

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str | None) -> Cursor:
        """Read the host's text; anything else means from the beginning.

        That is safe: what was taken before has the same keys.
        """
        try:
            found = json.loads(text or "{}")
            return cls(
                name=str(found["name"]),
                sha256=str(found["sha256"]),
                size=int(found["size"]),
                row=int(found["row"]),
                rows=int(found["rows"]),
            )
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return cls()
