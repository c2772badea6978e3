"""`--follow` prints new rows, and changes of their states, as they happen."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

from backhaul.cli import output
from scenes.daemon import connected_process
from scenes.shopper import buy
from scenes.stored import count, value_of
from scenes.waiting import HANG_SECONDS, await_true

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess

HEADER = "order,tracking_company,tracking_number"


@pytest.fixture(scope="module")
def office(platform: ReferenceProcess) -> Iterator[Office]:
    number = buy(platform)["number"]
    with connected_process(platform) as started:
        orders = (started.office.database, "orders")
        await_true(lambda: count(*orders, number=number), "the first order")
        yield started.office


@contextmanager
def following(config: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a list with --follow; Ctrl-C ends it."""
    command = [sys.executable, "-m", "backhaul", *arguments, "--follow"]
    with subprocess.Popen(
        [*command, "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
            process.send_signal(signal.SIGINT)
            assert process.wait(HANG_SECONDS) == 130
        finally:
            process.kill()


def rows(process: subprocess.Popen[str], **wanted: object) -> Iterator[dict[str, Any]]:
    """Yield the new rows, up to the row with these values."""
    assert process.stdout is not None
    for line in process.stdout:
        row = json.loads(line)
        yield row
        if all(row[name] == value for name, value in wanted.items()):
            return
    pytest.fail(f"it ended before {wanted}")


def test_events_are_followed_as_they_come(
    office: Office, platform: ReferenceProcess
) -> None:
    listed = ("events", "list", "--topic", "orders/create", "-n", "1", "--json")
    with following(office.config, *listed) as process:
        order = buy(platform)
        found = list(rows(process, about=order["name"], state="folded"))
        later = buy(platform)
        found += rows(process, about=later["name"], state="folded")
    assert {row["topic"] for row in found} == {"orders/create"}
    ids = [row["id"] for row in found]
    assert ids == sorted(ids)


def test_a_command_of_an_order_is_followed(
    office: Office, platform: ReferenceProcess
) -> None:
    order, other = buy(platform), buy(platform)
    orders = (office.database, "orders")
    await_true(lambda: count(*orders, id=order["id"]), "the order")
    await_true(lambda: count(*orders, id=other["id"]), "the other order")
    listed = ("commands", "list", "--order", str(order["number"]), "--json")
    with following(office.config, *listed) as process:
        lines = [f"{each['number']},DHL,F-{each['number']}" for each in (other, order)]
        office.put("fulfillments-9.csv", HEADER, *lines)
        found = list(rows(process, state="applied"))
    assert {row["object_id"] for row in found} == {order["id"]}
    assert {row["connection"] for row in found} == {"courier"}


def test_the_quarantine_is_followed(office: Office) -> None:
    with following(office.config, "quarantine", "list", "--json") as process:
        office.put("fulfillments-8.csv", HEADER, ",DHL,Q-1")
        (found,) = rows(process, locator="fulfillments-8.csv:2")
    assert found["reason"] == value_of(office.database, "quarantine", "reason")


class Event(Struct):
    """A row of a list."""

    id: int
    state: str


def followed(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    states: Sequence[dict[int, str]],
    shown: int = 9,
    *,
    as_json: bool = True,
) -> str:
    """Follow a list that changes at each poll; return the output."""
    looks = iter(states)
    now = [next(looks)]

    def pause(_: float) -> None:
        try:
            now[0] = next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    def read(limit: int) -> list[Event]:
        rows = [Event(*each) for each in now[0].items()]
        return sorted(rows, key=lambda row: -row.id)[:limit]

    monkeypatch.setattr(output, "pause", pause)
    with pytest.raises(KeyboardInterrupt):
        output.follow(read, ("id", "state"), shown=shown, as_json=as_json)
    return capsys.readouterr().out


def test_a_row_is_shown_once_for_each_state(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, applied = {1: "planned"}, {1: "applied", 2: "planned"}
    said = followed(capsys, monkeypatch, [planned, planned, applied, applied])
    found = [json.loads(line) for line in said.splitlines()]
    assert [tuple(row.values()) for row in found] == [
        (1, "planned"),
        (1, "applied"),
        (2, "planned"),
    ]


def test_only_the_last_rows_are_shown_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = dict.fromkeys(range(1, 6), "folded")
    changed = many | {1: "quarantined"}
    said = followed(capsys, monkeypatch, [many, changed], shown=2)
    assert [json.loads(line)["id"] for line in said.splitlines()] == [4, 5, 1]


def test_no_row_of_a_burst_is_missed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    burst = dict.fromkeys(range(1, 5 * output.FOLLOWED_ROWS), "folded")
    said = followed(capsys, monkeypatch, [{1: "folded"}, burst, burst])
    assert [json.loads(line)["id"] for line in said.splitlines()] == list(burst)


def test_a_terminal_shows_lines_under_a_heading(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    states = [{}, {1: "quarantined"}, {1: "quarantined", 12: "folded"}]
    said = followed(capsys, monkeypatch, states, as_json=False)
    assert said.splitlines() == ["id  state", "1   quarantined", "12  folded"]
