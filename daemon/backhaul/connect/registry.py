"""Finds installed connectors by their entry points."""

from __future__ import annotations

import difflib
import sys
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import entry_points
from itertools import combinations
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pydantic import ValidationError

from backhaul.errors import ConfigurationError, Finding
from backhaul.settings import Connector as Instance
from backhaul.settings import explain
from backhaul_sdk import Capability

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.metadata import EntryPoint, EntryPoints

    from backhaul.settings import Settings
    from backhaul_sdk import Connector

GROUP = "backhaul.connectors"


def known_types() -> dict[str, str]:
    """Return the import path of each installed connector. Raises ConfigurationError.

    Two distributions that offer the same name are an error: the order of installation
    must not decide which one runs.
    """
    found: dict[str, str] = {}
    for entry in _entries(tuple(sys.path)):
        if found.setdefault(entry.name, entry.value) != entry.value:
            problem = f"two installed connectors are called {entry.name!r}: "
            problem += f"{found[entry.name]} and {entry.value}"
            raise ConfigurationError([Finding("installation", "", problem)])
    return found


def load(type_name: str) -> type[Connector[Any]] | None:
    """Import the connector's class; return None for an unknown name.

    Raises ConfigurationError if a library that it imports is not installed.
    """
    for entry in _entries(tuple(sys.path)).select(name=type_name):
        try:
            connector: type[Connector[Any]] = entry.load()
        except ModuleNotFoundError as error:
            raise ConfigurationError([_not_importable(entry, error)]) from None
        return connector
    return None


def importable() -> dict[str, type[Connector[Any]]]:
    """Return the connectors by name, without those whose libraries are missing."""
    found = {}
    for name in sorted(known_types()):
        with suppress(ConfigurationError):
            if connector := load(name):
                found[name] = connector
    return found


def _not_importable(entry: EntryPoint, error: ModuleNotFoundError) -> Finding:
    """Return what to install: the distribution's extra with the connector's name."""
    problem = f"the connector {entry.name} needs the module {error.name}"
    problem += ", which is not installed"
    extras = entry.dist.metadata.get_all("Provides-Extra") if entry.dist else None
    if entry.dist is None or entry.name not in (extras or ()):
        return Finding("installation", "type", problem)
    hint = f"install it with: pip install '{entry.dist.name}[{entry.name}]'"
    return Finding("installation", "type", problem, hint)


def listens(instances: Mapping[str, Instance]) -> bool:
    """Return whether one of these connections may serve HTTP requests."""
    kinds = filter(None, (load(each.type) for each in instances.values()))
    return any(Capability.LISTEN in kind.spec.capabilities for kind in kinds)


def secret_fields(type_name: str) -> frozenset[str]:
    """Return the names of a connector's secret settings; none for an unknown name."""
    connector = load(type_name)
    return connector.spec.secret_fields if connector else frozenset()


def check(type_name: str, options: Mapping[str, Any]) -> list[Finding]:
    """Return the mistakes in a connection's settings."""
    try:
        connector = load(type_name)
    except ConfigurationError as error:
        return [replace(each, source="") for each in error.findings]
    if connector is None:
        near = difflib.get_close_matches(type_name, known_types(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else _installed()
        problem = f"no connector is called {type_name!r}"
        return [Finding("", "type", problem, hint)]
    try:
        connector.spec.settings.model_validate(dict(options))
    except ValidationError as error:
        return explain(error, connector.spec.settings, Instance.model_fields)
    return []


def check_topics(type_name: str, topics: Sequence[str]) -> list[Finding]:
    """Return a finding for each topic that the connector does not take."""
    connector = load(type_name)
    if connector is None:
        return []
    taken = connector.spec.topics
    hint = f"it takes {', '.join(sorted(taken))}" if taken else "it takes none"
    return [
        Finding(
            "",
            "topics",
            f"{type_name} does not take the change notification {topic!r}",
            hint,
        )
        for topic in topics
        if topic not in taken
    ]


def check_shared_sources(instances: Mapping[str, Instance]) -> list[Finding]:
    """Return a finding for each two connections that would take the same records.

    A connection only knows the records that it took itself, so both would apply them.
    """
    settings = {
        name: found
        for name, each in instances.items()
        if each.enabled and (found := _valid_settings(each)) is not None
    }
    return [
        Finding(
            "",
            f"connectors.{other}",
            f"takes {shared}, which connectors.{one} also takes: Backhaul would"
            " apply each record twice",
            "remove one of the two, set enabled = false for it, or"
            f" {connector.spec.shared_hint}",
        )
        for one, other in combinations(settings, 2)
        if instances[one].type == instances[other].type
        and (connector := load(instances[one].type))
        and (
            shared := connector.spec.shared(
                settings[one],
                settings[other],
                instances[one].store == instances[other].store,
            )
        )
    ]


def _valid_settings(instance: Instance) -> Any:
    """Return the connector's own settings, None if they or the type are wrong."""
    connector = load(instance.type)
    if connector is None:
        return None
    try:
        return connector.spec.settings.model_validate(dict(instance.options))
    except ValidationError:
        return None


def meanings(type_name: str, options: Mapping[str, Any]) -> list[str]:
    """Return sentences that explain the less usual settings of a connection."""
    connector = load(type_name)
    if connector is None or check(type_name, options):
        return []
    settings = connector.spec.settings.model_validate(dict(options))
    return list(connector.spec.meanings(settings))


def build(name: str, type_name: str, options: Mapping[str, Any]) -> Connector[Any]:
    """Return a new connector object. Raises ConfigurationError."""
    if findings := check(type_name, options):
        raise ConfigurationError(findings)
    connector = load(type_name)
    if connector is None:
        raise LookupError(type_name)
    return connector(name, connector.spec.settings.model_validate(dict(options)))


@lru_cache(maxsize=1)
def _entries(path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points on a path, which takes as long as a query."""
    return entry_points(group=GROUP)


def _installed() -> str:
    return f"installed: {', '.join(sorted(known_types()))}"


def receivers(settings: Settings) -> list[str]:
    """Return the connections that run and receive changes."""
    found = []
    for name in settings.enabled_connectors:
        connector = load(settings.connectors[name].type)
        if connector and Capability.PUSH in connector.spec.capabilities:
            found.append(name)
    return found
