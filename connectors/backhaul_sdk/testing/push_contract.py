"""Tests that a connector that writes changes must pass."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import gc
import math
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk.contract import (
    TOPICS,
    Absent,
    Applied,
    Capability,
    Found,
    NotSent,
    Rejected,
    Uncertain,
    Unknown,
)
from backhaul_sdk.testing.base_contract import (
    MOST_WAITS,
    AnyConnector,
    assert_hidden,
    assert_quiet,
    cancelled_at,
    opened,
    traces,
)
from backhaul_sdk.testing.bench import Failure
from backhaul_sdk.testing.memory_host import MemoryHost, lookup_result, push_result

if TYPE_CHECKING:
    from backhaul_sdk.contract import Change, Connector, Pushed
    from backhaul_sdk.testing.bench import PushBench

MANY_CHANGES = 40
MOST_KEPT = 3
MOST_STEPS = 10

CLASSES: dict[Failure, tuple[type, ...]] = {
    Failure.REFUSES: (Rejected,),
    Failure.BUSY: (NotSent,),
    Failure.BREAKS: (Uncertain, NotSent),
    Failure.LOSES_ANSWER: (Uncertain, Applied),
    Failure.BABBLES: (Uncertain, Applied),
}
"""The results that `push` may return for each failure; the result must be true as
well."""


class _Document(dict[str, Any]):
    """A document whose lifetime a test can watch."""

    __slots__ = ("__weakref__",)


class PushContract(AnyConnector):
    """Tests for a connector that writes changes."""

    def test_it_says_what_it_takes(self, bench: PushBench) -> None:
        spec = bench.connector().spec
        assert Capability.PUSH in spec.capabilities
        assert spec.topics
        assert spec.topics <= set(TOPICS)

    async def test_check_changes_nothing(self, bench: PushBench) -> None:
        before = bench.state()
        await bench.connector().check()
        await bench.connector().check()
        assert bench.state() == before

    async def test_each_change_takes_effect_once(self, bench: PushBench) -> None:
        connector = await opened(bench)
        for number in range(5):
            said = await connector.push(bench.change(number))
            assert isinstance(said, Applied), said
        await bench.at_rest()
        assert sorted(await bench.effects()) == list(range(5))

    async def test_every_topic_it_names_is_taken(self, bench: PushBench) -> None:
        connector = await opened(bench)
        for topic in sorted(connector.spec.topics, key=TOPICS.index):
            said = await connector.push(bench.change(0, topic))
            assert isinstance(said, Applied | Rejected), f"{topic}: {said}"

    async def test_unknown_fields_are_tolerated(self, bench: PushBench) -> None:
        change = bench.change(0)
        document = {**change.document, "giftWrap": {"paper": "blue"}}
        said = await (await opened(bench)).push(replace(change, document=document))
        assert isinstance(said, Applied), said

    async def test_every_failure_is_classified_and_nothing_tried_twice(
        self, bench: PushBench
    ) -> None:
        assert bench.failures
        for number, failure in enumerate(bench.failures):
            connector, before = await opened(bench), bench.tries()
            await bench.fail(failure)
            said = await connector.push(bench.change(number))
            assert bench.tries() - before <= 1, f"{failure}: the connector tried again"
            await bench.at_rest()
            await bench.recover()
            assert isinstance(said, CLASSES[failure]), f"{failure}: {said}"
            assert_true(said, list(await bench.effects()).count(number))
            await connector.close()

    async def test_what_cannot_be_reached_is_not_sent(self, bench: PushBench) -> None:
        connector, before = await opened(bench), bench.tries()
        await bench.unplug()
        said = await connector.push(bench.change(0))
        assert bench.tries() - before <= 1
        await bench.plug_in()
        assert isinstance(said, NotSent | Uncertain), said
        assert_true(said, list(await bench.effects()).count(0))

    async def test_lookup_finds_what_push_did(self, bench: PushBench) -> None:
        change, other = bench.change(0), bench.change(1)
        connector = await opened(bench)
        said = await connector.push(change)
        await bench.at_rest()
        before = bench.state()
        for asked in (connector, await opened(bench)):
            found = await asked.lookup(change)
            assert isinstance(found, Found | Unknown), found
            if isinstance(found, Found) and isinstance(said, Applied):
                assert found.reference == said.reference
            assert isinstance(await asked.lookup(other), Absent | Unknown)
        assert bench.state() == before, "a lookup must not change anything"

    async def test_lookup_never_guesses(self, bench: PushBench) -> None:
        connector, change = await opened(bench), bench.change(0)
        await connector.push(change)
        await bench.at_rest()
        await bench.unplug()
        said = await lookup_result(connector, change)
        await bench.plug_in()
        assert not isinstance(said, Absent), "it could not be read"

    async def test_nothing_is_lost_or_doubled_by_failures(
        self, bench: PushBench
    ) -> None:
        host, connector = MemoryHost(), await opened(bench)
        for number, failure in enumerate(bench.failures):
            await bench.fail(failure)
            await host.deliver(connector, bench.change(number))
            await bench.at_rest()
            await bench.recover()
            await resolve(host, connector, bench, number)

    async def test_cancellation_anywhere_loses_and_doubles_nothing(
        self, bench: PushBench
    ) -> None:
        for waits in range(MOST_WAITS):
            host, connector = MemoryHost(), await opened(bench)
            work = host.deliver(connector, bench.change(waits))
            done = await cancelled_at(waits, work)
            await connector.close()
            await bench.at_rest()
            await resolve(host, await opened(bench), bench, waits)
            if done:
                return
        pytest.fail("it waits too often to be tried")

    async def test_unplugged_often_it_says_nothing_and_works_again(
        self,
        bench: PushBench,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        caplog.set_level("INFO")
        host, connector = MemoryHost(), await opened(bench)
        for number in range(bench.unpluggings):
            await bench.unplug()
            state = await host.deliver(connector, bench.change(number))
            assert state in {"planned", "uncertain"}
            await bench.plug_in()
            await resolve(host, connector, bench, number)
        assert_quiet(caplog, capfd)

    async def test_it_keeps_nothing_of_a_change(self, bench: PushBench) -> None:
        connector = await opened(bench)
        seen: list[weakref.ref[_Document]] = []
        for number in range(MANY_CHANGES):
            change = bench.change(number)
            document = _Document(change.document)
            seen.append(weakref.ref(document))
            await connector.push(replace(change, document=document))
            del change, document
        gc.collect()
        assert len([one for one in seen if one() is not None]) <= MOST_KEPT

    async def test_no_secret_shows(
        self,
        bench: PushBench,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        caplog.set_level("DEBUG")
        connector = await opened(bench)
        seen: list[str] = []
        for number, failure in enumerate(bench.failures):
            await bench.fail(failure)
            seen += await both(connector, bench.change(number))
            await bench.recover()
        await bench.unplug()
        seen += await both(connector, bench.change(len(bench.failures)))
        await bench.plug_in()
        seen += [*traces(connector), *await bench.provoke()]
        assert_hidden(bench, [*seen, caplog.text, *capfd.readouterr()])

    async def test_open_and_close_may_be_repeated(self, bench: PushBench) -> None:
        connector = await opened(bench)
        await connector.push(bench.change(0))
        await connector.close()
        await connector.close()
        await connector.open()
        assert isinstance(await connector.push(bench.change(1)), Applied)


async def resolve(
    host: MemoryHost, connector: Connector[Any], bench: PushBench, number: int
) -> None:
    """Continue with a change until its outcome is known, and check its effects."""
    change = bench.change(number)
    for _ in range(MOST_STEPS):
        state = await host.deliver(connector, change)
        if state not in {"planned", "uncertain"}:
            break
    await bench.at_rest()
    effects = list(await bench.effects()).count(number)
    expected = {"applied": {1}, "rejected": {0}, "parked": {0, 1}}
    assert effects in expected.get(state, set()), f"{state}, with {effects} effects"
    assert state != "parked" or not connector.spec.takes_once


def assert_true(said: Pushed, effects: int) -> None:
    """Fail if the result of `push` contradicts the effects in the counterpart."""
    possible = {Applied: {1}, Rejected: {0}, NotSent: {0}, Uncertain: {0, 1}}
    assert effects in possible[type(said)], f"{said}, with {effects} effects"
    if isinstance(said, NotSent) and said.retry_after_seconds is not None:
        assert math.isfinite(said.retry_after_seconds)
        assert said.retry_after_seconds >= 0
    if not isinstance(said, Applied):
        assert " " in said.reason, "a person must be able to read it"


async def both(connector: Connector[Any], change: Change) -> list[str]:
    """Push and look up; return everything that could be stored of the change."""
    said = [
        await push_result(connector, change),
        await lookup_result(connector, change),
    ]
    return [*map(repr, said), repr(change.id)]
