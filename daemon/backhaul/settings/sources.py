"""Sources of settings (file, environment), and settings by dotted key."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any, TypeAlias, get_args, get_origin

from msgspec import Struct, field
from pydantic import BaseModel, SecretStr

from backhaul.errors import ConfigurationError, Finding
from backhaul.settings.schema import Settings
from backhaul.settings.values import POSTGRES_PREFIXES
from backhaul_sdk.extras import missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path as File

    from pydantic.fields import FieldInfo


KeyPath: TypeAlias = tuple[str, ...]
Model: TypeAlias = type[BaseModel]

ANY_NAME = "NAME"
"""Placeholder in a key path for a name that the operator chooses."""
RENAMED: dict[KeyPath, KeyPath] = {("push", "looks"): ("push", "check_after")}
"""Old keys of renamed settings: each is an alias of the new key."""


def section_of(annotation: Any) -> Model | None:
    """Return the model of a field that is a table, or a table of named tables."""
    kind = get_args(annotation)[1] if is_named(annotation) else annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def is_named(annotation: Any) -> bool:
    return get_origin(annotation) is dict


def section_at(path: KeyPath, model: Model = Settings) -> Model | None:
    """Return the model of the table at `path`; None for a table of named tables."""
    if not path:
        return model
    info = model.model_fields.get(path[0])
    if info is None or (section := section_of(info.annotation)) is None:
        return None
    rest = path[1:]
    if is_named(info.annotation):
        return section_at(rest[1:], section) if rest else None
    return section_at(rest, section)


def leaf_at(path: KeyPath, model: Model = Settings) -> FieldInfo | None:
    """Return the field at `path`, unless it is a table or unknown."""
    if not path:
        return None
    section = section_at(path[:-1], model)
    info = section.model_fields.get(path[-1]) if section else None
    return info if info and section_of(info.annotation) is None else None


def leaves(model: Model = Settings) -> Iterator[tuple[KeyPath, FieldInfo]]:
    """Yield every field that is not a table; `ANY_NAME` stands for names."""
    for name, info in model.model_fields.items():
        section = section_of(info.annotation)
        if section is None:
            yield (name,), info
            continue
        head = (name, ANY_NAME) if is_named(info.annotation) else (name,)
        yield from ((head + path, leaf) for path, leaf in leaves(section))


def is_list(info: FieldInfo) -> bool:
    return get_origin(info.annotation) is tuple


def is_secret(info: FieldInfo) -> bool:
    """Return whether the field holds one or more secrets."""
    kind = get_args(info.annotation)[0] if is_list(info) else info.annotation
    parts = (kind, *get_args(kind))
    return SecretStr in {getattr(part, "__origin__", part) for part in parts}


def secret_names(section: Model) -> list[str]:
    return [name for name, info in section.model_fields.items() if is_secret(info)]


PREFIX = Settings.model_config["env_prefix"]
DELIMITER = Settings.model_config["env_nested_delimiter"] or ""
CONFIG_VARIABLE = f"{PREFIX}CONFIG"
DATABASE_VARIABLE = "DATABASE_URL"
OTEL_VARIABLES: dict[str, KeyPath] = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": ("telemetry", "otlp_endpoint"),
    "OTEL_EXPORTER_OTLP_HEADERS": ("telemetry", "headers"),
    "OTEL_SERVICE_NAME": ("telemetry", "service_name"),
    "OTEL_RESOURCE_ATTRIBUTES": ("telemetry", "resource_attributes"),
}
"""The standard variables of OpenTelemetry that are settings here, the address first."""
OTEL_HEADERS_OF_SIGNALS = (
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
)
"""Variables with keys that are no settings: they belong to the address of one signal,
which is none either."""
OTEL_DISABLED = "OTEL_SDK_DISABLED"
OTEL_SIGNALS: tuple[KeyPath, ...] = (("telemetry", "traces"), ("telemetry", "metrics"))
SECRET_VARIABLE = f"{PREFIX}WEBHOOK_SECRET"
"""Secret with which `replay --to` and `trigger` sign; not a setting."""
_TOML_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)")
_KEY = re.compile(r"""\s*([\w."' -]+?)\s*=""")
_HEADER = re.compile(r"""\s*(\[[\w."' -]+\])\s*(?:#.*)?$""")


class Layer(Struct, frozen=True):
    """Values of one source; `sources` has the place (file and line) of each."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[KeyPath, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    files: dict[KeyPath, str] = field(default_factory=dict)
    """The files of secrets that a `NAME_file` setting names."""

    def put(self, path: KeyPath, value: object, source: str) -> None:
        """Set a value; add a finding if a table and a plain value collide."""
        table = self.values
        for key in path[:-1]:
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                problem = "must be a table, but also has a plain value"
                self.findings.append(Finding(source, ".".join(path[:-1]), problem))
                return
        table[path[-1]] = value
        self.sources[path] = source

    def remove(self, path: KeyPath) -> object:
        """Remove and return the value at `path`, which the layer must hold."""
        table: Any = self.values
        for key in path[:-1]:
            table = table[key]
        return table.pop(path[-1])

    def depth(self, path: KeyPath) -> int:
        """Return how many leading keys of `path` this layer holds."""
        value: object = self.values
        for depth, key in enumerate(path):
            if not isinstance(value, dict) or key not in value:
                return depth
            value = value[key]
        return len(path)

    def source(self, path: KeyPath) -> str:
        """Return the place of `path`, else of its table, else of a key in it."""
        around = [path[:length] for length in range(len(path), 0, -1)]
        inside = [each for each in self.sources if each[: len(path)] == path]
        known = (self.sources[p] for p in around + inside if p in self.sources)
        return next(known, self.name)


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """Read every `BACKHAUL_…` variable that is a setting."""
    layer = Layer("environment")
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in {CONFIG_VARIABLE, SECRET_VARIABLE}:
            path = tuple(name.removeprefix(PREFIX).lower().split(DELIMITER))
            layer.put(path, _typed(RENAMED.get(path, path), environ[name]), name)
    _rename_old_keys(layer)
    return layer


def take_database_url(environ: Mapping[str, str], layers: Sequence[Layer]) -> None:
    """Add `DATABASE_URL`, which hosts of PostgreSQL set by custom, to the first layer.

    Any layer that gives `database.url` outweighs it.
    """
    path = ("database", "url")
    url = environ.get(DATABASE_VARIABLE, "")
    if url.startswith(POSTGRES_PREFIXES) and not _is_given(path, layers):
        layers[0].put(path, url, DATABASE_VARIABLE)


def take_otel_variables(environ: Mapping[str, str], layers: Sequence[Layer]) -> None:
    """Add the standard variables of OpenTelemetry to the first layer.

    Any layer that gives a setting outweighs its variable. `OTEL_SDK_DISABLED=true`
    turns telemetry off, as it does in every program with OpenTelemetry. Anyone who sets
    the variables for all programs of a machine need not mean this one: without the
    packages, or without an endpoint, they change nothing.
    """
    if environ.get(OTEL_DISABLED, "").strip().lower() == "true":
        for path in OTEL_SIGNALS:
            layers[0].put(path, "false", OTEL_DISABLED)
        return
    if not any(map(environ.get, OTEL_VARIABLES)) or missing_extra("otel"):
        return
    for name, path in OTEL_VARIABLES.items():
        if environ.get(name) and not _is_given(path, layers):
            layers[0].put(path, _typed(path, environ[name]), name)
        if not _is_given(("telemetry", "otlp_endpoint"), layers):
            return


def _is_given(path: KeyPath, layers: Sequence[Layer]) -> bool:
    return any(layer.depth(path) == len(path) for layer in layers)


def _rename_old_keys(layer: Layer) -> None:
    for old, new in RENAMED.items():
        if layer.depth(old) == len(old):
            value, source = layer.remove(old), layer.source(old)
            if layer.depth(new) == len(new):
                problem = f"is the old name of {new[-1]}, which is also given"
                hint = f"keep {new[-1]} only"
                layer.findings.append(Finding(source, ".".join(old), problem, hint))
            else:
                layer.put(new, value, source)


def variable(path: KeyPath) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + DELIMITER.join(path).upper()


def _typed(path: KeyPath, text: str) -> object:
    """Return the value of a variable: lists are split, a connector's JSON is parsed."""
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
        text = path.read_text(
            encoding="utf-8-sig"
        )  # Windows editors add a byte order mark
        values = tomllib.loads(text)
    except OSError as error:
        problem = f"cannot be read: {(error.strerror or 'unknown').lower()}"
        hint = _nearest(path) if isinstance(error, FileNotFoundError) else ""
        raise ConfigurationError([Finding(name, "", problem, hint)]) from None
    except UnicodeDecodeError:
        raise ConfigurationError([Finding(name, "", "is not UTF-8 text")]) from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # ValueError: also a number with too many digits
        raise ConfigurationError([_syntax_finding(name, str(error))]) from None
    layer = Layer(name, values, _lines(name, text))
    _rename_old_keys(layer)
    return layer


def _nearest(path: File) -> str:
    """Return a hint with the name of a similar file, or that the folder is missing."""
    if not path.parent.is_dir():
        return f"folder {path.parent} does not exist"
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


def _lines(name: str, text: str) -> dict[KeyPath, str]:
    """Return the line of each key, found by a scan: `tomllib` does not report it."""
    found: dict[KeyPath, str] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _dotted(header[1])
            found.setdefault(table, f"{name}:{number}")
        elif key := _KEY.match(line):
            found.setdefault(table + _dotted(f"{key[1]} = {{}}"), f"{name}:{number}")
    return found


def _dotted(line: str) -> KeyPath:
    try:
        value = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    path: KeyPath = ()
    while value:
        key, value = next(iter(value.items()))
        path += (key,)
    return path
