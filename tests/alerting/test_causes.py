"""What counts as needing a person."""

from __future__ import annotations

from typing import Any

import pytest

from backhaul.alerting.causes import Number, causes
from backhaul.settings.alerts import Alerts

NOW = 1_000_000.0
WELL: dict[str, Any] = {"stores": {"main": {"stopped": {}}}, "connectors": {}}
WANTED = Alerts.model_validate({"drift_rows": 3})
SILENCE = {"courier": 3_600.0}


def found(
    status: dict[str, Any] = WELL,
    numbers: list[Number] | None = None,
    parked: list[dict[str, str]] | None = None,
) -> list[str]:
    return list(causes(WANTED, status, numbers or [], SILENCE, parked or [], NOW))


def commands(number: int) -> list[dict[str, str]]:
    one = {"store": "main", "kind": "adjust", "target": "prod_1", "reason": "why"}
    return [{**one, "id": f"{index:040x}"} for index in range(number)]


def test_nothing_wrong_is_nothing_told() -> None:
    assert found() == []


def test_parked_commands_are_told_one_by_one_up_to_a_few() -> None:
    assert len(found(parked=commands(3))) == 3
    assert found(parked=commands(50))[5:] == ["parked more"]


def test_a_closed_door_is_told_with_its_reason() -> None:
    stopped = {"stores": {"main": {"stopped": {"everything": "401"}}}, "connectors": {}}
    assert found(stopped) == ["stopped main everything"]
    (alert,) = causes(WANTED, stopped, [], {}, [], NOW).values()
    assert alert.says == "Nothing is sent to main: 401"


@pytest.mark.parametrize(("rows", "told"), [(2.0, []), (3.0, ["drift main"])])
def test_drift_is_told_from_the_number_that_was_set(
    rows: float, told: list[str]
) -> None:
    assert found(numbers=[("unrepaired_rows", rows, ("main",))]) == told


@pytest.mark.parametrize(
    ("ago", "told"), [(3_599.0, []), (3_600.0, ["silent courier"])]
)
def test_silence_is_told_of_a_connector_that_spoke(ago: float, told: list[str]) -> None:
    last: list[Number] = [
        ("last_record_timestamp_seconds", NOW - ago, ("courier",)),
        ("last_record_timestamp_seconds", 0.0, ("other",)),
    ]
    assert found(numbers=last) == told


def test_a_connector_that_is_down_is_told() -> None:
    down = {"stores": {}, "connectors": {"desk": {"up": False, "reason": "no share"}}}
    assert found(down) == ["down desk"]
