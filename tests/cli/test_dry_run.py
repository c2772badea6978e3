"""A dry run of the whole daemon plans commands, says so, and sends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock, to_text
from backhaul.core.identity import fingerprint
from scenes.daemon import connected_process, daemon_process, in_process
from scenes.damaged_rows import overwrite
from scenes.shopper import buy, order_of
from scenes.stored import commands, count, value_of, values_of
from scenes.waiting import await_true

if TYPE_CHECKING:
    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess
    from scenes.shopper import Document

pytestmark = pytest.mark.programs

HEADER = "order,tracking_company,tracking_number"
VARIABLES = {
    "BACKHAUL_PUSH__DRY_RUN": "[push] dry_run",
    "BACKHAUL_CONNECTORS__COURIER__DRY_RUN": "[connectors.courier] dry_run",
}


def held(office: Office) -> int:
    """Return the number of commands on hold for the dry run."""
    return count(office.database, "commands", reason="dry run: not sent")


def planned(platform: ReferenceProcess, office: Office) -> Document:
    """Return an order with a reported parcel, whose command is on hold."""
    order = buy(platform)
    name = order["number"]
    await_true(lambda: count(office.database, "orders", number=name), "the order")
    office.put("fulfillments-1.csv", HEADER, f"{name},DHL,D-1")
    await_true(lambda: held(office), "the dry run")
    return order


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_command_is_planned_and_sent_when_the_dry_run_is_over(
    variable: str, platform: ReferenceProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "true")
    with connected_process(platform) as started:
        office = started.office
        order = planned(platform, office)
        printed = in_process("status", config=office.config).out
        assert "DRY RUN" in printed
        assert VARIABLES[variable] in printed
        plan = ("commands", "list", "--plan")
        (row,) = in_process(*plan, "--json", config=office.config).json()
        assert (row["method"], row["connection"]) == ("POST", "courier")
        assert row["path"] == f"/orders/{order['id']}/fulfill"
        said = in_process(*plan, config=office.config).out
        assert f"{row['id'][:8]}  POST {row['path']}  (dry run: not sent)" in said
        assert row["body"] in said
        assert order_of(platform, order["id"])["shipments"] == []
        assert count(office.database, "attempts") == 0
        assert started.log.read_text().count('"push.dry_run"') == 1
        assert started.terminate() == 0
        monkeypatch.delenv(variable)
        with daemon_process(office):
            await_true(lambda: sent(office), "it is sent")
            assert "DRY RUN" not in in_process("status", config=office.config).out
        assert sent(office) == [row["body"].encode()]
        assert len(order_of(platform, order["id"])["shipments"]) == 1


def sent(office: Office) -> list[bytes]:
    """Return the body of each command that took effect."""
    return values_of(office.database, "commands", "request", state="applied")


def test_an_uncertain_command_is_looked_up_and_not_sent_with_its_key(
    platform: ReferenceProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This platform supports keys, so the daemon would send the command again."""
    monkeypatch.setenv("BACKHAUL_PUSH__DRY_RUN", "true")
    monkeypatch.setenv("BACKHAUL_PUSH__CHECK_AFTER", "0s")
    with connected_process(platform) as started:
        office = started.office
        order = planned(platform, office)
        assert started.terminate() == 0
        body = in_process(
            "commands", "list", "--plan", "--json", config=office.config
        ).json()[0]["body"]
        sent_once = {
            "state": "uncertain",
            "attempts": 1,
            "request": body.encode(),
            "baseline": "{}",
            "key_fingerprint": fingerprint(office.api_key),
            "due_at": value_of(office.database, "commands", "created_at"),
            "sent_at": to_text(SystemClock().now()),
        }
        overwrite(office.database, "commands", sent_once)
        with daemon_process(office):
            await_true(lambda: commands(office.database)[0].looks, "a check")
            await_true(lambda: held(office), "the dry run")
        assert order_of(platform, order["id"])["shipments"] == []
