"""The invariants of every connector, whatever it does."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul_sdk.contract import Connector
    from backhaul_sdk.testing.benches import Counterpart

HOST_KEYS = frozenset(
    {
        "type",
        "store",
        "enabled",
        "trigger",
        "every",
        "cron",
        "jitter",
        "quiet",
        "silent_after",
        "dry_run",
        "counts",
        "topics",
        "begin",
    }
)
"""The keys of `[connectors.NAME]` that are the host's; a connector has no such."""


class AnyConnector:
    """What holds for a connector, whichever way its data goes."""

    @pytest.fixture
    def bench(self) -> Any:
        pytest.fail("override the fixture `bench`")

    def test_secret_settings_are_named(self, bench: Counterpart) -> None:
        spec = bench.connector().spec
        assert spec.secret_fields <= spec.settings.model_fields.keys()
        assert bool(bench.secrets) == bool(spec.secret_fields)

    def test_the_documented_example_is_valid(self, bench: Counterpart) -> None:
        example = bench.example()
        spec = bench.connector().spec
        own = {key: example[key] for key in example if key not in HOST_KEYS}
        assert example["type"] == spec.name
        spec.settings.model_validate(own)

    def test_no_setting_is_named_like_one_of_the_host(self, bench: Counterpart) -> None:
        fields = bench.connector().spec.settings.model_fields
        assert HOST_KEYS.isdisjoint(fields)

    def test_every_setting_has_its_sentence(self, bench: Counterpart) -> None:
        fields = bench.connector().spec.settings.model_fields
        assert [name for name in fields if not fields[name].description] == []


async def opened(bench: Counterpart) -> Connector[Any]:
    """Return a new connector that is ready."""
    connector = bench.connector()
    await connector.open()
    return connector


def traces(connector: Connector[Any]) -> list[str]:
    """Return what a connector shows of itself, to a log or a debugger."""
    return [repr(connector), repr(connector.settings), repr(vars(connector))]


def assert_hidden(bench: Counterpart, seen: Sequence[str]) -> None:
    """Fail where a secret of the settings shows."""
    for secret in bench.secrets:
        assert [text for text in seen if secret in text] == []


def assert_quiet(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fail where a connector said that it is down or up: the host says so, once."""
    said = [line.getMessage() for line in caplog.records if line.levelno > _QUIET]
    assert said == []
    assert [text for text in capfd.readouterr() if text] == []


_QUIET = logging.DEBUG
