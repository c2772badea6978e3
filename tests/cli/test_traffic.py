"""Traffic is captured with a running daemon, and its replay has the same result."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from backhaul.cli.query import open_output
from backhaul.core import webhook
from backhaul.errors import BackhaulError
from backhaul.traffic.sample_events import SAMPLES
from scenes.daemon import (
    UNUSED_ADDRESS,
    backhaul,
    connected_process,
    daemon_process,
    in_process,
    office_of,
)
from scenes.damaged_rows import delete_rows, overwrite
from scenes.databases import started_store
from scenes.mirror_files import fill, lone_office, orders
from scenes.shopper import buy
from scenes.stored import count, value_of, values_of
from scenes.waiting import HANG_SECONDS, await_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess


@pytest.fixture(scope="module")
def number(platform: ReferenceProcess) -> int:
    return int(buy(platform)["number"])


@pytest.fixture(scope="module")
def office(platform: ReferenceProcess, number: int) -> Iterator[Office]:
    """Run a daemon with a mirrored store and one more order by webhook."""
    with connected_process(platform) as started:
        office = started.office
        orders = (office.database, "orders")
        await_true(lambda: count(*orders, number=number), "the first order")
        later = buy(platform)["number"]
        await_true(lambda: count(*orders, number=later), "the second order")
        yield office


@pytest.fixture(scope="module")
def captured(office: Office) -> Path:
    out = office.folder / "day.jsonl"
    assert in_process("capture", str(out), config=office.config).code == 0
    return out


def deliveries(office: Office) -> list[bytes]:
    """Return the bodies of the received webhooks, in order."""
    return values_of(office.database, "events", "body", source="delivery")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_capture_holds_deliveries_and_reads(office: Office, captured: Path) -> None:
    head, *events = lines(captured)
    assert head["stores"]["main"]["currency"] == "INR"
    assert {event["kind"] for event in events} == {"delivery", "read"}
    kept = values_of(office.database, "events", "body")
    assert [event["body"].encode() for event in events] == kept[: len(events)]
    assert stat.S_IMODE(captured.stat().st_mode) == 0o600
    text = captured.read_text()
    assert office.api_key not in text
    assert office.webhook_secret not in text


def test_a_capture_into_a_file_is_reported_as_json(office: Office) -> None:
    out = office.folder / "told.jsonl"
    printed = in_process("capture", out, "--json", config=office.config).json()
    events = len(lines(out)) - 1
    assert printed == {"file": str(out), "events": events, "left_out": 0}
    said = in_process("capture", "-", "--json", config=office.config)
    assert (said.code, said.out) == (1, "")
    assert "--json has no effect if the output is standard output" in " ".join(
        said.err.split()
    )


def test_a_capture_overwrites_no_file(office: Office, tmp_path: Path) -> None:
    out = tmp_path / "day.jsonl"
    out.write_text("mine\n")
    for as_json in ((), ("--json",)):
        said = in_process("capture", out, *as_json, config=office.config)
        assert (said.code, said.out, out.read_text()) == (1, "", "mine\n")
        assert f"{out} exists already, and is not overwritten" in said.err
    assert in_process("capture", "/dev/null", config=office.config).code == 0


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "day.jsonl"
    output = open_output(out, overwrite=False)
    output.__enter__().write("ours\n")
    out.write_text("mine\n")
    with pytest.raises(BackhaulError, match="exists already"):
        output.__exit__(None, None, None)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["mine\n"]


def test_an_unknown_kind_of_event_is_refused(office: Office) -> None:
    said = in_process("capture", "-", "--kind", "webhook", config=office.config)
    assert (said.code, said.out) == (2, "")
    assert "'delivery', 'read'" in " ".join(said.err.replace("│", " ").split())


def test_an_unknown_store_is_refused(office: Office) -> None:
    out = office.folder / "nothing.jsonl"
    said = in_process("capture", out, "--store", "shop", config=office.config)
    assert (said.code, out.exists()) == (2, False)
    assert "exist; choose one of: main" in said.err
    quiet = ("--store", "main", "--topic", "products/delete")
    assert in_process("capture", out, *quiet, config=office.config).code == 0


def test_a_capture_into_a_missing_folder_says_how_to_fix_it(office: Office) -> None:
    out = office.folder / "none" / "day.jsonl"
    said = in_process("capture", out, config=office.config)
    assert said.code == 1
    assert f"{out}: cannot be written: No such file or directory" in said.err
    assert "create the folder" in said.err


def test_filters_choose(office: Office, number: int) -> None:
    def found(*options: str) -> list[dict[str, Any]]:
        out = in_process("capture", "-", *options, config=office.config).out
        return [json.loads(line) for line in out.splitlines()[1:]]

    assert {e["kind"] for e in found("--kind", "delivery")} == {"delivery"}
    assert {e["topic"] for e in found("--topic", "orders/read")} == {"orders/read"}
    of_one = [json.loads(event["body"]) for event in found("--object", str(number))]
    assert {body.get("data", body)["number"] for body in of_one} == {number}
    assert found("--until", "2020-01-01") == []
    everything = found()  # and more events arrive meanwhile
    assert found("--since", "2020-01-01")[: len(everything)] == everything
    assert found("--store", "other") == []


async def test_a_capture_names_the_events_it_had_to_leave_out() -> None:
    with lone_office() as office:
        await fill(office, *orders(2))
        async with started_store(office.database) as store:
            while (await store.retention.prune("2030", 1.0)).more:
                pass
        await fill(office, *orders(1, 2001))
        said = await asyncio.to_thread(in_process, "capture", "-", config=office.config)
    assert said.code == 0
    assert "2 events left out: their bodies were deleted after" in said.err
    assert len([json.loads(line) for line in said.out.splitlines()]) == 2


def test_an_invalid_time_is_reported(office: Office) -> None:
    for command, option in (
        (("capture", "-"), "--since"),
        (("replay", "day.jsonl"), "--until"),
        (("events", "reprocess"), "--since"),
    ):
        said = in_process(*command, option, "noon", config=office.config)
        assert said.code == 2
        printed = " ".join(said.err.replace("│", " ").split())
        assert f"for '{option}': 'noon' is not a time such as" in printed


@pytest.mark.parametrize(
    "disorder", [(), ("--shuffle", "5", "--duplicate", "0.5")], ids=["plain", "wild"]
)
def test_a_replay_ends_in_the_same_mirror(
    office: Office, tmp_path: Path, disorder: tuple[str, ...]
) -> None:
    """The mirror changes meanwhile, so the test compares with a full capture."""
    day, held = tmp_path / "day.jsonl", count(office.database, "events")
    while True:
        day.unlink(missing_ok=True)
        assert in_process("capture", day, config=office.config).code == 0
        played = in_process("replay", day, *disorder, "--json", config=office.config)
        shown = in_process("replay", day, *disorder, config=office.config)
        before, held = held, count(office.database, "events")
        if held == before:
            break
    assert played.json()["differences"] == []
    assert "the mirrors are equal" in shown.out


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        (("--speed", "2"), "--speed has no effect without --to: give --to as well"),
        (("--secret-file", "s"), "--secret-file has no effect without --to"),
        (("--to", UNUSED_ADDRESS, "--into", "x.db"), "--into has no effect with --to"),
        (
            ("--to", UNUSED_ADDRESS, "--against", "x.db"),
            "--against has no effect with --to",
        ),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    office: Office, captured: Path, options: tuple[str, ...], printed: str
) -> None:
    said = in_process("replay", captured, *options, config=office.config)
    assert said.code == 1
    assert printed in " ".join(said.err.split())


def test_lost_events_are_shown(office: Office, captured: Path, number: int) -> None:
    played = in_process(
        "replay", captured, "--drop", "1", "--json", config=office.config
    )
    printed = played.json()
    missing = {d["id"] for d in printed["differences"] if d["table"] == "orders"}
    assert missing == set(values_of(office.database, "orders", "id"))
    assert printed["events"] == {}


def test_differences_are_readable_at_80_columns(
    office: Office, captured: Path, number: int
) -> None:
    kept = office.folder / "whole.db"
    into = ("--into", str(kept))
    assert in_process("replay", captured, *into, config=office.config).code == 0
    id_ = value_of(kept, "orders", "id", number=number)
    overwrite(kept, "orders", {"status": "ODD", "name": "N" * 90}, id=id_)
    delete_rows(kept, "customers", id=values_of(kept, "customers", "id")[0])
    against = ("--against", str(kept))
    said = in_process("replay", captured, *against, config=office.config)
    assert said.code == 0, said.err
    lines_ = said.out.splitlines()
    place = lines_.index(f"orders {id_} of store main")
    below = lines_[place + 1 : place + 5]
    assert below[0] == "  name:"
    assert below[1] == f"    mirror {'N' * 90}"
    assert below[2].startswith("    replay #")
    assert below[3].startswith("  status: mirror ODD, replay ")
    assert "  only in the replay" in lines_
    long = [line for line in lines_ if len(line) > 80 and str(kept) not in line]
    assert long == [below[1]]


def test_a_replay_never_touches_a_database_in_use(
    office: Office, captured: Path
) -> None:
    into = ("--into", str(office.database))
    said = in_process("replay", captured, *into, config=office.config)
    assert said.code == 1
    assert "the temporary mirror of the replay cannot be created here" in said.err


def test_a_replay_into_a_file_is_kept(office: Office, captured: Path) -> None:
    into = office.folder / "again.db"
    said = in_process("replay", captured, "--into", into, config=office.config)
    assert said.code == 0, said.err
    assert count(into, "orders") == count(office.database, "orders")


def test_a_receiver_gets_the_deliveries_with_new_signatures(
    platform: ReferenceProcess, captured: Path
) -> None:
    """Another daemon with another secret gets the same orders."""
    sent = [line for line in lines(captured)[1:] if line["kind"] == "delivery"]
    with office_of(platform) as other:
        secret = other.folder / "secret"
        secret.write_text(other.webhook_secret)
        with daemon_process(other):
            url = f"{(other.read_status() or {})['public_url']}/webhooks/main"
            signed = ("--to", url, "--secret-file", secret)
            printed = backhaul("replay", captured, *signed, "--json")
            assert printed.json()["answers"] == {"200": len(sent)}
            kept = deliveries(other)
            assert [body.decode() for body in kept] == [line["body"] for line in sent]

            secret.write_text("whsec_wrong")
            wrong = backhaul("replay", captured, *signed)
            assert wrong.code == 1
            assert "answered 401" in wrong.out


def test_an_address_without_a_server_is_reported(
    office: Office, captured: Path
) -> None:
    said = in_process("replay", captured, "--to", UNUSED_ADDRESS, config=office.config)
    assert said.code == 1
    assert UNUSED_ADDRESS in said.err


@pytest.mark.parametrize("topic", SAMPLES)
def test_a_sample_of_each_topic_is_accepted_and_folded(
    office: Office, topic: str
) -> None:
    said = backhaul("trigger", topic, config=office.config)
    assert said.code == 0, said.err
    states = (office.database, "events", "state")
    await_true(lambda: values_of(*states, topic=topic)[-1:] == ["folded"], "folded")


class Sink(BaseHTTPRequestHandler):
    """A developer's program that keeps each webhook."""

    came: ClassVar[list[tuple[dict[str, str], bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.came.append((dict(self.headers), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def sink() -> Iterator[str]:
    Sink.came.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Sink) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook"
        finally:
            server.shutdown()
            thread.join()


def first_heard(office: Office, platform: ReferenceProcess, *options: str) -> Any:
    """Run `listen`; return its output for the first webhook after an order."""
    command = [sys.executable, "-m", "backhaul", "listen", "--json", *options]
    with subprocess.Popen(
        [*command, "--config", str(office.config), "--topic", "orders/create"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        lines_ = process.stdout
        assert lines_ is not None
        found: list[str] = []
        reading = Thread(target=lambda: found.append(lines_.readline()))
        reading.start()
        try:
            # it shows only webhooks after its start, so place orders repeatedly
            while reading.is_alive():
                buy(platform)
                reading.join(0.5)
            process.send_signal(signal.SIGINT)
            assert process.wait(HANG_SECONDS) == 130, process.stderr
        finally:
            process.kill()
    return json.loads(found[0])


def test_a_listener_forwards_webhooks_as_they_came(
    office: Office, platform: ReferenceProcess, sink: str
) -> None:
    heard = first_heard(office, platform, "--forward-to", sink, "--body")
    assert (heard["status"], heard["topic"]) == (204, "orders/create")
    headers, body = Sink.came[0]
    assert body.decode() == heard["body"]
    assert body in deliveries(office)
    signature = webhook.sign(body, office.webhook_secret.encode())
    assert headers[webhook.HEADER].encode() == signature
    assert headers["X-Service-Event-Id"] == heard["event_id"]
    assert headers["X-Service-Topic"] == "orders/create"


def test_a_receiver_that_is_away_does_not_end_a_listener(
    office: Office, platform: ReferenceProcess
) -> None:
    heard = first_heard(office, platform, "--forward-to", UNUSED_ADDRESS)
    assert heard["status"] is None
    assert f"{UNUSED_ADDRESS} cannot be reached" in heard["error"]


def test_webhooks_are_not_forwarded_to_their_own_daemon(office: Office) -> None:
    url = f"{(office.read_status() or {})['public_url']}/webhooks/main"
    said = in_process("listen", "--forward-to", url, config=office.config)
    assert (said.code, said.out) == (1, "")
    assert "is this daemon's own address" in said.err


def test_a_trigger_says_that_the_daemon_treats_it_as_real(office: Office) -> None:
    said = in_process("trigger", "products/create", config=office.config)
    printed = " ".join(said.err.split())
    assert "the daemon takes the sample for a real event" in printed
    assert "backhaul doctor" in printed
    url = f"{(office.read_status() or {})['public_url']}/webhooks/main"
    named = in_process("trigger", "products/create", "--to", url, config=office.config)
    assert (named.code, named.err) == (0, ""), "whose receiver it is, one knows oneself"


def test_a_trigger_to_the_daemon_of_a_live_store_needs_a_word(office: Office) -> None:
    office.write(**{"test_store = true": ""})
    try:
        events = count(office.database, "events", topic="products/create")
        trigger = ("trigger", "products/create")
        said = in_process(*trigger, config=office.config)
        assert (said.code, said.out) == (1, "")
        printed = " ".join(said.err.split())
        assert "nothing was sent, because main is a live store" in printed
        assert "reach these connections: courier, bench" in printed
        assert "stores.main.test_store = true" in printed
        assert count(office.database, "events", topic="products/create") == events
        url = f"{(office.read_status() or {})['public_url']}/webhooks/main"
        for more in (("--to", url), ("--live",)):
            assert in_process(*trigger, *more, config=office.config).code == 0
        both = in_process(*trigger, "--to", url, "--live", config=office.config)
        assert (both.code, both.out) == (1, "")
        assert "--live has no effect with --to" in both.err
    finally:
        office.write()


def test_a_trigger_is_reported_as_json(office: Office) -> None:
    url = f"{(office.read_status() or {})['public_url']}/webhooks/main"
    trigger = ("trigger", "products/create", "--json")
    taken = in_process(*trigger, config=office.config)
    assert taken.json() == {"topic": "products/create", "to": url, "status": 200}
    wrong = office.folder / "wrong"
    wrong.write_text("whsec_wrong")
    refused = in_process(*trigger, "--secret-file", wrong, config=office.config)
    assert (refused.code, json.loads(refused.out)["status"]) == (1, 401)


def test_a_topic_without_a_sample_is_reported(office: Office) -> None:
    said = in_process("trigger", "orders/exploded", config=office.config)
    assert said.code == 1
    assert "orders/create" in said.err


def test_a_given_body_is_sent_as_it_is(office: Office) -> None:
    body = office.folder / "body.json"
    body.write_bytes(b'{ "odd" : 1 }')
    said = backhaul("trigger", "orders/exploded", "--data", body, config=office.config)
    assert said.code == 0, said.err
    assert deliveries(office).count(b'{ "odd" : 1 }') == 1


def test_without_a_daemon_a_trigger_says_so(platform: ReferenceProcess) -> None:
    with office_of(platform) as office:
        said = in_process("trigger", "orders/create", config=office.config)
    assert said.code == 1
    assert "no daemon answers" in said.err


def test_the_environments_secret_signs_instead_of_that_of_the_settings(
    office: Office, captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{(office.read_status() or {})['public_url']}/webhooks/main"
    monkeypatch.setenv("BACKHAUL_WEBHOOK_SECRET", office.webhook_secret)
    replay, trigger = ("replay", captured, "--to", url), ("trigger", "orders/create")
    for said in (backhaul(*replay), backhaul(*trigger, "--to", url)):
        assert said.code == 0, said.err

    monkeypatch.setenv("BACKHAUL_WEBHOOK_SECRET", "whsec_wrong")
    for given in (replay, trigger):
        said = backhaul(*given, config=office.config)
        assert said.code == 1
        assert "401" in said.out + said.err
    assert backhaul("status", config=office.config).code == 0


def test_a_secret_of_a_file_signs_before_any_other(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = office.folder / "right"
    file.write_text(office.webhook_secret)
    monkeypatch.setenv("BACKHAUL_WEBHOOK_SECRET", "whsec_wrong")
    trigger = ("trigger", "orders/create", "--secret-file", file)
    said = backhaul(*trigger, config=office.config)
    assert said.code == 0, said.err
