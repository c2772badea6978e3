"""The table [telemetry], and the standard variables of OpenTelemetry."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from backhaul.settings import load_settings, secret_values
from backhaul_sdk.extras import LIBRARIES
from settings.configurations import STORE, complaints, written

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.settings.telemetry import Telemetry

URL = "http://127.0.0.1:4318"
ON = f'[telemetry]\notlp_endpoint = "{URL}"\n'
VARIABLES = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/",
    "OTEL_EXPORTER_OTLP_HEADERS": "api-key=canary%20otlp,X-Tenant=shop",
    "OTEL_SERVICE_NAME": "sync",
    "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,team=a%2Cb",
}


def loaded(folder: Path, text: str, environ: dict[str, str]) -> Telemetry:
    return load_settings(written(folder, STORE + text), environ).telemetry


def test_nothing_is_exported_by_default(tmp_path: Path) -> None:
    assert not loaded(tmp_path, "", {}).is_on


def test_the_standard_variables_are_settings(tmp_path: Path) -> None:
    found = loaded(tmp_path, "", VARIABLES)
    assert (found.is_on, found.endpoint) == (True, "http://collector:4318")
    assert found.sent_headers == {"api-key": "canary otlp", "x-tenant": "shop"}
    assert found.service_name == "sync"
    assert found.attributes == {
        "deployment.environment.name": "test",
        "team": "a,b",
    }


def test_a_setting_outweighs_its_variable(tmp_path: Path) -> None:
    found = loaded(tmp_path, ON, VARIABLES)
    assert (found.endpoint, found.service_name) == (URL, "sync")


def test_the_sdk_is_turned_off_as_everywhere(tmp_path: Path) -> None:
    found = loaded(tmp_path, "", VARIABLES | {"OTEL_SDK_DISABLED": "true"})
    assert not found.is_on


def test_the_sdk_is_turned_off_beside_a_configured_endpoint(tmp_path: Path) -> None:
    assert not loaded(tmp_path, ON, {"OTEL_SDK_DISABLED": "TRUE"}).is_on


@pytest.mark.parametrize("name", ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"])
def test_without_an_endpoint_the_other_variables_change_nothing(
    name: str, tmp_path: Path
) -> None:
    found = loaded(tmp_path, "", {name: "production"})
    assert (found.service_name, found.attributes) == ("backhaul", {})


def test_without_the_packages_the_variables_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, LIBRARIES["otel"][1], None)
    assert not loaded(tmp_path, "", VARIABLES).is_on


def test_a_short_value_of_a_header_is_no_secret(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, STORE), VARIABLES)
    assert "shop" not in secret_values(settings)


def test_without_traces_and_metrics_nothing_is_exported(tmp_path: Path) -> None:
    assert not loaded(tmp_path, f"{ON}traces = false\nmetrics = false\n", {}).is_on


def test_the_headers_are_secrets(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, STORE), VARIABLES)
    secrets = secret_values(settings)
    assert {"canary otlp", VARIABLES["OTEL_EXPORTER_OTLP_HEADERS"]} <= set(secrets)
    assert "canary" not in repr(settings)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            'otlp_endpoint = "collector:4318"',
            'must be a URL such as "https://shop.example"',
        ),
        (
            'headers = "canary"',
            'must be "NAME=VALUE" pairs with commas between them',
        ),
        ('headers = ","', "is empty"),
        (
            'headers = "key=canary%0A"',
            "has a value with a line break or a character outside ASCII; copy the"
            " headers again",
        ),
        (
            'resource_attributes = ["production"]',
            'entry 1 must be "NAME=VALUE", not "production"',
        ),
        ("sample_ratio = 2", "must be at most 1.0"),
        ("sample_ratio = true", "must be a number, not true or false"),
    ],
)
def test_a_mistake_is_named_without_a_secret(
    line: str, problem: str, tmp_path: Path
) -> None:
    key = line.split(" ")[0]
    (found,) = complaints(tmp_path, f"{STORE}[telemetry]\n{line}\n")
    assert found.endswith(f": telemetry.{key}: {problem}")
    assert "canary" not in found


def test_missing_packages_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, LIBRARIES["otel"][1], None)
    (found,) = complaints(tmp_path, STORE + ON)
    assert "pip install 'backhaul[otel]'" in found
