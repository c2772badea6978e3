"""Where values come from: the file and the environment, each with its origins."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from backhaul.errors import ConfigurationError, Finding
from backhaul.settings.fields import is_list, leaf_at
from backhaul.settings.schema import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path as File

    from backhaul.settings.fields import Path

PREFIX = Settings.model_config["env_prefix"]
DELIMITER = Settings.model_config["env_nested_delimiter"] or ""
CONFIG_VARIABLE = f"{PREFIX}CONFIG"
SECRET_VARIABLE = f"{PREFIX}WEBHOOK_SECRET"
"""What `replay --to` and `trigger` sign with; like the file's name it is no setting."""
_TOML_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)")
_KEY = re.compile(r"""\s*([\w."' -]+?)\s*=""")
_HEADER = re.compile(r"""\s*(\[[\w."' -]+\])\s*(?:#.*)?$""")


class Layer(Struct, frozen=True):
    """Values of one source; `sources` tells where each of them stands."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[Path, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    files: dict[Path, str] = field(default_factory=dict)
    """Secrets that stand in a file of their own."""

    def put(self, path: Path, value: object, source: str) -> None:
        """Set a value; a finding where a table and a plain value collide."""
        table = self.values
        for key in path[:-1]:
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                problem = "needs a table, but has a value as well"
                self.findings.append(Finding(source, ".".join(path[:-1]), problem))
                return
        table[path[-1]] = value
        self.sources[path] = source

    def depth(self, path: Path) -> int:
        """Return how many keys of `path`, from the left, this layer holds."""
        value: object = self.values
        for depth, key in enumerate(path):
            if not isinstance(value, dict) or key not in value:
                return depth
            value = value[key]
        return len(path)

    def source(self, path: Path) -> str:
        """Return where `path` is given, or the table around it, or what is in it."""
        around = [path[:length] for length in range(len(path), 0, -1)]
        inside = [each for each in self.sources if each[: len(path)] == path]
        known = (self.sources[p] for p in around + inside if p in self.sources)
        return next(known, self.name)


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """Take every `BACKHAUL_…` variable but those that are for the command line."""
    layer = Layer("environment")
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in {CONFIG_VARIABLE, SECRET_VARIABLE}:
            path = tuple(name.removeprefix(PREFIX).lower().split(DELIMITER))
            layer.put(path, _typed(path, environ[name]), name)
    return layer


def variable(path: Path) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + DELIMITER.join(path).upper()


def _typed(path: Path, text: str) -> object:
    """Return lists as lists; what a connector's own keys mean, only JSON can say."""
    info = leaf_at(path)
    structured = text.lstrip().startswith(("[", "{"))
    if structured and (is_list(info) if info else path[0] == "connectors"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    if info and is_list(info):
        return [part.strip() for part in text.split(",")]
    return text


def file_layer(path: File) -> Layer:
    """Read a TOML file. Raises ConfigurationError."""
    name = str(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # as Windows' editors write it
        values = tomllib.loads(text)
    except OSError as error:
        problem = f"cannot be read: {(error.strerror or 'unknown').lower()}"
        hint = _nearest(path) if isinstance(error, FileNotFoundError) else ""
        raise ConfigurationError([Finding(name, "", problem, hint)]) from None
    except UnicodeDecodeError:
        raise ConfigurationError([Finding(name, "", "is not UTF-8 text")]) from None
    except (ValueError, RecursionError) as error:  # also of a number too long
        raise ConfigurationError([_syntax_finding(name, str(error))]) from None
    return Layer(name, values, _lines(name, text))


def _nearest(path: File) -> str:
    """Return which file may have been meant instead of one that is not there."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    there = [each.name for each in path.parent.glob("*.toml")]
    near = difflib.get_close_matches(path.name, there, n=1)
    return f"did you mean {path.with_name(near[0])}?" if near else ""


def _syntax_finding(name: str, message: str) -> Finding:
    match = _TOML_PLACE.fullmatch(message)
    if match is None:
        return Finding(name, "", f"is not TOML: {message}")
    what, line, column = match.groups()
    what = what[:1].lower() + what[1:]
    if line is None:
        return Finding(name, "", f"is not TOML: {what} at the end of the file")
    return Finding(f"{name}:{line}", "", f"is not TOML at column {column}: {what}")


def _lines(name: str, text: str) -> dict[Path, str]:
    """Find each key's line by a scan, since `tomllib` does not tell."""
    found: dict[Path, str] = {}
    table: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _dotted(header[1])
            found.setdefault(table, f"{name}:{number}")
        elif key := _KEY.match(line):
            found.setdefault(table + _dotted(f"{key[1]} = {{}}"), f"{name}:{number}")
    return found


def _dotted(line: str) -> Path:
    try:
        value = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    path: Path = ()
    while value:
        key, value = next(iter(value.items()))
        path += (key,)
    return path
