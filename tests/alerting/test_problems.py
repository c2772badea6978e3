"""Which problems raise an alert, and the text of each alert."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from backhaul.alerting import find_alerts, find_problems
from backhaul.alerting.problem import Facts
from backhaul.core.clock import to_text
from backhaul.settings.infrastructure import AlertSettings
from backhaul.store.inbox import UnreadableOrder
from backhaul.store.mirror import UnknownStatus
from backhaul.store.operations import (
    AlertConditions,
    BackupState,
    CommandProblem,
    HeldTargets,
    OpenIncident,
    ParkedDelivery,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.store.operations import Alert

NOW = 1_000_000.0
AT = "2026-03-01T12:00:00.000Z"
LONG_AGO = to_text(datetime.fromtimestamp(NOW - 3_601, UTC))
AN_HOUR_AGO = to_text(datetime.fromtimestamp(NOW - 3_599, UTC))
WELL: dict[str, Any] = {
    "stores": {"main": {"stopped": {}}},
    "connectors": {},
    "jobs": {"backup": None},
    "plans": {"audit:main": "hourly"},
    "news": {"erp": {"up": True, "reason": None}},
    "dry_run": (),
    "subscriptions": {},
    "refused": {},
}
WANTED = AlertSettings.model_validate({"drift_rows": 3})
SILENCE = {"courier": 3_600.0}


NOTHING = AlertConditions([], {}, {})


def in_time(_: datetime) -> bool:
    return False


def facts(
    status: dict[str, Any] = WELL, needs: AlertConditions = NOTHING, **others: Any
) -> Facts:
    given: dict[str, Any] = {
        "drift_rows": WANTED.drift_rows,
        "silence": SILENCE,
        "now": NOW,
        "backups_missed": in_time,
        "free_bytes": 10**12,
    }
    return Facts(status=status, conditions=needs, **given | others)


def alerts(
    settings: AlertSettings,
    status: dict[str, Any],
    needs: AlertConditions,
    silence: dict[str, float],
    now: float,
    missed: Callable[[datetime], bool],
) -> dict[str, Alert]:
    others: dict[str, Any] = {"silence": silence, "now": now, "backups_missed": missed}
    others |= {"drift_rows": settings.drift_rows}
    return find_alerts(facts(status, needs, **others))


def found(status: dict[str, Any] = WELL, needs: AlertConditions = NOTHING) -> list[str]:
    return list(alerts(WANTED, status, needs, SILENCE, NOW, in_time))


def commands(number: int) -> list[CommandProblem]:
    return [
        CommandProblem(f"{index:040x}", "main", "adjust", "prod_1", "why")
        for index in range(number)
    ]


def test_every_open_incident_has_its_own_alert() -> None:
    incident = OpenIncident(7, "main", "order #1 was cancelled with a restock")
    needs = replace(NOTHING, incidents=[incident])
    expected = alerts(WANTED, WELL, needs, SILENCE, NOW, in_time)
    assert incident.text in expected["incident 7"].text
    assert "incidents resolve 7" in expected["incident 7"].remedy


def test_a_pause_alerts_with_its_end_and_its_reason() -> None:
    pause = {"until": "2026-03-01T12:05:00.000Z", "reason": "429 RATE_LIMITED"}
    store: dict[str, Any] = {"stopped": {}, "paused": pause}
    expected = alerts(
        *(WANTED, WELL | {"stores": {"main": store}}, NOTHING, SILENCE, NOW, in_time)
    )
    says = expected["paused main"].text
    assert pause["until"] in says
    assert pause["reason"] in says


def test_no_problem_gives_no_alert() -> None:
    assert found() == []


def test_every_parked_command_has_its_own_alert() -> None:
    """Otherwise an old one that newer ones push off the list would seem resolved."""
    keys = found(needs=replace(NOTHING, parked=commands(50)))
    assert keys == [f"parked {command.id}" for command in commands(50)]


def test_a_command_that_is_sent_repeatedly_has_one_alert() -> None:
    (command,) = commands(1)
    needs = replace(NOTHING, repeated=[command])
    assert found(needs=needs) == [f"vain {command.id}"]


def test_a_send_switch_that_is_off_alerts_with_its_reason() -> None:
    stopped = WELL | {"stores": {"main": {"stopped": {"everything": "401"}}}}
    assert found(stopped) == ["stopped main everything"]
    (alert,) = alerts(WANTED, stopped, NOTHING, {}, NOW, in_time).values()
    assert alert.text == "Backhaul sends no commands to main: 401"
    assert "restart" in alert.remedy  # as the reason asks, where two daemons work


def test_open_work_of_a_store_that_is_not_configured_alerts() -> None:
    needs = replace(NOTHING, open_stores={"main", "old"})
    assert found(needs=needs) == ["stranded old"]


@pytest.mark.parametrize(
    ("ago", "expected"), [(119.0, []), (120.0, ["unreadable main ord_1"])]
)
def test_an_order_that_no_read_shows_alerts(ago: float, expected: list[str]) -> None:
    at = to_text(datetime.fromtimestamp(NOW - ago, UTC))
    order = UnreadableOrder("main", "ord_1", "#1", 9, "status is null", at, 3, 1)
    needs = replace(NOTHING, unreadable=[order, replace(order, store="gone")])
    assert found(needs=needs) == expected
    for alert in alerts(WANTED, WELL, needs, {}, NOW, in_time).values():
        assert "order #1 (main)" in alert.text
        assert "backhaul quarantine show 3" in alert.remedy


@pytest.mark.parametrize(
    ("ago", "expected"),
    [
        (0.0, ["stranger main"]),
        (86_399.0, ["stranger main"]),
        (86_400.0, []),
        (-86_400.0, []),
    ],
)
def test_webhooks_of_another_store_alert_until_a_day_without_any(
    ago: float, expected: list[str]
) -> None:
    at = to_text(datetime.fromtimestamp(NOW - ago, UTC))
    needs = replace(
        NOTHING, foreign_webhooks={"main": f"{at} sto 2", "gone": f"{at} sto_2"}
    )
    keys = found(needs=needs)
    assert keys == expected
    if keys:
        (alert,) = alerts(WANTED, WELL, needs, {}, NOW, in_time).values()
        assert "address of main receives webhooks of another store, sto 2" in alert.text


@pytest.mark.parametrize(("rows", "expected"), [(2, []), (3, ["drift main"])])
def test_drift_alerts_from_the_configured_number(
    rows: int, expected: list[str]
) -> None:
    assert found(needs=replace(NOTHING, unrepaired={"main": rows})) == expected


@pytest.mark.parametrize(
    ("ago", "expected"), [(3_599.0, []), (3_600.0, ["silent courier"])]
)
def test_silence_alerts_for_a_connection_that_submitted_before(
    ago: float, expected: list[str]
) -> None:
    last = {"courier": NOW - ago, "other": 0.0}
    assert found(needs=replace(NOTHING, last_records=last)) == expected


def test_a_connection_that_is_down_alerts() -> None:
    down = WELL | {"connectors": {"desk": {"up": False, "reason": "no share"}}}
    assert found(down) == ["down desk"]


def test_parked_deliveries_alert_for_configured_connections() -> None:
    parked = [
        ParkedDelivery(seq, name, "main", "order.placed", "o", "why")
        for seq, name in ((7, "erp"), (8, "gone"))
    ]
    needs = replace(NOTHING, parked_deliveries=parked)
    (alert,) = alerts(WANTED, WELL, needs, {}, NOW, in_time).values()
    assert alert.key == "news 7"
    assert (
        alert.text == "The delivery of order.placed of o (main) to erp is parked: why"
    )


@pytest.mark.parametrize(
    ("since", "dry_run", "expected"),
    [
        (AN_HOUR_AGO, (), []),
        (LONG_AGO, (), ["untold erp"]),
        (LONG_AGO, ("other",), ["untold erp"]),
        (LONG_AGO, ("erp",), []),
        (LONG_AGO, ("*",), []),
    ],
)
def test_deliveries_that_wait_for_an_hour_alert_except_in_a_dry_run(
    since: str, dry_run: tuple[str, ...], expected: list[str]
) -> None:
    """Also where the system is up: it may refuse one delivery and accept the rest."""
    needs = replace(NOTHING, deliveries_since={"erp": since, "gone": LONG_AGO})
    assert found(WELL | {"dry_run": dry_run}, needs) == expected


def test_a_command_that_took_effect_twice_alerts_with_its_surplus() -> None:
    (command,) = commands(1)
    doubled = replace(NOTHING, doubled=[replace(command, detail="adj_2, adj_3")])
    (alert,) = alerts(WANTED, WELL, doubled, {}, NOW, in_time).values()
    assert alert.key == f"doubled {command.id}"
    assert alert.text.endswith("more than once; surplus effects: adj_2, adj_3")


def test_stopped_counts_alert_for_configured_stores() -> None:
    stopped = {"main": "var_2 moved too", "gone": "old"}
    assert found(needs=replace(NOTHING, counts_stopped=stopped)) == ["counts main"]


def test_held_counts_are_one_problem_for_each_configured_store() -> None:
    held = [HeldTargets(name, 1_200, AT, "LAMP-1") for name in ("main", "gone")]
    (alert,) = alerts(
        WANTED, WELL, replace(NOTHING, held_targets=held), {}, NOW, in_time
    ).values()
    assert alert.key == "held main"
    assert "1,200 stock counts on hold" in alert.text
    assert f"the oldest from {AT}, SKU LAMP-1" in alert.text
    assert "backhaul stock release --store main" in alert.remedy


BACKUPS = [
    (BackupState(None, AT, None), False, []),
    (BackupState("no space", AT, None), False, ["backup failed"]),
    (BackupState(None, AT, None), True, ["backup late"]),
    (BackupState(None, AT, LONG_AGO), True, ["backup late"]),
    (BackupState(None, AT, AN_HOUR_AGO), True, []),
    (None, True, []),
]


@pytest.mark.parametrize(("backup", "late", "expected"), BACKUPS, ids=repr)
def test_a_backup_that_failed_or_is_old_alerts(
    backup: BackupState | None, late: bool, expected: list[str]
) -> None:
    needs = replace(NOTHING, backup=backup)
    assert list(alerts(WANTED, WELL, needs, {}, NOW, lambda _: late)) == expected


def test_a_backup_job_that_is_paused_never_alerts() -> None:
    needs = replace(NOTHING, backup=BackupState("no space", AT, None))
    unplanned = WELL | {"jobs": {}}
    assert not alerts(WANTED, unplanned, needs, {}, NOW, lambda _: True)


PAUSE = {"until": "2026-03-01T12:05:00.000Z", "reason": "429 RATE_LIMITED"}
TROUBLED = WELL | {
    "stores": {"main": {"stopped": {"fulfill": "403"}}, "other": {"stopped": {}}},
    "connectors": {"erp": {"up": False, "reason": "x"}, "ok": {"up": True}},
    "news": {"erp": {"up": False, "reason": "x"}},
    "subscriptions": {"main": "PAUSED", "other": ""},
}


@pytest.mark.parametrize(
    ("status", "needs", "others", "typed"),
    [
        ({}, {}, {}, []),
        (
            TROUBLED,
            {},
            {},
            [
                *("backhaul doctor", "backhaul doctor"),
                *(
                    "backhaul connectors check erp",
                    "backhaul connectors deliveries erp",
                ),
            ],
        ),
        (
            {"stores": {"main": {"stopped": {}, "paused": PAUSE}}},
            {},
            {},
            ["backhaul doctor"],
        ),
        (
            {},
            {"unknown_statuses": [UnknownStatus("main", "ODD", 3, "#9")]},
            {},
            ["backhaul why order 9"],
        ),
        ({}, {"quarantined": 2}, {}, ["backhaul quarantine list"]),
        (
            {},
            {"unknown_topics": {"orders/edited": 4, "": 3}},
            {},
            ["backhaul events list --state unhandled"],
        ),
        (
            {"refused": {"unknown": {"refused": 9}, "b": {"slow": 1}}},
            {},
            {},
            ["backhaul doctor"],
        ),
        (
            {"connectors": {"drop": {"up": True, "notices": ["a.xyz is not read"]}}},
            {},
            {},
            ["backhaul connectors check drop"],
        ),
        (
            {},
            {"paused_jobs": [("audit", "main")]},
            {},
            ["backhaul jobs resume audit --store main"],
        ),
        ({}, {}, {"free_bytes": 10**8}, ["backhaul doctor"]),
        ({}, {}, {"archive": "it fails"}, ["backhaul doctor"]),
    ],
)
def test_every_problem_names_a_command_to_type(
    status: dict[str, Any],
    needs: dict[str, Any],
    others: dict[str, Any],
    typed: list[str],
) -> None:
    found = find_problems(facts(WELL | status, replace(NOTHING, **needs), **others))
    assert [problem.command for problem in found] == typed


def test_a_server_that_cannot_archive_alerts_with_the_cause() -> None:
    alert = find_alerts(facts(archive="archive_command: 3 failed attempts"))["archive"]
    assert "not backed up: archive_command: 3 failed attempts" in alert.text


def test_problems_for_status_only_raise_no_alert() -> None:
    needs = replace(
        NOTHING,
        quarantined=2,
        unknown_topics={"orders/edited": 4, "": 3},
        unknown_statuses=[UnknownStatus("main", "ODD", 3, "#9")],
        paused_jobs=[("audit", "main")],
    )
    refusals = {"main": {"encoded": 1200, "slow": 1}, "unknown": {"refused": 9}}
    status = WELL | {"subscriptions": {"main": "PAUSED"}, "refused": refusals}
    some = facts(status, needs, free_bytes=0)
    assert find_alerts(some) == {}
    texts = {problem.kind: problem.text for problem in find_problems(some)}
    assert texts == {
        "subscription": "PAUSED",
        "disk": "only 0 MB are free",
        "quarantine": "2 rows in quarantine",
        "topics": "7 webhooks of unknown topics in the last hour (orders/edited, no"
        " topic)",
        "refused": "1,201 webhooks refused in the last hour: 1,200 compressed (415), 1"
        " too slow (408)",
        "job": "audit is paused",
        "payment": "financial status 'ODD' is unknown: order #9 and 2 more not released"
        " to connections that wait for payment; ask the platform what it means",
    }


def test_the_worst_problems_come_first() -> None:
    needs = replace(NOTHING, parked=commands(1), quarantined=1, doubled=commands(1))
    order = [problem.severity for problem in find_problems(facts(needs=needs))]
    assert order == ["fail", "parked", "warn"]


def test_an_unreadable_order_is_a_problem_before_it_raises_an_alert() -> None:
    at = to_text(datetime.fromtimestamp(NOW, UTC))
    order = UnreadableOrder("main", "ord_1", "#7", 9, "status is null", at, 3, 1)
    some = facts(needs=replace(NOTHING, unreadable=[order]))
    assert [one.command for one in find_problems(some)] == ["backhaul why order 7"]
    assert find_alerts(some) == {}


def test_a_store_without_an_owner_is_a_problem_that_a_standby_shows() -> None:
    (found,) = find_problems(facts({**WELL, "ownerless": ["*", "main"]}))
    assert "the work of the whole database, main: events wait" in found.text
    (found,) = find_problems(facts({**WELL, "ownerless": [*"abcdefgh"]}))
    assert "the work of a, b, c, d, e and 3 more:" in found.text
    assert find_alerts(facts({**WELL, "ownerless": ["main"]})) == {}
    assert find_problems(facts({**WELL, "ownerless": []})) == []
