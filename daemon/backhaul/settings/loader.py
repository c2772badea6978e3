"""Loads and validates the configuration, and explains its errors."""

from __future__ import annotations

import difflib
import os
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace
from pydantic import ValidationError

from backhaul.errors import ConfigurationError, Finding
from backhaul.settings.connections import Connector
from backhaul.settings.listeners import Admin, Public
from backhaul.settings.schema import Settings
from backhaul.settings.secret_files import (
    CREDENTIALS_VARIABLE,
    SecretOptions,
    credentials_layer,
    read_named_files,
    secret_paths,
)
from backhaul.settings.sources import (
    CONFIG_VARIABLE,
    PREFIX,
    Layer,
    environment_layer,
    file_layer,
    is_secret,
    leaf_at,
    secret_names,
    section_at,
    take_database_url,
    take_otel_variables,
)
from backhaul.settings.values import NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

    from backhaul.settings.sources import KeyPath


WHOLE_NUMBER, NUMBER, TABLE = "a whole number", "a number", "a table"
EXPECTED = {
    "int_parsing": WHOLE_NUMBER,
    "int_type": WHOLE_NUMBER,
    "int_from_float": WHOLE_NUMBER,
    "int_parsing_size": WHOLE_NUMBER,
    "float_parsing": NUMBER,
    "float_type": NUMBER,
    "finite_number": NUMBER,
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text in quotes",
    "path_type": "a path in quotes",
    "list_type": "a list",
    "tuple_type": "a list",
    "model_type": TABLE,
    "model_attributes_type": TABLE,
    "dict_type": TABLE,
}
TEMPLATES = {
    "missing": "is missing",
    "extra_forbidden": "unknown setting",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be {expected}",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "value_error": "{error}",
}
INVALID_NAME = "is not a valid name: use only lower-case letters, digits and _"


def explain(
    error: ValidationError, model: type[BaseModel], also_known: Iterable[str] = ()
) -> list[Finding]:
    """Return one finding per error, without source; keys are relative to `model`.

    `also_known` are names outside the model that a misspelled key may have meant.
    """
    return [
        _finding(details, model, also_known)
        for details in error.errors(include_url=False, include_input=False)
    ]


def _finding(
    details: ErrorDetails, model: type[BaseModel], also_known: Iterable[str]
) -> Finding:
    path, entry = _split(details["loc"])
    problem = _problem(details)
    if entry is not None:
        problem = f"entry {entry + 1} {problem}"
    hint = _hint(details["type"], path, model, also_known)
    return Finding("", ".".join(path), problem, hint)


def _split(location: tuple[int | str, ...]) -> tuple[KeyPath, int | None]:
    """Return the keys, and the position in a list if the error is about an entry."""
    keys = tuple(key for key in location if isinstance(key, str) and key != "[key]")
    positions = [key for key in location if isinstance(key, int)]
    return keys, positions[0] if positions else None


