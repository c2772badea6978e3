"""Connectors are found by their entry points, and mistakes are explained."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from backhaul.connect import registry
from backhaul.errors import ConfigurationError
from backhaul.settings.connections import Connector
from backhaul_sdk import Spec
from backhaul_sdk.testing import HOST_KEYS
from scenes.back_office import ScriptedConnector

DESK = "scenes.back_office:ScriptedConnector"
WRITING = Path(__file__).parents[2] / "docs" / "connectors" / "writing-one.md"


def install(folder: Path, distribution: str, **entries: str) -> None:
    """Install a distribution with connectors into a folder of the import path."""
    info = folder / f"{distribution}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {distribution}\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    text = "\n".join([f"[{registry.GROUP}]", *lines, ""])
    (info / "entry_points.txt").write_text(text)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def test_the_sdk_knows_every_key_that_is_the_hosts() -> None:
    assert Connector.model_fields.keys() == HOST_KEYS


@pytest.mark.parametrize("text", [Spec.__doc__, WRITING.read_text("utf-8")])
def test_the_guide_for_connector_authors_names_the_host_keys(text: str) -> None:
    (planned,) = re.findall(r"`(type,[a-z_, ]+)`", " ".join(text.split()))
    assert set(planned.split(", ")) == HOST_KEYS


def test_an_installed_connector_is_found(packages: Path) -> None:
    install(packages, "office", desk=DESK)
    assert registry.known_types()["desk"] == DESK
    assert registry.load("desk") is ScriptedConnector
    assert registry.secret_fields("desk") == {"password"}
    built = registry.build("front", "desk", {"rows": "3"})
    assert isinstance(built, ScriptedConnector)
    assert (built.instance, built.settings.rows) == ("front", 3)


def test_ours_are_there() -> None:
    assert {"file_drop", "scanner"} <= set(registry.known_types())


def test_two_of_a_name_are_an_error(packages: Path) -> None:
    install(packages, "office", desk=DESK)
    install(packages, "rival", desk="rival:Desk")
    with pytest.raises(
        ConfigurationError, match="two installed connectors are called 'desk'"
    ):
        registry.known_types()


def test_a_connector_that_is_installed_twice_is_no_error(packages: Path) -> None:
    install(packages, "office", desk=DESK)
    install(packages, "office_again", desk=DESK)
    assert registry.known_types()["desk"] == DESK


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("desks", "did you mean 'desk'?"),
        ("carrier_pigeon", "installed: amqp, courier, desk, "),
    ],
)
def test_an_unknown_type_is_reported_with_a_hint(
    asked: str, hint: str, packages: Path
) -> None:
    install(packages, "office", desk=DESK)
    (finding,) = registry.check(asked, {})
    assert finding.key == "type"
    assert finding.problem == f"no connector is called {asked!r}"
    assert finding.hint.startswith(hint)
    with pytest.raises(ConfigurationError, match="no connector is called"):
        registry.build("front", asked, {})


def test_each_wrong_setting_is_reported_by_its_name(packages: Path) -> None:
    install(packages, "office", desk=DESK)
    findings = registry.check("desk", {"rows": "many", "foldr": "x"})
    planned = {finding.key: str(finding) for finding in findings}
    assert planned == {
        "rows": ": rows: must be a whole number",
        "foldr": ": foldr: unknown setting (did you mean folder?)",
    }


def test_the_error_of_a_text_describes_its_own_pattern() -> None:
    """The text for names of stores and connectors would be wrong for a header."""
    asked = {"base_url": "https://erp.example", "header": "X API Key"}
    (finding,) = registry.check("http_json", asked)
    assert finding.key == "header"
    assert finding.problem == "must match the pattern ^[A-Za-z0-9-]+$"


def test_a_wrong_secret_is_not_shown(packages: Path) -> None:
    install(packages, "office", desk=DESK)
    findings = registry.check("desk", {"password": ["canary"]})
    assert findings
    assert "canary" not in str(findings)


TAKES: list[tuple[str, dict[str, Any], set[str]]] = [
    ("file_drop", {}, set()),
    ("file_drop", {"exports": "news"}, {"order.placed", "stock.changed"}),
    ("tryton", {}, set()),
    ("tryton", {"customer": "shop"}, {"order.placed", "order.cancelled"}),
    ("odoo", {}, set()),
    ("odoo", {"orders": "quotation"}, {"order.placed", "order.cancelled"}),
    ("erpnext", {}, set()),
    ("erpnext", {"customer": "shop"}, {"order.placed", "order.cancelled"}),
]


@pytest.mark.parametrize(("type_name", "more", "taken"), TAKES)
def test_a_connection_follows_the_topics_that_its_settings_configure(
    type_name: str, more: dict[str, Any], taken: set[str], tmp_path: Path
) -> None:
    needed: dict[str, dict[str, Any]] = {
        "file_drop": {"path": str(tmp_path)},
        "tryton": {
            "url": "https://erp.example",
            "database": "d",
            "user": "u",
            "password": "p" * 12,
        },
        "odoo": {
            "url": "https://erp.example",
            "database": "d",
            "user": "u",
            "api_key": "k" * 12,
        },
        "erpnext": {
            "url": "https://erp.example",
            "api_key": "k" * 12,
            "api_secret": "s" * 12,
        },
    }
    built = registry.build("desk", type_name, {**needed[type_name], **more})
    assert taken <= built.topics()
    assert bool(built.topics()) == bool(taken)
