"""`backhaul run` as a process: what it does, and how it ends."""

from __future__ import annotations

import json
import resource
import signal
import socket
from typing import TYPE_CHECKING, Any

import httpx
from rich.cells import cell_len

from scenes.daemon import (
    DaemonProcess,
    Office,
    backhaul,
    connected_process,
    daemon_process,
    office_of,
)
from scenes.payloads import envelope, order, signed
from scenes.processes import limited
from scenes.shopper import buy, key_with, order_of
from scenes.stored import COMMANDS_AND_TARGETS, count, rows_of, values_of
from scenes.terminal import terminal_lines
from scenes.waiting import HANG_SECONDS, await_true

if TYPE_CHECKING:
    from scenes.reference_process import ReferenceProcess

HEADER = "order,tracking_company,tracking_number"


def scan(started: DaemonProcess, order: str, number: str) -> httpx.Response:
    live = started.office.read_status() or {}
    return httpx.post(
        f"{live['public_url']}/connect/bench/scan",
        json={"mode": "pack", "code": order, "trackingNumber": number},
        headers={"Authorization": f"Bearer {started.office.device_token}"},
    )


def known(office: Office, number: int) -> bool:
    return count(office.database, "orders", number=number) > 0


def quarantined(office: Office) -> list[tuple[Any, ...]]:
    return rows_of(office.database, "quarantine", "locator", "reason")


def applied(office: Office) -> int:
    return count(office.database, COMMANDS_AND_TARGETS, state="applied")


def delivered(office: Office) -> int:
    """Return the number of stored webhooks."""
    return count(office.database, "events", source="delivery")


def is_cancelled(office: Office, order: dict[str, Any]) -> bool:
    return any(values_of(office.database, "orders", "cancelled_at", id=order["id"]))


def shipment_numbers(platform: ReferenceProcess, order: dict[str, Any]) -> list[str]:
    shown = order_of(platform, order["id"])
    return [parcel["trackingNumber"] for parcel in shown["shipments"]]


def test_orders_come_in_and_parcels_go_out(platform: ReferenceProcess) -> None:
    with connected_process(platform) as started:
        office = started.office
        first, second = buy(platform), buy(platform)
        await_true(lambda: known(office, second["number"]), "the orders are mirrored")
        assert scan(started, first["name"], "SCAN-1").status_code == 200
        office.put("fulfillments-1.csv", HEADER, f"{second['number']},DHL,CSV-1")
        await_true(lambda: applied(office) == 2, "both are shipped")
        assert shipment_numbers(platform, first) == ["SCAN-1"]
        assert shipment_numbers(platform, second) == ["CSV-1"]
        assert started.terminate() == 0


def test_bad_rows_are_quarantined_and_good_ones_go_on(
    platform: ReferenceProcess,
) -> None:
    with connected_process(platform) as started:
        office = started.office
        order, gone, other = buy(platform), buy(platform), buy(platform)
        await_true(lambda: known(office, other["number"]), "the orders are mirrored")
        platform.v1("POST", f"/orders/{gone['id']}/cancel", {})
        await_true(lambda: is_cancelled(office, gone), "it is cancelled")
        sku = order["items"][0]["sku"]
        office.put(
            "fulfillments-2.csv",
            f"{HEADER},sku,quantity",
            f"{order['number']},DHL,GOOD-1,,",
            "999999,DHL,NOT-YET,,",
            f"{'9' * 25},DHL,HUGE,,",
            f"{gone['number']},DHL,TOO-LATE,,",
            f"{other['number']},DHL,MINUS,{sku},-2",
            ",DHL,NO-ORDER,,",
            *(f"{888_000 + n},DHL,LATER-{n},," for n in range(20)),
        )
        await_true(lambda: count(office.database, "quarantine") == 3, "three bad rows")
        await_true(lambda: shipment_numbers(platform, order), "the good row went out")
        printed = dict(quarantined(office))
        assert printed["fulfillments-2.csv:5"] == f"order {gone['name']} is cancelled"
        assert "from 1 to 1000000, not -2" in printed["fulfillments-2.csv:6"]
        assert printed["fulfillments-2.csv:7"] == "the order is empty"
        waiting = values_of(office.database, "records", "reason", state="waiting")
        assert len(waiting) == 22
        assert "order '999999' is not known" in waiting
        assert shipment_numbers(platform, order) == ["GOOD-1"]
        assert shipment_numbers(platform, gone) == []
        log = started.log.read_text()
        assert "Traceback" not in log
        assert "is cancelled" in log


