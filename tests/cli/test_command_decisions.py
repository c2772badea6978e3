"""`backhaul commands`: an operator finds, understands and resolves parked commands."""

from __future__ import annotations

import asyncio
import getpass
import os
from itertools import count as count_from
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.cli.daemon_client import change
from backhaul.errors import BackhaulError
from scenes.daemon import connected_process, in_process
from scenes.damaged_rows import insert_command
from scenes.mirror_files import fill, lone_office, orders
from scenes.shopper import buy, order_of
from scenes.stored import COMMANDS_AND_TARGETS, count, rows_of, values_of
from scenes.terminal import run_at_terminal
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess

pytestmark = pytest.mark.programs

HEADER = "order,tracking_company,tracking_number"
FAULTS = "/stores/demo/faults"
PARK = {
    "BACKHAUL_PUSH__CHECK_AFTER": "0s",
    "BACKHAUL_PUSH__ON_ABSENT": "park",
    "BACKHAUL_STORES__MAIN__IDEMPOTENCY": "false",
}
FEWER_THAN_AN_OUTAGE = 4
_NUMBERS = count_from(1)


@pytest.fixture(scope="module")
def office(platform: ReferenceProcess) -> Iterator[Office]:
    """Run a daemon that checks once, and then parks commands."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in PARK.items():
            patch.setenv(name, value)
        with connected_process(platform) as started:
            yield started.office


class Case:
    """A parcel whose command got a 500 and did not take effect."""

    def __init__(self, platform: ReferenceProcess, office: Office) -> None:
        self.platform = platform
        self.office = office
        self.number = f"P-{next(_NUMBERS)}"
        self.order = buy(platform)
        name = self.order["number"]
        await_true(lambda: count(office.database, "orders", number=name), "the order")
        self._arm({"fault": "5xx", "status": 500, "method": "POST", "count": 1})
        office.put(
            f"fulfillments-{self.number}.csv", HEADER, f"{name},DHL,{self.number}"
        )
        self.await_state("parked")
        self._arm()
        if int(self.number[2:]) % FEWER_THAN_AN_OUTAGE == 0:
            self._ship_another()

    def _ship_another(self) -> None:
        """Let a command succeed: many failures in a row would count as an outage."""
        name = buy(self.platform)["number"]
        before = self._applied()
        file = f"fulfillments-after-{self.number}.csv"
        self.office.put(file, HEADER, f"{name},DHL,after-{self.number}")
        await_true(lambda: self._applied() != before, "it is taken")

    def _applied(self) -> int:
        return count(self.office.database, COMMANDS_AND_TARGETS, state="applied")

    def _arm(self, *faults: dict[str, Any]) -> None:
        body = {"seed": 1, "http": list(faults), "webhooks": []}
        assert self.platform.control("PUT", FAULTS, body).status == 200

    def _column(self, name: str) -> Any:
        ordered = {"target": self.order["id"]}
        found = values_of(self.office.database, COMMANDS_AND_TARGETS, name, **ordered)
        return found[0] if found else None

    @property
    def id(self) -> str:
        return str(self._column("id"))

    @property
    def state(self) -> str:
        return str(self._column("state"))

    def await_state(self, state: str) -> None:
        await_true(lambda: self.state == state, f"it is {state}")

    def parcels(self) -> list[str]:
        shown = order_of(self.platform, self.order["id"])["shipments"]
        return [parcel["trackingNumber"] for parcel in shown]

    def say(self, verb: str, *more: str) -> Any:
        words = ("commands", verb, self.id[:8], *more)
        return in_process(*words, config=self.office.config)

    def show(self) -> dict[str, Any]:
        found: dict[str, Any] = self.say("show", "--json").json()
        return found

    def audit(self) -> list[tuple[Any, ...]]:
        columns = ("who", "action", "detail", "state_before", "state_after")
        return rows_of(self.office.database, "audit", *columns, command_id=self.id)


ME = f"{getpass.getuser()} (uid {os.getuid()})"


@pytest.fixture
def case(platform: ReferenceProcess, office: Office) -> Case:
    return Case(platform, office)


def test_all_that_is_known_is_on_one_screen(case: Case) -> None:
    printed = case.say("show")
    assert printed.code == 0
    text = " ".join(printed.out.split())
    assert f"fulfill {case.order['name']} ({case.order['id']}) of store main" in text
    assert f"fulfillments-{case.number}.csv:2 (connector courier)" in text
    assert "nothing happens until an operator decides" in text
    assert f'"trackingNumber":"{case.number}"' in text
    assert "the order does not show the parcel" in text
    assert f"backhaul commands resolve {case.id[:8]}" in text
    assert f'backhaul commands resend {case.id[:8]} --reason "…"' in text
    assert "commands park" not in text
    found = case.show()
    assert [(a["status"], a["outcome"]) for a in found["attempts"]] == [
        (500, "uncertain")
    ]
    assert [look["found"] for look in found["checks"]] == ["absent"]
    assert found["record"]["locator"] == f"fulfillments-{case.number}.csv:2"
    assert (found["decisions"], len(found["next"])) == ([], 4)


def test_a_new_check_finds_a_manual_change_on_the_platform(case: Case) -> None:
    body = {"trackingCompany": "DHL", "trackingNumber": case.number}
    path = f"/orders/{case.order['id']}/fulfill"
    assert case.platform.v1("POST", path, body).status == 200
    assert "is uncertain now" in case.say("resolve").out
    case.await_state("applied")
    assert case.parcels() == [case.number]
    assert case.audit() == [(ME, "commands resolve", "", "parked", "uncertain")]
    assert [look["found"] for look in case.show()["checks"]] == ["absent", "applied"]


def test_an_operator_confirms_that_a_command_took_effect(case: Case) -> None:
    done = case.say("resolve", "--applied", "--reason", "the courier has it", "--json")
    assert done.json() == {"command": case.id, "state": "applied"}
    kept = (ME, "commands resolve --applied", "the courier has it", "parked", "applied")
    assert case.audit() == [kept]
    refused = case.say("resolve", "--applied", "--reason", "again")
    assert refused.code == 1
    assert "is applied, so the action resolve --applied is not" in refused.err
    assert "Possible actions: none" in refused.err
    assert case.parcels() == []


def test_a_discarded_command_is_rejected_and_can_still_be_sent(case: Case) -> None:
    assert case.say("discard", "--reason", "sent by mail").code == 0
    assert case.state == "rejected"
    assert case.say("resend", "--yes", "--reason", "it was not").code == 0
    case.await_state("applied")
    assert case.parcels() == [case.number]
    assert case.audit() == [
        (ME, "commands discard", "sent by mail", "parked", "rejected"),
        (ME, "commands resend", "it was not", "rejected", "planned"),
    ]


@pytest.mark.parametrize(("answer", "parcels"), [(b"y\n", 1), (b"n\n", 0), (b"\n", 0)])
def test_an_operator_sees_the_request_and_confirms_it(
    answer: bytes, parcels: int, case: Case
) -> None:
    words = ("commands", "resend", case.id, "--reason", "x")
    code, printed = run_at_terminal(case.office.config, answer, *words)
    shown = " ".join(printed.split())
    assert f"POST /orders/{case.order['id']}/fulfill" in shown
    assert f'"trackingNumber":"{case.number}"' in shown
    assert "the order does not show the parcel" in shown
    assert "Send it? [y/N]" in shown
    assert (code == 0) == bool(parcels)
    if parcels:
        case.await_state("applied")
    assert case.state == ("applied" if parcels else "parked")
    assert case.parcels() == [case.number] * parcels
    assert len(case.audit()) == parcels


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ("resend", "--reason", "x"),
            "without a terminal, the command cannot"
            " ask for confirmation; to send the"
            " command, add --yes",
        ),
        (("resend", "--yes"), "Missing option '--reason'"),
        (("resend", "--yes", "--reason", " "), "the reason is empty"),
        (("discard",), "Missing option '--reason'"),
        (("discard", "--reason", "x" * 501), "longer than 500 characters"),
        (("park",), "Missing option '--reason'"),
        (("resolve", "--applied"), "--applied needs a reason"),
    ],
)
def test_an_incomplete_decision_is_a_usage_error(
    words: tuple[str, ...], why: str, case: Case
) -> None:
    said = case.say(*words)
    assert said.code == 2
    assert why in " ".join(said.err.replace("│", " ").split())
    assert (case.state, case.audit()) == ("parked", [])


def test_commands_that_wait_for_an_operator_are_listed_first(case: Case) -> None:
    later = Case(case.platform, case.office)
    assert later.say("discard", "--reason", "newer, yet settled").code == 0
    words = ("commands", "list", "-n", "1", "--store", "main", "--kind", "fulfill")
    (first,) = in_process(*words, "--json", config=case.office.config).json()
    assert (first["id"], first["state"]) == (case.id, "parked")
    total = count(case.office.database, COMMANDS_AND_TARGETS)
    printed = in_process(*words, config=case.office.config)
    assert f"and {total - 1} more; see --limit" in printed.err
    none = in_process("commands", "list", "--kind", "target", config=case.office.config)
    assert "no command matches" in none.out


def test_another_body_than_the_one_that_was_shown_is_not_sent(case: Case) -> None:
    asked = {"command": case.id, "verb": "resend", "who": ME, "reason": "x"}
    with pytest.raises(BackhaulError, match="has changed since it was shown"):
        change(case.office.config, "commands/decide", {**asked, "body": "{}"})
    assert (case.state, case.audit()) == ("parked", [])


def test_a_decision_is_possible_without_a_daemon() -> None:
    with lone_office() as office:
        asyncio.run(fill(office, *orders(1)))
        held = {"instance": "", "reason": "dry run: not sent"}
        insert_command(office.database, "beef", "cancel", "ord_1001", "planned", **held)
        words = ("commands", "park", "beef", "--reason", "x")
        assert in_process(*words, config=office.config).code == 0
        shown = in_process("commands", "show", "beef", config=office.config).out
        assert "planned: dry run: not sent" in shown
        words = ("commands", "discard", "beef", "--reason", "x")
        assert in_process(*words, config=office.config).code == 0
        after = values_of(office.database, "audit", "state_after", command_id="beef")
        assert after == ["parked", "rejected"]
