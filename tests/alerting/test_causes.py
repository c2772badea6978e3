"""What counts as needing a person."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from backhaul.alerting.conditions import causes
from backhaul.core.clock import to_text
from backhaul.settings.alerts import AlertSettings
from backhaul.store.alerting import Backup, Needs

NOW = 1_000_000.0
AT = "2026-03-01T12:00:00.000Z"
LONG_AGO = to_text(datetime.fromtimestamp(NOW - 3_601, UTC))
AN_HOUR_AGO = to_text(datetime.fromtimestamp(NOW - 3_599, UTC))
WELL: dict[str, Any] = {
    "stores": {"main": {"stopped": {}}},
    "connectors": {},
    "jobs": {"backup": None},
    "news": {"erp": {"up": True, "reason": None}},
    "dry_run": (),
}
WANTED = AlertSettings.model_validate({"drift_rows": 3})
SILENCE = {"courier": 3_600.0}


NOTHING = Needs([], {}, {})


def in_time(_: datetime) -> bool:
    return False


def found(status: dict[str, Any] = WELL, needs: Needs = NOTHING) -> list[str]:
    return list(causes(WANTED, status, needs, SILENCE, NOW, in_time))


def commands(number: int) -> list[dict[str, str]]:
    one = {"store": "main", "kind": "adjust", "target": "prod_1", "reason": "why"}
    return [{**one, "id": f"{index:040x}"} for index in range(number)]


def test_every_open_incident_is_a_cause_of_its_own() -> None:
    incident: dict[str, Any] = {
        "id": 7,
        "store": "main",
        "says": "order #1 was cancelled and put back",
    }
    needs = replace(NOTHING, incidents=[incident])
    told = causes(WANTED, WELL, needs, SILENCE, NOW, in_time)
    assert incident["says"] in told["incident 7"].says
    assert "incidents resolve 7" in told["incident 7"].mend


def test_a_pause_is_told_with_its_end_and_its_reason() -> None:
    pause = {"until": "2026-03-01T12:05:00.000Z", "reason": "429 RATE_LIMITED"}
    store: dict[str, Any] = {"stopped": {}, "paused": pause}
    told = causes(
        *(WANTED, WELL | {"stores": {"main": store}}, NOTHING, SILENCE, NOW, in_time)
    )
    says = told["paused main"].says
    assert pause["until"] in says
    assert pause["reason"] in says


def test_nothing_wrong_is_nothing_told() -> None:
    assert found() == []


def test_every_parked_command_is_a_cause_of_its_own() -> None:
    """Or else one that newer ones push off the list would be told as over."""
    keys = found(needs=replace(NOTHING, parked=commands(50)))
    assert keys == [f"parked {command['id']}" for command in commands(50)]


def test_a_command_that_is_sent_in_vain_is_told_once_however_often() -> None:
    (command,) = commands(1)
    told = [
        causes(
            WANTED,
            WELL,
            replace(NOTHING, in_vain=[{**command, "times": times}]),
            {},
            NOW,
            in_time,
        )
        for times in (5, 6)
    ]
    assert told[0] == told[1]
    assert list(told[0]) == [f"vain {command['id']}"]


def test_a_closed_door_is_told_with_its_reason() -> None:
    stopped = WELL | {"stores": {"main": {"stopped": {"everything": "401"}}}}
    assert found(stopped) == ["stopped main everything"]
    (alert,) = causes(WANTED, stopped, NOTHING, {}, NOW, in_time).values()
    assert alert.says == "Nothing is sent to main: 401"
    assert "do as it says" in alert.mend  # as a restart, where two daemons work


def test_work_of_a_store_that_is_not_configured_is_told() -> None:
    needs = replace(NOTHING, open_stores={"main", "old"})
    assert found(needs=needs) == ["stranded old"]


@pytest.mark.parametrize(
    ("ago", "told"), [(119.0, []), (120.0, ["unreadable main ord_1"])]
)
def test_an_order_that_no_read_shows_needs_a_person(
    ago: float, told: list[str]
) -> None:
    at = to_text(datetime.fromtimestamp(NOW - ago, UTC))
    order: dict[str, Any] = {"store": "main", "order_id": "ord_1", "name": "#1"}
    order |= {"event": 9, "row": 3, "reason": "status is null", "since": at}
    needs = replace(NOTHING, unreadable=[order, order | {"store": "gone"}])
    assert found(needs=needs) == told
    for alert in causes(WANTED, WELL, needs, {}, NOW, in_time).values():
        assert "order #1 (main)" in alert.says
        assert "backhaul quarantine show 3" in alert.mend


@pytest.mark.parametrize(
    ("ago", "told"),
    [
        (0.0, ["stranger main"]),
        (86_399.0, ["stranger main"]),
        (86_400.0, []),
        (-86_400.0, []),
    ],
)
def test_webhooks_of_another_store_are_told_until_a_day_without(
    ago: float, told: list[str]
) -> None:
    at = to_text(datetime.fromtimestamp(NOW - ago, UTC))
    needs = replace(NOTHING, strangers={"main": f"{at} sto 2", "gone": f"{at} sto_2"})
    keys = found(needs=needs)
    assert keys == told
    if keys:
        (alert,) = causes(WANTED, WELL, needs, {}, NOW, in_time).values()
        assert "another store, sto 2, come to the address of main" in alert.says


@pytest.mark.parametrize(("rows", "told"), [(2, []), (3, ["drift main"])])
def test_drift_is_told_from_the_number_that_was_set(rows: int, told: list[str]) -> None:
    assert found(needs=replace(NOTHING, unrepaired={"main": rows})) == told


@pytest.mark.parametrize(
    ("ago", "told"), [(3_599.0, []), (3_600.0, ["silent courier"])]
)
def test_silence_is_told_of_a_connector_that_spoke(ago: float, told: list[str]) -> None:
    last = {"courier": NOW - ago, "other": 0.0}
    assert found(needs=replace(NOTHING, last_records=last)) == told


def test_a_connector_that_is_down_is_told() -> None:
    down = WELL | {"connectors": {"desk": {"up": False, "reason": "no share"}}}
    assert found(down) == ["down desk"]


def test_news_that_are_parked_are_told_of_connectors_that_there_are() -> None:
    one = {"store": "main", "topic": "order.placed", "object_id": "o", "reason": "why"}
    parked = [one | {"seq": 7, "instance": "erp"}, one | {"seq": 8, "instance": "gone"}]
    needs = replace(NOTHING, news_parked=parked)
    (alert,) = causes(WANTED, WELL, needs, {}, NOW, in_time).values()
    assert alert.key == "news 7"
    assert alert.says == (
        "erp was not told of order.placed of o (main), which is parked: why"
    )


@pytest.mark.parametrize(
    ("since", "rehearsed", "told"),
    [
        (AN_HOUR_AGO, (), []),
        (LONG_AGO, (), ["untold erp"]),
        (LONG_AGO, ("other",), ["untold erp"]),
        (LONG_AGO, ("erp",), []),
        (LONG_AGO, ("*",), []),
    ],
)
def test_news_that_wait_for_an_hour_are_told_unless_none_are_to_leave(
    since: str, rehearsed: tuple[str, ...], told: list[str]
) -> None:
    """Also where the system is up: what it breaks on lets all else pass."""
    needs = replace(NOTHING, news_since={"erp": since, "gone": LONG_AGO})
    assert found(WELL | {"dry_run": rehearsed}, needs) == told


def test_a_command_that_took_effect_twice_is_told_with_what_is_too_much() -> None:
    (command,) = commands(1)
    doubled = replace(NOTHING, doubled=[{**command, "others": "adj_2, adj_3"}])
    (alert,) = causes(WANTED, WELL, doubled, {}, NOW, in_time).values()
    assert alert.key == f"doubled {command['id']}"
    assert alert.says.endswith("has an effect too many: adj_2, adj_3")


def test_counts_that_are_set_no_more_are_told_of_stores_that_there_are() -> None:
    stopped = {"main": "var_2 moved too", "gone": "old"}
    assert found(needs=replace(NOTHING, counts_stopped=stopped)) == ["counts main"]


BACKUPS = [
    (Backup(None, AT, None), False, []),
    (Backup("no space", AT, None), False, ["backup failed"]),
    (Backup(None, AT, None), True, ["backup late"]),
    (Backup(None, AT, LONG_AGO), True, ["backup late"]),
    (Backup(None, AT, AN_HOUR_AGO), True, []),
    (None, True, []),
]


@pytest.mark.parametrize(("backup", "late", "told"), BACKUPS, ids=repr)
def test_a_backup_that_failed_or_is_old_is_told(
    backup: Backup | None, late: bool, told: list[str]
) -> None:
    needs = replace(NOTHING, backup=backup)
    assert list(causes(WANTED, WELL, needs, {}, NOW, lambda _: late)) == told


def test_a_backup_that_a_person_has_switched_off_is_missed_by_nobody() -> None:
    needs = replace(NOTHING, backup=Backup("no space", AT, None))
    unplanned = WELL | {"jobs": {}}
    assert not causes(WANTED, unplanned, needs, {}, NOW, lambda _: True)
