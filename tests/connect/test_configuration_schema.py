"""The JSON Schema of the configuration, with which editors complete and check it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from typing import Any

import jsonschema_rs
import pytest

from backhaul.connect import registry
from backhaul.connect.configuration_schema import configuration_schema
from repository.tree import read

SCHEMA = configuration_schema()
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)
TABLES = re.compile(r"^```toml\n(.*?)^```", re.DOTALL | re.MULTILINE)
STORE: dict[str, Any] = {"base_url": "https://shop.example", "api_key_file": "/k"}


def faults(configuration: dict[str, Any]) -> list[str]:
    """Return the path of each error, such as `connectors.erp.every`."""
    found = VALIDATOR.iter_errors(configuration)
    return sorted({".".join(map(str, each.instance_path)) for each in found})


def connection(**options: Any) -> dict[str, Any]:
    return {"stores": {"main": STORE}, "connectors": {"erp": options}}


def test_the_command_prints_it() -> None:
    command = [sys.executable, "-m", "backhaul", "check-config", "--schema"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == SCHEMA
    assert jsonschema_rs.meta.is_valid(SCHEMA)


def test_the_example_file_follows_it() -> None:
    assert faults(tomllib.loads(read("config/backhaul.example.toml"))) == []


@pytest.mark.parametrize("name", sorted(registry.known_types()))
def test_the_examples_of_a_connector_follow_it(name: str) -> None:
    tables = [
        tomllib.loads(text)
        for text in TABLES.findall(read(f"docs/connectors/{name}.md"))
    ]
    own = [table for table in tables if "connectors" in table]
    assert own
    for table in own:
        for options in table["connectors"].values():
            assert faults(connection(**{"type": name, **options})) == []


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"type": "file_drop", "path": "/srv", "every": 5}, "connectors.erp.every"),
        ({"type": "file_drop", "path": "/srv", "paht": "/x"}, "connectors.erp"),
        (
            {"type": "file_drop", "path": "/srv", "begin": "later"},
            "connectors.erp.begin",
        ),
        ({"path": "/srv"}, "connectors.erp"),
        ({"type": "nats", "servers": "nats://a"}, "connectors.erp.servers"),
    ],
)
def test_a_mistake_is_marked_at_its_place(options: dict[str, Any], place: str) -> None:
    assert faults(connection(**options)) == [place]


def test_a_connection_without_a_type_has_no_errors_of_all_connectors() -> None:
    (error,) = VALIDATOR.iter_errors(connection(store="main"))
    assert error.message == '"type" is a required property'


def test_the_top_level_is_checked_too() -> None:
    assert faults({"stores": {"main": STORE}, "pusch": {}}) == [""]
    assert faults({"stores": {"main": {**STORE, "base_url": 1}}}) == [
        "stores.main.base_url"
    ]


def test_a_connector_that_is_not_installed_may_have_any_settings() -> None:
    assert faults(connection(type="ledger", account="7")) == []


def test_every_setting_has_a_description() -> None:
    silent = [
        f"{name}.{option}"
        for name, table in [("", SCHEMA), *SCHEMA["$defs"].items()]
        for option, each in table.get("properties", {}).items()
        if not (each.get("description") or "$ref" in each)
    ]
    assert silent == []
