"""The settings for DataWedge have the structure and names of Zebra's documentation.

https://techdocs.zebra.com/datawedge/latest/guide/api/setconfig/
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "docs" / "examples" / "datawedge" / "keystroke.json"
PARAMETERS = {
    "BARCODE": {"scanner_selection_by_identifier", "scanner_input_enabled"},
    "KEYSTROKE": {"keystroke_output_enabled"},
    "BDF": {"bdf_enabled", "bdf_send_data", "bdf_send_enter"},
    "INTENT": {"intent_output_enabled"},
    "IP": {"ip_output_enabled"},
}
"""The parameters that the file sets of each plug-in, by their documented names."""


@pytest.fixture
def settings() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def parameters(settings: dict[str, Any], plugin: str) -> dict[str, str]:
    (found,) = (
        each["PARAM_LIST"]
        for each in settings["PLUGIN_CONFIG"]
        if each["PLUGIN_NAME"] == plugin
    )
    return dict(found)


def test_only_documented_names_are_used(settings: dict[str, Any]) -> None:
    assert settings.keys() == {
        *("PROFILE_NAME", "PROFILE_ENABLED", "CONFIG_MODE"),
        *("PLUGIN_CONFIG", "APP_LIST"),
    }
    modes = {"CREATE_IF_NOT_EXIST", "OVERWRITE", "UPDATE"}
    assert settings["CONFIG_MODE"] in modes
    for plugin in settings["PLUGIN_CONFIG"]:
        optional = {"RESET_CONFIG", "OUTPUT_PLUGIN_NAME"}
        assert plugin.keys() - optional == {"PLUGIN_NAME", "PARAM_LIST"}
        # A Bundle has these values as texts, truth values too.
        assert all(isinstance(value, str) for value in plugin["PARAM_LIST"].values())
    found = {
        each["PLUGIN_NAME"]: set(each["PARAM_LIST"])
        for each in settings["PLUGIN_CONFIG"]
    }
    assert found == PARAMETERS


def test_a_code_is_typed_with_enter_and_goes_nowhere_else(
    settings: dict[str, Any],
) -> None:
    assert parameters(settings, "BARCODE")["scanner_input_enabled"] == "true"
    assert parameters(settings, "KEYSTROKE")["keystroke_output_enabled"] == "true"
    assert set(parameters(settings, "BDF").values()) == {"true"}
    (formatting,) = (
        each for each in settings["PLUGIN_CONFIG"] if each["PLUGIN_NAME"] == "BDF"
    )
    assert formatting["OUTPUT_PLUGIN_NAME"] == "KEYSTROKE"
    assert parameters(settings, "INTENT")["intent_output_enabled"] == "false"
    assert parameters(settings, "IP")["ip_output_enabled"] == "false"
    (app,) = settings["APP_LIST"]
    assert app == {"PACKAGE_NAME": "com.android.chrome", "ACTIVITY_LIST": ["*"]}