def _problem(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if context.get("pattern") == NAME_PATTERN:
        return INVALID_NAME
    if kind in EXPECTED:
        return f"must be {EXPECTED[kind]}"
    if kind in TEMPLATES:
        return TEMPLATES[kind].format_map(_worded(context))
    return details["msg"]


def _worded(context: dict[str, Any]) -> dict[str, str]:
    words = {key: str(value) for key, value in context.items()}
    return words | {"expected": words.get("expected", "").replace("'", '"')}


def _hint(
    kind: str, path: KeyPath, model: type[BaseModel], also_known: Iterable[str]
) -> str:
    section = section_at(path[:-1], model)
    if kind == "extra_forbidden" and section:
        names = [*section.model_fields, *also_known]
        names += [f"{name}_file" for name in secret_names(section)]
        return did_you_mean(path[-1], names)
    info = leaf_at(path, model)
    if kind == "missing" and info:
        if is_secret(info):
            return f"give {path[-1]} or {path[-1]}_file"
        return (info.description or "").rstrip(".")
    if path == ("stores",) and kind in {"missing", "too_short"}:
        return "add a table [stores.main]"
    return ""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return a hint with the most similar name, or with all known names."""
    known = sorted(set(names))
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"


ValidateConnector: TypeAlias = "Callable[[str, Connector], list[Finding]]"
"""Checks a connection's options.

Its findings have no source, and their keys may lack the prefix `connectors.NAME`:
`load_settings` adds both.
"""

ValidateTogether: TypeAlias = "Callable[[Mapping[str, Connector]], list[Finding]]"
"""Checks all connections, by name, for conflicts; keys begin with `connectors`."""

DEFAULT_FILES = (Path("backhaul.toml"), Path("/etc/backhaul/backhaul.toml"))


def _no_secrets(connector_type: str) -> tuple[str, ...]:
    return ()


def load_settings(
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    validate_connector: ValidateConnector | None = None,
    validate_together: ValidateTogether | None = None,
    secret_options: SecretOptions = _no_secrets,
) -> Settings:
    """Return the settings. Raises ConfigurationError with every mistake.

    `path` is the value of `--config`. `secret_options` returns the secret keys of a
    connector type: they may also come from files, and are `SecretStr` in its options.
    """
    environ = os.environ if environ is None else environ
    layers = _layers(path, environ, secret_options)
    values = _merged(layers)
    settings, findings = _validated(values)
    findings += _connector_findings(values, validate_connector)
    if validate_together:
        tables = _tables(values, "connectors")
        found_so_far = {name: _valid_part(tables[name]) for name in tables}
        findings += validate_together({k: v for k, v in found_so_far.items() if v})
    # The daemon listens on systemd's sockets if it has them, not on these ports.
    if "LISTEN_FDS" not in environ:
        findings += _port_findings(values)
    read_errors = [finding for layer in layers for finding in layer.findings]
    found = [*read_errors, *(_located(finding, layers) for finding in findings)]
    if found or settings is None:
        raise ConfigurationError(list(dict.fromkeys(found)))
    settings.key_files.update(_key_files(settings, layers))
    return settings


def configuration_file(
    path: Path | None = None, environ: Mapping[str, str] | None = None
) -> Path | None:
    """Return the file to read: `--config`, `$BACKHAUL_CONFIG`, or a default path."""
    environ = os.environ if environ is None else environ
    if path is None and environ.get(CONFIG_VARIABLE):
        path = Path(environ[CONFIG_VARIABLE])
    return path or next((file for file in DEFAULT_FILES if file.is_file()), None)


def bare_environment() -> dict[str, str]:
    """Return our environment without the variables that override a configuration."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) and name != CREDENTIALS_VARIABLE
    }


def _layers(
    path: Path | None, environ: Mapping[str, str], secret_options: SecretOptions
) -> list[Layer]:
    """Return the layers, highest precedence first."""
    environment = environment_layer(environ)
    file = configuration_file(path, environ)
    if file is None and not environment.values:
        tried = " and ".join(str(default) for default in DEFAULT_FILES)
        hint = f"give --config or ${CONFIG_VARIABLE}; tried {tried}"
        finding = Finding("configuration", "", "no file found", hint)
        raise ConfigurationError([finding])
    given = [environment, file_layer(file) if file else Layer(environment.name)]
    secrets = secret_paths(given, secret_options)
    for layer in given:
        read_named_files(layer, secrets)
    layers = [environment, credentials_layer(environ, secrets), given[1]]
    take_database_url(environ, layers)
    take_otel_variables(environ, layers)
    return layers


