"""The OpenAPI document of the API is valid, and describes every endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from openapi_spec_validator import validate

from backhaul.admin.api.endpoint import PREFIX
from backhaul.admin.api.routes import ENDPOINTS, described
from backhaul.store.tokens import Scope

if TYPE_CHECKING:
    from backhaul.admin.api.endpoint import Endpoint

DOCUMENT: Any = described()


def operation(endpoint: Endpoint) -> Any:
    return DOCUMENT["paths"][PREFIX + endpoint.path][endpoint.method.lower()]


def test_the_document_is_valid() -> None:
    validate(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.1")


def test_no_two_types_have_one_name() -> None:
    """msgspec then names both by their modules."""
    names = DOCUMENT["components"]["schemas"]
    assert [name for name in names if "." in name] == []


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.name)
def test_each_endpoint_is_described(endpoint: Endpoint) -> None:
    found = operation(endpoint)
    assert found["operationId"] == endpoint.name
    assert found["summary"].endswith(".")
    assert found["security"] == ([{"token": []}] if endpoint.needs else [])
    assert {"422", "503"} <= found["responses"].keys()


def test_each_endpoint_has_its_own_name() -> None:
    names = [each.name for each in ENDPOINTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.name)
def test_only_a_token_to_operate_changes_anything(endpoint: Endpoint) -> None:
    reads = endpoint.name.startswith(("show_", "list_", "count_", "stream_"))
    assert reads is (endpoint.method == "GET")
    if not reads:
        assert endpoint.needs is Scope.OPERATE


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.name)
def test_a_record_needs_a_key(endpoint: Endpoint) -> None:
    names = {each["name"]: each for each in operation(endpoint)["parameters"]}
    is_keyed = endpoint.name.startswith("submit_")
    assert ("Idempotency-Key" in names) is is_keyed
