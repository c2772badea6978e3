"""Reads the configuration: environment over credentials over file, all checked."""

from __future__ import annotations

import os
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace
from pydantic import ValidationError

from backhaul.errors import ConfigurationError, Finding
from backhaul.settings.connectors import Connector
from backhaul.settings.explaining import did_you_mean, explain
from backhaul.settings.layers import (
    CONFIG_VARIABLE,
    PREFIX,
    Layer,
    environment_layer,
    file_layer,
)
from backhaul.settings.schema import Admin, Public, Settings
from backhaul.settings.secret_files import (
    CREDENTIALS_VARIABLE,
    SecretOptions,
    credentials_layer,
    read_named_files,
    secret_paths,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ValidateConnector: TypeAlias = "Callable[[str, Connector], list[Finding]]"
"""Checks an instance's options. Sources are empty: they are filled in here, and so is
`connectors.NAME` where a key does not begin with it."""

ValidateTogether: TypeAlias = "Callable[[Mapping[str, Connector]], list[Finding]]"
"""Checks all instances, by name, against each other; keys begin with `connectors`."""

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
    """Return the settings. Raises ConfigurationError with everything that is wrong.

    `path` is what `--config` gave. `secret_options` names the secret keys of a type of
    connector: they may come from files too, and reach its options as `SecretStr`.
    """
    environ = os.environ if environ is None else environ
    layers = _layers(path, environ, secret_options)
    values = _merged(layers)
    settings, findings = _validated(values)
    findings += _connector_findings(values, validate_connector)
    if validate_together:
        tables = _tables(values, "connectors")
        found_so_far = {name: _as_far_as_valid(tables[name]) for name in tables}
        findings += validate_together({k: v for k, v in found_so_far.items() if v})
    # What systemd hands over is listened on, whatever the settings name.
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
    """Return the file that is read: `--config`, `$BACKHAUL_CONFIG`, a default place."""
    environ = os.environ if environ is None else environ
    if path is None and environ.get(CONFIG_VARIABLE):
        path = Path(environ[CONFIG_VARIABLE])
    return path or next((file for file in DEFAULT_FILES if file.is_file()), None)


def bare_environment() -> dict[str, str]:
    """Return ours, without what would override a program's configuration file."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) and name != CREDENTIALS_VARIABLE
    }


def _layers(
    path: Path | None, environ: Mapping[str, str], secret_options: SecretOptions
) -> list[Layer]:
    """Return the layers, the strongest first."""
    environment = environment_layer(environ)
    file = configuration_file(path, environ)
    if file is None and not environment.values:
        looked = " and ".join(str(default) for default in DEFAULT_FILES)
        hint = f"give --config or ${CONFIG_VARIABLE}; looked for {looked}"
        finding = Finding("configuration", "", "no file found", hint)
        raise ConfigurationError([finding])
    given = [environment, file_layer(file) if file else Layer(environment.name)]
    secrets = secret_paths(given, secret_options)
    for layer in given:
        read_named_files(layer, secrets)
    return [environment, credentials_layer(environ, secrets), given[1]]


def _merged(layers: Sequence[Layer]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for layer in reversed(layers):
        values = _over(values, layer.values)
    return values


def _over(weak: dict[str, Any], strong: dict[str, Any]) -> dict[str, Any]:
    both = {
        key: _over(weak[key], value)
        for key, value in strong.items()
        if isinstance(value, dict) and isinstance(weak.get(key), dict)
    }
    return weak | strong | both


def _validated(values: dict[str, Any]) -> tuple[Settings | None, list[Finding]]:
    # Arguments with an underscore would steer pydantic-settings itself.
    private = [key for key in values if key.startswith("_")]
    findings = [Finding("", key, "unknown setting") for key in private]
    public = {key: value for key, value in values.items() if key not in private}
    try:
        return Settings(**public), findings
    except ValidationError as error:
        return None, findings + explain(error, Settings)


def _port_findings(values: dict[str, Any]) -> list[Finding]:
    """Check the listeners even if other tables are wrong."""
    try:
        public = Public.model_validate(values.get("public", {}))
        admin = Admin.model_validate(values.get("admin", {}))
    except ValidationError:
        return []
    if public.port != admin.port or not public.port:
        return []
    if not _meet(public.host, admin.host):
        return []
    problem = f"{admin.port} is public.port as well, on the same host"
    return [Finding("", "admin.port", problem, "give each listener a port of its own")]


def _meet(one: str, other: str) -> bool:
    """Tell whether two hosts are one for sure; of names only the start can tell."""
    try:
        here, there = ip_address(one), ip_address(other)
    except ValueError:
        return one == other
    if here.version != there.version:
        return False
    return here == there or here.is_unspecified or there.is_unspecified


def _key_files(settings: Settings, layers: Sequence[Layer]) -> dict[str, Path]:
    """Return the file of each store's API key, of those that stand in one."""
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
    """Check each instance even if other tables are wrong."""
    findings: list[Finding] = []
    for name, table in _tables(values, "connectors").items():
        connector = _as_far_as_valid(table)
        if connector is None:
            continue
        found = _store_findings(connector, list(_tables(values, "stores")))
        found += validate(name, connector) if validate else []
        findings += (_within(f"connectors.{name}", finding) for finding in found)
    return findings


def _as_far_as_valid(table: object) -> Connector | None:
    """Return an instance without the keys that are wrong, which are told elsewhere.

    One mistake among the host's keys must not hide an unknown type, a store that there
    is not, or what the connector says of its own keys.
    """
    try:
        return Connector.model_validate(table)
    except ValidationError as error:
        wrong = {str(each["loc"][0]) for each in error.errors() if each["loc"]}
        if not isinstance(table, dict) or not wrong & table.keys():
            return None
        return _as_far_as_valid({k: v for k, v in table.items() if k not in wrong})


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
        return [Finding("", "store", "there is no such store", hint)]
    if not connector.store and len(stores) > 1:
        hint = f"known: {', '.join(sorted(stores))}"
        return [Finding("", "store", "is missing, as there are several", hint)]
    return []


def _located(finding: Finding, layers: Sequence[Layer]) -> Finding:
    """Name the layer that gives the key, else the weakest that comes nearest."""
    if finding.source:
        return finding
    path = tuple(finding.key.split("."))
    giving = [layer for layer in layers if layer.depth(path) == len(path)]
    nearest = max(reversed(layers), key=lambda layer: layer.depth(path))
    layer = giving[0] if giving else nearest
    return replace(finding, source=layer.source(path))