def test_a_file_that_is_no_table_is_held_and_reported(
    platform: ReferenceProcess,
) -> None:
    with connected_process(platform) as started:
        office = started.office
        order = buy(platform)
        await_true(lambda: known(office, order["number"]), "the order is mirrored")
        office.put("fulfillments-3.csv", "what,is,this", "1,2,3")
        await_true(lambda: quarantined(office), "the file is held")
        ((locator, reason),) = quarantined(office)
        assert locator == "fulfillments-3.csv"
        assert "was moved to held/" in reason
        office.put("fulfillments-4.csv", HEADER, f"{order['number']},DHL,AFTER")
        await_true(lambda: shipment_numbers(platform, order), "the next one is taken")


def test_a_key_without_the_scope_stops_sending_and_keeps_the_work(
    platform: ReferenceProcess,
) -> None:
    key = key_with(platform, "orders:read", "products:read", "inventory:read")
    order = buy(platform)
    with office_of(platform) as office:
        office.api_key = key
        office.write()
        with daemon_process(office) as started:
            await_true(lambda: known(office, order["number"]), "it is read")
            assert scan(started, order["name"], "X-1").status_code == 200
            live = await_true(lambda: stopped(office), "sending is stopped")
            assert "INSUFFICIENT_SCOPE" in live["fulfill"]
            everything = (office.database, COMMANDS_AND_TARGETS, "state")
            await_true(lambda: values_of(*everything) == ["planned"], "it is kept")
            screen = terminal_lines(
                "status", config=office.config, columns=80, lines=24
            )
            assert screen[0].startswith("daemon             runs since 2")
            assert "fulfill waits: 403 INSUFFICIENT_SCOPE" in screen[1]
            assert "backhaul doctor" in screen[1]
            assert any("connector courier  up, worked" in line for line in screen)
            assert (len(screen) < 24, max(map(cell_len, screen)) <= 80) == (True, True)
            assert started.terminate() == 0
            lines = started.log.read_text().splitlines()
            printed = [line for line in lines if '"push.stopped"' in line]
            assert len(printed) == 1
            assert "the API key does not hold the scope" in printed[0]


def stopped(office: Office) -> dict[str, str]:
    live = office.read_status() or {}
    found: dict[str, str] = live["stores"]["main"]["stopped"]
    return found


def test_a_run_stops_at_a_signal_and_later_continues_where_it_was(
    platform: ReferenceProcess,
) -> None:
    order = buy(platform)
    with office_of(platform) as office:
        for number in (signal.SIGTERM, signal.SIGINT):
            started = DaemonProcess(office)
            started.await_ready()
            started.process.send_signal(number)
            assert started.process.wait(HANG_SECONDS) == 0
            assert not (office.folder / "state" / "backhaul.sock").exists()
        office.put("fulfillments-5.csv", HEADER, f"{order['number']},DHL,NEXT-DAY")
        with daemon_process(office):
            await_true(lambda: applied(office) == 1, "it is shipped")
    assert shipment_numbers(platform, order) == ["NEXT-DAY"]


def test_killed_at_any_moment_it_starts_again(platform: ReferenceProcess) -> None:
    with office_of(platform) as office:
        for _ in range(2):
            started = DaemonProcess(office)
            started.await_ready()
            started.kill()
        with daemon_process(office) as again:
            assert again.terminate() == 0


def test_a_second_daemon_is_refused(platform: ReferenceProcess) -> None:
    with office_of(platform) as office, daemon_process(office) as first:
        code, line = refused(office)
        assert code == 75
        assert line == (
            f"{office.folder}/state: another Backhaul process ({first.process.pid})"
            " uses this folder; stop that process, or set another state_dir"
        )
        assert office.read_status() is not None


