"""`backhaul connectors preview` and `presets`: what a connector does with a file."""

from __future__ import annotations

import asyncio
import json
import re
import textwrap
from pathlib import Path  # noqa: TC003 - typer reads it
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import asdict

from backhaul.cli import context, output
from backhaul.cli.context import ConfigOption, JsonOption, require_known
from backhaul.connect import registry
from backhaul.errors import BackhaulError, ConfigurationError
from backhaul.observe.redaction import printable
from backhaul_sdk import CheckFailed, PreviewRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul_sdk import FilePreview, Preset, PreviewedRow, Spec
    from backhaul_sdk.previews import PreviewFile


WIDTH = 80
_STATES = {"used": "used", "joined": "joined", "refused": "REFUSED"}
_HEADS = {
    "tracking_company": "carrier",
    "tracking_number": "tracking",
    "shipped_at": "shipped",
}
_LINE_WIDTH, _STATE_WIDTH, _GAP = 6, 8, 2
_INDENT = " " * (_LINE_WIDTH + _GAP)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def preview(
    file: Annotated[Path, typer.Argument(help="The file; it is only read.")],
    preset: Annotated[
        str | None,
        typer.Option(help="Read the file with this preset; `presets` lists them."),
    ] = None,
    connector: Annotated[
        str | None,
        typer.Option(help="Read the file with the settings of this connection."),
    ] = None,
    rows: Annotated[
        int, typer.Option("--rows", "-n", min=1, max=20_000, help="Rows to show.")
    ] = 20,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a file row by row as a connection would import it.

    Nothing is imported. Without --preset and --connector, the command proposes
    settings for the file. Each refused row has its reason.
    """
    if preset and connector:
        raise typer.BadParameter("give --preset or --connector, not both")
    kind, options = _chosen(config, preset, connector)
    found = _previewed(kind, PreviewRequest(path=file, rows=rows, options=options))
    if as_json:
        output.json({"file": str(file), "type": kind.name, **_plain(found)})
        return
    name = connector or _connection_name(file)
    for line in _lines(file, found, kind.name, name):
        typer.echo(printable(line))


def presets(as_json: JsonOption = False) -> None:
    """List the presets: settings for known files, couriers and services."""
    found = [(kind, each) for kind in _kinds() for each in kind.presets()]
    if as_json:
        output.json(
            {"presets": [{"type": kind.name, **asdict(each)} for kind, each in found]}
        )
        return
    for kind, each in found:
        _print_preset(kind, each)


def _print_preset(kind: Spec, preset: Preset) -> None:
    """Print a preset; a URL is not wrapped, so that it can be opened."""
    for line in _wrapped(f"{preset.name} ({kind.name}): {preset.title}"):
        typer.echo(line)
    for source in preset.sources:
        typer.echo(f"  {source}")


def _plain(found: FilePreview) -> dict[str, Any]:
    return {**asdict(found), "rows": [asdict(each) for each in found.rows]}


def _previewing() -> list[Spec]:
    """Return the connectors that import files."""
    return [kind for kind in _kinds() if kind.preview]


def _kinds() -> list[Spec]:
    return [kind.spec for kind in registry.importable().values()]


def _chosen(
    config: Path | None, preset: str | None, connector: str | None
) -> tuple[Spec, Mapping[str, Any] | None]:
    """Return the connector that reads the file, and its settings, if any are given."""
    kinds = _previewing()
    if connector is None:
        if preset is None:
            return kinds[0], None
        known = {each.name: kind for kind in kinds for each in kind.presets()}
        require_known(preset, known, "--preset")
        return known[preset], {"preset": preset}
    settings = context.settings(config)
    require_known(connector, settings.connectors, "--connector")
    own = settings.connectors[connector]
    kind = next((each for each in kinds if each.name == own.type), None)
    if kind is None:
        names = ", ".join(each.name for each in kinds)
        raise BackhaulError(
            f"connection {connector} has the type {own.type}, which imports no files;"
            f" choose a connection of the type {names}"
        )
    return kind, own.options


def _previewed(kind: Spec, request: PreviewRequest) -> FilePreview:
    if findings := registry.check(kind.name, {"path": ".", **(request.options or {})}):
        raise ConfigurationError(findings)
    try:
        return asyncio.run(_awaited(kind.preview, request))
    except CheckFailed as error:
        raise BackhaulError(str(error)) from None


async def _awaited(preview: PreviewFile | None, request: PreviewRequest) -> FilePreview:
    if preview is None:  # only connectors with a preview are chosen
        raise LookupError("the connector shows no files")
    return await preview(request)


def _connection_name(file: Path) -> str:
    """Return a name for the connection: the letters of the file's name."""
    return re.sub(r"[^a-z]+", "-", file.stem.lower()).strip("-") or "files"


def _lines(file: Path, found: FilePreview, kind: str, name: str) -> Iterator[str]:
    """Yield what is printed, at most 80 columns wide where a line can be broken."""
    counts = ", ".join(f"{n:,} {_STATES.get(s, s)}" for s, n in found.counts.items())
    yield from _wrapped(
        f"{file.name}: {found.kind or 'unknown'}; {counts or 'no rows'}"
    )
    for fact, value in found.layout.items():
        yield from _wrapped(f"{fact}: {_visible(value)}", "  ")
    if found.held:
        yield from _wrapped(f"HELD: {found.held}")
    if found.rows:
        yield ""
        yield from _table(found.rows)
    if found.notes:
        yield ""
    for note in found.notes:
        yield from _wrapped(f"note: {note}")
    if found.settings:
        yield ""
        yield "# Proposed settings; set path to the folder of these files."
        yield from section(kind, name, found.settings)


def _visible(value: str) -> str:
    return {"\t": "tab", ",": "comma", ";": "semicolon", "|": "|"}.get(value, value)


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(rows: Sequence[PreviewedRow]) -> Iterator[str]:
    """Yield the rows as a table; a reason is on the lines below its row."""
    fields = list(dict.fromkeys(name for row in rows for name in row.values))
    filled = [f for f in fields if any(row.values.get(f) for row in rows)]
    widths = _widths(filled, rows)
    heads = {name: _head(name) for name in filled}
    yield _row("LINE", "STATE", heads, widths)
    for row in rows:
        state = _STATES.get(row.state, row.state)
        yield _row(str(row.line), state, row.values, widths)
        if row.reason:
            for line in textwrap.wrap(row.reason, WIDTH - len(_INDENT)):
                yield f"{_INDENT}{line}"


def _head(name: str) -> str:
    return _HEADS.get(name, name).replace("_", " ").upper()


def _row(
    line: str, state: str, values: Mapping[str, str], widths: Mapping[str, int]
) -> str:
    cells = [
        f"{output.cut(values.get(name, ''), width):<{width}}"
        for name, width in widths.items()
    ]
    gap = " " * _GAP
    head = f"{line:>{_LINE_WIDTH}}{gap}{state:<{_STATE_WIDTH}}"
    return gap.join([head, *cells]).rstrip()


def _widths(names: Sequence[str], rows: Sequence[PreviewedRow]) -> dict[str, int]:
    """Return the width of each column; the widest ones are shortened until all fit."""
    widths = {
        name: max(len(_head(name)), *(len(row.values.get(name, "")) for row in rows))
        for name in names
    }
    room = WIDTH - _LINE_WIDTH - _STATE_WIDTH - _GAP * (len(names) + 1)
    while widths and sum(widths.values()) > room:
        widest = max(widths, key=lambda each: widths[each])
        if widths[widest] <= 4:
            break
        widths[widest] -= 1
    return widths


def section(kind: str, name: str, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings of a connection as TOML."""
    yield f"[connectors.{name}]"
    yield f"type = {_value(kind)}"
    yield f"path = {_value(f'/var/lib/backhaul/{name}')}"
    tables = {key: each for key, each in settings.items() if isinstance(each, dict)}
    for key, value in settings.items():
        if key not in tables:
            yield f"{key} = {_value(value)}"
    for key, table in tables.items():
        if table:
            yield ""
            yield f"[connectors.{name}.{key}]"
            yield from (f"{_key(each)} = {_value(v)}" for each, v in table.items())


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    # A TOML string has the escapes of JSON, and DEL must be escaped as well.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
