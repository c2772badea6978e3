"""Reads secrets from `NAME_file` settings and systemd credentials."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from backhaul.errors import Finding
from backhaul.settings.connections import Store
from backhaul.settings.infrastructure import AlertSettings, Cluster, Database, Oidc
from backhaul.settings.sources import Layer, file_layer, is_list, leaf_at, secret_names
from backhaul.settings.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from backhaul.settings import sources
    from backhaul.settings.schema import Settings

SecretOptions: TypeAlias = "Callable[[str], Collection[str]]"
"""Returns the secret keys of a connector type."""

FORBIDDEN_BITS = stat.S_IRWXG | stat.S_IRWXO
CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"
SHORTEST_HEADER_KEY = 8


class SecretFileError(Exception):
    """A file with a secret cannot be used: the problem, and a hint."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem = problem
        self.hint = hint
        super().__init__(problem)


def secret_paths(
    layers: Sequence[Layer], secret_options: SecretOptions
) -> list[sources.KeyPath]:
    """Return the keys of all secrets, set or not."""
    paths: list[sources.KeyPath] = [
        ("alerts", each) for each in secret_names(AlertSettings)
    ]
    paths += (("database", each) for each in secret_names(Database))
    paths += (("cluster", each) for each in secret_names(Cluster))
    paths += (("admin", "oidc", each) for each in secret_names(Oidc))
    paths += (("telemetry", each) for each in secret_names(Telemetry))
    for name in names_of(layers, "stores"):
        paths += (("stores", name, secret) for secret in secret_names(Store))
    for name in names_of(layers, "connectors"):
        secrets = sorted(secret_options(_connector_type(layers, name)))
        paths += (("connectors", name, secret) for secret in secrets)
    return paths


def open_to_others(file: Path, secret_options: SecretOptions) -> Finding | None:
    """Return a finding if others can read the secrets in a configuration file.

    The configuration may have other mistakes. Raises ConfigurationError if the file
    cannot be read.
    """
    layer = file_layer(file)
    paths = secret_paths([layer], secret_options)
    mode = stat.S_IMODE(file.stat().st_mode)
    if (
        not any(_holds_secret(layer, path) for path in paths)
        or not mode & FORBIDDEN_BITS
    ):
        return None
    problem = f"contains secrets, but its mode {mode:04o} gives other users access"
    hint = (
        f"run: chmod 600 {file}; or move each secret to a separate file, with a setting"
        " such as api_key_file"
    )
    return Finding(str(file), "", problem, hint)


def _holds_secret(layer: Layer, path: sources.KeyPath) -> bool:
    """Return whether the layer itself holds the secret at `path`.

    The URL of a local SQLite file has a secret's key, but grants no access.
    """
    value = table_at(layer, path[:-1]).get(path[-1])
    return value is not None and not str(value).startswith("sqlite:")


def names_of(layers: Sequence[Layer], table: str) -> list[str]:
    """Return the names of the tables in `table`, over all layers."""
    tables = (layer.values.get(table) for layer in layers)
    return list(dict.fromkeys(n for t in tables if isinstance(t, dict) for n in t))


def _connector_type(layers: Sequence[Layer], name: str) -> str:
    tables = (table_at(layer, ("connectors", name)) for layer in layers)
    return next((str(table["type"]) for table in tables if "type" in table), "")


def table_at(layer: Layer, path: sources.KeyPath) -> dict[str, Any]:
    """Return the layer's table at `path`, empty if there is none."""
    value: object = layer.values
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def read_named_files(layer: Layer, paths: Sequence[sources.KeyPath]) -> None:
    """Replace each `NAME_file` by `NAME` with the content of that file."""
    for path in paths:
        table, secret = table_at(layer, path[:-1]), path[-1]
        given = table.pop(f"{secret}_file", None)
        if given is not None:
            _read_named_file(layer, path, given)
        elif path[0] == "connectors" and secret in table:
            table[secret] = conceal(table[secret])


