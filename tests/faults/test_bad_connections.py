"""F13 to F16: what bad network connections do to commands, between two processes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from backhaul.core.backoff_and_circuit import PROBE_SECONDS
from faults.proxied import READ_SECONDS, Line, proxied
from faults.trials import LONG
from scenes.fault_proxy import (
    blackhole,
    latency,
    limit_data,
    refuse,
    replace_answer,
    reset_after,
    reset_before,
    reset_mid,
    slicer,
    slow_close,
    timeout,
)
from scenes.scripted_platform import document, message
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scenes.fault_proxy import Toxic

pytestmark = [pytest.mark.faults]

UNCERTAIN, CONFIRMED = "uncertain", "confirmed"
LINES: dict[str, tuple[Toxic, str]] = {
    "latency": (latency(0.3), CONFIRMED),
    "slicer": (slicer(7), CONFIRMED),
    "slow close": (slow_close(0.3), CONFIRMED),
    "timeout": (timeout, UNCERTAIN),
    "reset before": (reset_before, UNCERTAIN),
    "reset mid": (reset_mid, UNCERTAIN),
    "reset after": (reset_after, UNCERTAIN),
    "limited to the head": (limit_data(40), UNCERTAIN),
    "limited to half the body": (limit_data(300), UNCERTAIN),
    "black hole": (blackhole, UNCERTAIN),
}
"""The fault of a command's first request, and its expected classification."""
HTML = b"<html><body>Welcome</body></html>"
OTHER = {"data": {"adjustmentId": "adj_0", "productId": "prod_other", "levels": []}}
LIES: dict[str, tuple[Toxic, str]] = {
    "200 and a page": (replace_answer(message(200, HTML, "text/html")), UNCERTAIN),
    "half a document": (
        replace_answer(message(200, b'{"data": {"adjustmentId"')),
        UNCERTAIN,
    ),
    "another product": (replace_answer(document(OTHER)), UNCERTAIN),
    "nothing": (replace_answer(message(200)), UNCERTAIN),
    "10 MB": (replace_answer(message(200, b" " * 10_000_000)), UNCERTAIN),
    "not a number": (
        replace_answer(message(200, b'{"data": {"stock": NaN}}')),
        UNCERTAIN,
    ),
    "a list": (replace_answer(document([1, 2])), UNCERTAIN),
}
STORM = {"status": 503, "code": "UNAVAILABLE", "detail": "a storm"}
MOST_TO_OPEN = 10
QUIET_SECONDS = 5
"""The delay of the first probe: by then all reads gave up."""
COMMANDS = 200 if LONG else 30


@pytest.fixture
async def line(tmp_path: Path) -> AsyncIterator[Line]:
    async with proxied(tmp_path / "platform", COMMANDS) as laid:
        yield laid


async def classes(line: Line, toxics: dict[str, tuple[Toxic, str]]) -> dict[str, str]:
    """Apply each fault to one command; return the classifications.

    A successful command after each one keeps the circuit closed.
    """
    found = {}
    for name, (toxic, _) in toxics.items():
        poor, sound = line.products(2)
        line.proxy.once[poor.encode()] = toxic
        line.adjust(poor)
        found[name] = (await line.tried(poor)).outcome
        line.adjust(sound)
        await line.applied(sound)
    return found


@pytest.mark.parametrize("toxics", [LINES, LIES], ids=["lines", "lies"])
async def test_each_bad_line_has_its_exact_class_and_one_effect(
    toxics: dict[str, tuple[Toxic, str]], line: Line
) -> None:
    found = await classes(line, toxics)
    assert found == {name: outcome for name, (_, outcome) in toxics.items()}
    await until(lambda: not line.open(), "all is settled")
    assert await line.findings() == []


async def test_a_refused_connection_proves_that_nothing_was_sent(line: Line) -> None:
    (product,) = line.products(1)
    await line.proxy.down()
    line.adjust(product)
    assert (await line.tried(product)).outcome == "never_sent"
    assert line.proxy.requests("POST") == []
    await line.proxy.up()
    await line.applied(product)
    assert await line.findings() == []


async def test_half_open_connections_hold_up_no_other_client(line: Line) -> None:
    poor, sound = line.products(4), line.products(20)
    for product in poor:
        line.proxy.once[product.encode()] = blackhole
    line.adjust(*poor)
    await until(lambda: len(line.proxy.requests("POST")) == 4, "they are sent")
    line.adjust(*sound)
    await line.applied(*sound)
    ended = [(await line.tried(product)).ended for product in sound]
    for product in poor:
        tried = await line.tried(product)
        assert tried.outcome == UNCERTAIN
        assert tried.seconds >= READ_SECONDS
        # if the others had waited for this connection, none would have ended before it
        assert min(ended) < tried.ended
    await line.applied(*poor)
    assert await line.findings() == []


async def test_a_storm_is_sat_out_and_the_backlog_drains(line: Line) -> None:
    products = line.products(COMMANDS)
    line.proxy.storm = refuse(document(STORM, 503))
    line.adjust(*products)
    await until(lambda: len(line.proxy.requests("POST")) >= 5, "the circuit opens")
    first_probe = time.monotonic() + PROBE_SECONDS
    await until(lambda: time.monotonic() > first_probe + 2, "a probe")
    assert len(line.proxy.requests("POST")) <= MOST_TO_OPEN
    left_alone = [one for one in line.proxy.log if one.at > first_probe - QUIET_SECONDS]
    # One probe in ten seconds, and late reads on a busy machine; without the circuit
    # breaker there would be hundreds.
    assert len(left_alone) <= MOST_TO_OPEN, [one.passing.head for one in left_alone]
    line.proxy.storm = None
    await line.applied(*products)
    assert await line.findings() == []
