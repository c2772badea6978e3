"""Equal problems are grouped and sorted by severity, each with its consequence."""

from __future__ import annotations

from msgspec.structs import replace

from alerting.test_problems import NOTHING, WELL, commands, facts
from backhaul.alerting import find_problems
from backhaul.alerting.summary import group_problems
from backhaul.store.operations import AlertConditions, CommandProblem, OpenIncident


def groups(needs: AlertConditions) -> list[tuple[str, str, str, str]]:
    return [
        (group.text, group.consequence, group.action, group.link)
        for group in group_problems(find_problems(facts(needs=needs)))
    ]


def shipment(number: int, store: str = "main") -> CommandProblem:
    return CommandProblem(f"{number:040x}", store, "fulfill", "ord_1", "503", "#1001")


def test_a_parked_command_has_its_own_page_and_consequence() -> None:
    (found,) = groups(replace(NOTHING, parked=[shipment(1)]))
    _, consequence, action, link = found
    assert consequence == "1 parcel is not reported to store main"
    assert (action, link) == ("Decide", f"/commands/{1:040x}")


def test_several_parked_shipments_are_one_line_for_each_store() -> None:
    parked = [*map(shipment, range(3)), shipment(4, "north"), shipment(5, "north")]
    assert groups(replace(NOTHING, parked=parked)) == [
        (
            f"{number} shipments of store {store} are parked",
            f"{number} parcels are not reported to store {store}",
            f"Show all {number}",
            "/commands?state=parked",
        )
        for store, number in (("main", 3), ("north", 2))
    ]


def test_kinds_of_commands_have_their_own_line() -> None:
    needs = replace(NOTHING, parked=[shipment(1), *commands(2)])
    assert len(groups(needs)) == 2


def test_quarantined_rows_are_less_urgent_than_a_parked_command() -> None:
    incident = OpenIncident(7, "main", "order #1 was cancelled with a restock")
    needs = replace(NOTHING, quarantined=3, parked=[shipment(1)], incidents=[incident])
    found = group_problems(find_problems(facts(needs=needs)))
    assert [(group.first.kind, group.is_urgent) for group in found] == [
        ("incident", True),
        ("parked", True),
        ("quarantine", False),
    ]


def test_every_problem_that_an_operator_can_see_has_a_consequence() -> None:
    needs = replace(
        NOTHING,
        quarantined=1,
        parked=[shipment(1)],
        doubled=[shipment(2)],
        repeated=[shipment(3)],
        counts_stopped={"main": "why"},
        open_stores={"gone"},
        unrepaired={"main": 100},
        paused_jobs=[("audit", "main")],
        unknown_topics={"carts/create": 1},
    )
    status = WELL | {
        "stores": {"main": {"stopped": {"everything": "401"}}},
        "connectors": {"desk": {"up": False, "reason": "no share"}},
        "refused": {"main": {"unsigned": 2}},
        "subscriptions": {"main": "enter the address"},
    }
    found = find_problems(facts(status, needs))
    assert len(found) == 13
    assert [each.key for each in found if not each.consequence] == []
    assert [each.key for each in found if bool(each.link) != bool(each.action)] == []