def _read_named_file(layer: Layer, path: sources.KeyPath, given: object) -> None:
    named = (*path[:-1], f"{path[-1]}_file")
    source, key = layer.source(named), ".".join(named)
    if layer.depth(path) == len(path):
        problem = f"given together with {path[-1]}"
        layer.findings.append(Finding(source, key, problem, "keep one of the two"))
        return
    try:
        value = _read(path, given, private=True)
    except SecretFileError as error:
        layer.findings.append(Finding(source, key, error.problem, error.hint))
        value = _placeholder(path)
    layer.put(path, value, str(given))
    layer.files[path] = str(given)


def credentials_layer(
    environ: Mapping[str, str], paths: Sequence[sources.KeyPath]
) -> Layer:
    """Read the secrets that systemd passes by `LoadCredential=`."""
    layer = Layer(CREDENTIALS_VARIABLE)
    folder = environ.get(CREDENTIALS_VARIABLE)
    for path in paths if folder else ():
        file = Path(folder or "", "_".join(path))
        if not file.exists():
            continue
        try:
            layer.put(path, _read(path, str(file), private=False), str(file))
        except SecretFileError as error:
            problem = Finding(str(file), ".".join(path), error.problem, error.hint)
            layer.findings.append(problem)
            layer.put(path, _placeholder(path), str(file))
    return layer


def _placeholder(path: sources.KeyPath) -> object:
    """Return a placeholder, so that an unreadable secret is not reported as missing."""
    info = leaf_at(path)
    return ["unreadable"] if info and is_list(info) else SecretStr("unreadable")


def _read(path: sources.KeyPath, given: object, *, private: bool) -> object:
    if not isinstance(given, str) or not given:
        raise SecretFileError("must be a path in quotes")
    text = read_secret_file(Path(given), private=private)
    info = leaf_at(path)
    if info is not None and is_list(info):
        return [line.strip() for line in text.splitlines() if line.strip()]
    return SecretStr(text.strip())


def read_secret_file(file: Path, *, private: bool) -> str:
    """Return the file's text; `private` refuses files that group or others can open.

    Raises SecretFileError.
    """
    try:
        with file.open(encoding="utf-8") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            text = stream.read()
    except OSError as error:
        reason = (error.strerror or "unknown").lower()
        raise SecretFileError(f"{file} cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise SecretFileError(f"{file} is not UTF-8 text") from None
    except ValueError as error:
        raise SecretFileError(f"{str(file)!r} is not a path: {error}") from None
    if private and mode & FORBIDDEN_BITS:
        problem = f"the mode {mode:04o} of {file} gives other users access"
        raise SecretFileError(problem, f"run: chmod 600 {file}")
    if not text.strip():
        raise SecretFileError(f"{file} is empty; write the secret to this file")
    return text


def conceal(value: object) -> object:
    """Wrap every text in `value`, so that no repr shows it."""
    if isinstance(value, str):
        return SecretStr(value)
    if isinstance(value, list):
        return [conceal(each) for each in value]
    if isinstance(value, dict):
        return {key: conceal(each) for key, each in value.items()}
    return value


def secret_values(settings: Settings) -> list[str]:
    """Return every secret of the configuration, so that the log can redact them."""
    tables = [dict(store) for store in settings.stores.values()]
    tables += (dict(settings.alerts), dict(settings.cluster))
    tables += (dict(settings.admin.oidc), dict(settings.telemetry))
    tables += (connector.options for connector in settings.connectors.values())
    headers = settings.telemetry.sent_headers.values()
    # A shorter value is a name, such as that of a tenant, and no key.
    keys = (value for value in headers if len(value) >= SHORTEST_HEADER_KEY)
    return sorted({*_revealed(tables), *_of_database(settings.place), *keys})


def _of_database(place: Path | str) -> Iterator[str]:
    """Yield the passwords of a database's URL, as they stand there and decoded."""
    if not isinstance(place, str):
        return
    url = urlsplit(place)
    members = (each.partition("=") for each in url.query.split("&"))
    given = [value for name, _, value in members if name.endswith("password")]
    for password in filter(None, (url.password, *given)):
        yield from (password, unquote(password))


def _revealed(value: object) -> list[str]:
    if isinstance(value, SecretStr):
        return [value.get_secret_value()]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [text for each in value for text in _revealed(each)]
    return []