def test_a_full_disk_is_answered_503_until_there_is_room(
    platform: ReferenceProcess,
) -> None:
    with office_of(platform) as office, daemon_process(office) as started:
        url = f"{started.await_ready()['public_url']}/webhooks/main"
        secret = office.webhook_secret.encode()

        def deliver(number: int) -> int:
            body = envelope("x/y", order(f"ord_{number}", note="x" * 20_000))
            headers = signed(body, secret)
            answer = httpx.post(
                url, content=body, headers=headers, timeout=HANG_SECONDS
            )
            return answer.status_code

        # leave no space, so that other writes of the daemon cannot change the result
        assert [deliver(number) for number in range(3)] == [200] * 3
        with limited(started.process.pid, resource.RLIMIT_FSIZE, 0):
            assert [deliver(number) for number in range(3, 6)] == [503] * 3
            assert delivered(office) == 3
        assert deliver(6) == 200
        assert delivered(office) == 4
        assert started.terminate(30) == 0


REFUSALS = "a line on stderr, an exit code, and no traceback"


def refused(office: Office) -> tuple[int, str]:
    """Start a daemon that cannot start; return its exit code and its error line."""
    said = backhaul("run", config=office.config)
    assert "Traceback" not in said.err, REFUSALS
    lines = [line for line in said.err.splitlines() if not is_log(line)]
    assert len(lines) == 1, said.err
    assert said.out == ""
    return said.code, lines[0]


def is_log(line: str) -> bool:
    try:
        return "action" in json.loads(line)
    except ValueError:
        return False


def test_a_wrong_address_is_reported(platform: ReferenceProcess) -> None:
    with office_of(platform) as office:
        office.base_url = f"{platform.public_url}/shop"
        office.write()
        code, line = refused(office)
        assert code == 69
        assert line.startswith("stores.main.base_url: ")
        assert "is not the platform's API" in line
        assert not count(office.database, "events")


def test_an_unreachable_address_is_reported(platform: ReferenceProcess) -> None:
    with office_of(platform) as office:
        office.base_url = "http://127.0.0.1:9"
        office.write()
        code, line = refused(office)
        assert code == 69
        assert line.startswith(
            "stores.main.base_url: http://127.0.0.1:9 cannot be reached: "
        )


def test_a_wrong_key_is_reported_without_showing_it(platform: ReferenceProcess) -> None:
    with office_of(platform) as office:
        office.api_key = "svc_live_" + "A" * 40
        office.write()
        code, line = refused(office)
        assert code == 78
        assert "stores.main.api_key: the platform refuses the API key" in line
        assert "svc_live_" not in line


def test_a_port_in_use_is_reported(platform: ReferenceProcess) -> None:
    with office_of(platform) as office, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        office.write(**{"port = 0\n[admin]": f"port = {port}\n[admin]"})
        code, line = refused(office)
        assert code == 69
        assert line == (
            f"127.0.0.1:{port} is in use by another program; stop it, or set "
            "public.port"
        )


def test_an_unknown_connector_is_reported(platform: ReferenceProcess) -> None:
    with office_of(platform) as office:
        office.write(**{'"file_drop"': '"file_dorp"'})
        code, line = refused(office)
        assert code == 78
        assert "connectors.courier.type: no connector is called 'file_dorp'" in line
        assert "did you mean 'file_drop'?" in line


def test_a_damaged_database_is_reported(platform: ReferenceProcess) -> None:
    with office_of(platform) as office:
        office.database.parent.mkdir()
        office.database.write_bytes(b"not a database " * 1_000)
        code, line = refused(office)
        assert code == 65
        assert line.startswith(f"{office.database}: the database is damaged")
        assert "then restore a backup" in line


def test_a_state_folder_with_a_long_name_is_reported(
    platform: ReferenceProcess,
) -> None:
    with office_of(platform) as office:
        office.write(**{"/state": "/" + "long" * 30})
        code, line = refused(office)
        assert code in {69, 78}
        assert "too long" in line
        assert "state_dir" in line


def test_a_clean_stop_leaves_no_log_beside_the_database(
    platform: ReferenceProcess,
) -> None:
    """A remaining log could be applied to another database."""
    with connected_process(platform) as started:
        office = started.office
        order = buy(platform)
        await_true(lambda: known(office, order["number"]), "the order is mirrored")
        live = office.read_status() or {}
        login = httpx.get(f"{live['admin_url']}/login", follow_redirects=True)
        assert login.status_code == 200
        assert office.database.with_name("backhaul.db-wal").exists()
        assert started.terminate() == 0
        beside = sorted(path.name for path in office.database.parent.glob("*.db*"))
        assert beside == ["backhaul.db"]
