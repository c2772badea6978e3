"""What a connector shows of a file before it imports the file: a preview, and presets.

The host prints them; a connector that imports files fills them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path  # noqa: TC003 - a struct needs the type
from typing import Any, Literal, TypeAlias

from msgspec import Struct

RowState: TypeAlias = Literal["used", "refused", "left out", "joined"]
"""What the connector does with a row. A `joined` row is part of an earlier one."""


class Preset(Struct, frozen=True, kw_only=True):
    """The settings for a known layout; `sources` are URLs of public descriptions.

    `settings` are the connector's own settings.
    """

    name: str
    title: str
    sources: tuple[str, ...]
    settings: Mapping[str, Any]


class PreviewedRow(Struct, frozen=True, kw_only=True):
    """One row: its line in the file, what happens to it, and the reason.

    `values` are the fields that the connector read, by their names.
    """

    line: int
    state: RowState
    values: Mapping[str, str] = {}
    reason: str = ""


class FilePreview(Struct, frozen=True, kw_only=True):
    """What the connector would do with a whole file.

    `layout` are facts about the file, such as its delimiter. `held` says why nothing of
    the file would be imported; it is empty if rows would be. `counts` counts all rows
    by their state, `rows` are the first ones, and refused rows further below.
    `settings` is the proposed section of the configuration, in the order in which it is
    written, and `notes` are sentences about what an operator should check.
    """

    kind: str
    layout: Mapping[str, str]
    held: str = ""
    counts: Mapping[str, int] = {}
    rows: Sequence[PreviewedRow] = ()
    settings: Mapping[str, Any] = {}
    notes: Sequence[str] = ()


class PreviewRequest(Struct, frozen=True, kw_only=True):
    """A file to show, with at most `rows` of its rows.

    `options` are the settings of a connection; None asks for a proposal.
    """

    path: Path
    rows: int
    options: Mapping[str, Any] | None = None


PreviewFile: TypeAlias = Callable[[PreviewRequest], Awaitable[FilePreview]]
ListPresets: TypeAlias = Callable[[], Sequence[Preset]]
