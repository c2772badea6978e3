"""Tests that every connector must pass, and cancellation at every await."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Sequence

    from backhaul_sdk.contract import Connector
    from backhaul_sdk.testing.bench import Counterpart


# ruff: noqa: S101 - these are tests, which assert


HOST_KEYS = frozenset(
    {
        "type",
        "store",
        "enabled",
        "runs_on",
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
"""The host's own keys of `[connectors.NAME]`; a connector has no setting of that
name."""
_QUIET = logging.DEBUG
MOST_WAITS = 500


class AnyConnector:
    """Tests for every connector, whether it reads or writes."""

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
    """Return a new connector, opened."""
    connector = bench.connector()
    await connector.open()
    return connector


def traces(connector: Connector[Any]) -> list[str]:
    """Return what a connector shows of itself to a log or a debugger."""
    return [repr(connector), repr(connector.settings), repr(vars(connector))]


def assert_hidden(bench: Counterpart, seen: Sequence[str]) -> None:
    """Fail if a secret of the settings is visible."""
    for secret in bench.secrets:
        assert [text for text in seen if secret in text] == []


def assert_quiet(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fail if a connector logged that it is down or up: the host logs that, once."""
    said = [line.getMessage() for line in caplog.records if line.levelno > _QUIET]
    assert said == []
    assert [text for text in capfd.readouterr() if text] == []


class Interrupted:
    """Awaits something, and cancels it at its await number `waits` (from 0)."""

    def __init__(self, waits: int, work: Coroutine[Any, Any, Any]) -> None:
        self._waits = waits
        self._work = work
        self.cancelled = False

    def __await__(self) -> Generator[Any, None, None]:
        task = asyncio.current_task()
        steps = self._work.__await__()
        go_on: Callable[[], Any] = partial(next, steps)
        for wait in count():
            try:
                waited_for = go_on()
            except StopIteration:
                return
            if wait == self._waits and task is not None:
                task.cancel()
                self.cancelled = True
            try:
                yield waited_for
                go_on = partial(next, steps)
            except BaseException as error:  # noqa: BLE001 - passed to the work itself
                go_on = partial(steps.throw, error)


async def cancelled_at(waits: int, work: Coroutine[Any, Any, Any]) -> bool:
    """Cancel the work at one of its awaits; return True if it had ended before.

    Work that continues after a cancellation would delay the end of the program.
    """
    interrupted = Interrupted(waits, work)
    try:
        await interrupted
    except asyncio.CancelledError:
        _clear_cancellation()
        return False
    if interrupted.cancelled:
        _clear_cancellation()
        pytest.fail(f"it continued after a cancellation at its await {waits}")
    return True


def _clear_cancellation() -> None:
    if task := asyncio.current_task():
        task.uncancel()