def _merged(layers: Sequence[Layer]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for layer in reversed(layers):
        values = _merge(values, layer.values)
    return values


def _merge(low: dict[str, Any], high: dict[str, Any]) -> dict[str, Any]:
    both = {
        key: _merge(low[key], value)
        for key, value in high.items()
        if isinstance(value, dict) and isinstance(low.get(key), dict)
    }
    return low | high | both


def _validated(values: dict[str, Any]) -> tuple[Settings | None, list[Finding]]:
    # pydantic-settings takes arguments with a leading underscore as its own options.
    private = [key for key in values if key.startswith("_")]
    findings = [Finding("", key, "unknown setting") for key in private]
    public = {key: value for key, value in values.items() if key not in private}
    try:
        return Settings(**public), findings
    except ValidationError as error:
        return None, findings + explain(error, Settings)


def _port_findings(values: dict[str, Any]) -> list[Finding]:
    """Check that the listeners do not collide, even if other tables are invalid."""
    try:
        public = Public.model_validate(values.get("public", {}))
        admin = Admin.model_validate(values.get("admin", {}))
    except ValidationError:
        return []
    if public.port != admin.port or not public.port:
        return []
    if not _share_address(public.host, admin.host):
        return []
    problem = f"{admin.port} is also public.port, on the same host"
    return [Finding("", "admin.port", problem, "give each listener a port of its own")]


def _share_address(one: str, other: str) -> bool:
    """Return whether two hosts certainly share an address; names are not resolved."""
    try:
        here, there = ip_address(one), ip_address(other)
    except ValueError:
        return one == other
    if here.version != there.version:
        return False
    return here == there or here.is_unspecified or there.is_unspecified


def _key_files(settings: Settings, layers: Sequence[Layer]) -> dict[str, Path]:
    """Return the files that hold API keys, by store."""
    found: dict[str, Path] = {}
    for name in settings.stores:
        path = ("stores", name, "api_key")
        giving = [layer for layer in layers if layer.depth(path) == len(path)]
        if path in giving[0].files:
            found[name] = Path(giving[0].files[path])
    return found


def _connector_findings(
    values: dict[str, Any], validate: ValidateConnector | None
) -> list[Finding]:
    """Check each connection, even if other tables are invalid."""
    findings: list[Finding] = []
    for name, table in _tables(values, "connectors").items():
        connector = _valid_part(table)
        if connector is None:
            continue
        found = _store_findings(connector, list(_tables(values, "stores")))
        found += validate(name, connector) if validate else []
        findings += (_within(f"connectors.{name}", finding) for finding in found)
    return findings


def _valid_part(table: object) -> Connector | None:
    """Return a connection without its invalid keys, which are reported elsewhere.

    One mistake among the common keys must not hide an unknown type, an unknown store,
    or mistakes in the connector's own keys.
    """
    try:
        return Connector.model_validate(table)
    except ValidationError as error:
        wrong = {str(each["loc"][0]) for each in error.errors() if each["loc"]}
        if not isinstance(table, dict) or not wrong & table.keys():
            return None
        return _valid_part({k: v for k, v in table.items() if k not in wrong})


def _tables(values: dict[str, Any], key: str) -> dict[str, Any]:
    tables = values.get(key)
    return tables if isinstance(tables, dict) else {}


def _within(table: str, finding: Finding) -> Finding:
    if finding.key.startswith(f"{table}."):
        return finding
    return replace(finding, key=f"{table}.{finding.key}".rstrip("."))


def _store_findings(connector: Connector, stores: list[str]) -> list[Finding]:
    if connector.store and connector.store not in stores:
        hint = did_you_mean(connector.store, stores)
        return [
            Finding("", "store", "names a store that is not in the configuration", hint)
        ]
    if not connector.store and len(stores) > 1:
        hint = f"known: {', '.join(sorted(stores))}"
        return [
            Finding(
                "",
                "store",
                "is missing, and the configuration has several stores",
                hint,
            )
        ]
    return []


def _located(finding: Finding, layers: Sequence[Layer]) -> Finding:
    """Add the source: the layer that gives the key, or the one that comes closest.

    Of layers that come equally close, the one with the lowest precedence counts.
    """
    if finding.source:
        return finding
    path = tuple(finding.key.split("."))
    giving = [layer for layer in layers if layer.depth(path) == len(path)]
    nearest = max(reversed(layers), key=lambda layer: layer.depth(path))
    layer = giving[0] if giving else nearest
    return replace(finding, source=layer.source(path))
