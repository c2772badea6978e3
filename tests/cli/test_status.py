"""`backhaul status` fits on one screen, problems first, with or without a daemon."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from rich.cells import cell_len

from backhaul.alerting.problem import Problem, Several, Severity
from backhaul.app.control_socket import SOCKET_NAME
from backhaul.cli import context
from backhaul.cli.output import Line, Section, cut, fit, packed
from backhaul.cli.status import current, lines
from backhaul.store.matching import NewCommand
from backhaul.store.operations import AuditEntry
from backhaul.store.records import Matched, NewRecord, Unmatched
from backhaul.sync.resource_types import KINDS
from scenes.daemon import in_process
from scenes.damaged_rows import insert_delivery, overwrite
from scenes.databases import append, started_store
from scenes.mirror_files import fill, lone_office, orders
from scenes.terminal import Typist, terminal_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office

MANY = "".join(
    f'[connectors.desk_{n}]\ntype = "scanner"\nstore = "main"\n'
    f'[connectors.desk_{n}.devices]\ngun = "a-token-of-desk-{n:02}-long-enough"\n'
    for n in range(12)
)
WHY = "connection reset by peer\x1b[2J while 注文 was being sent to the platform"


def hang_up(listener: socket.socket) -> None:
    listener.accept()[0].close()


def test_a_daemon_that_does_not_answer_is_not_reported_as_stopped() -> None:
    with (
        lone_office() as office,
        socket.socket(socket.AF_UNIX) as listener,
        ThreadPoolExecutor(1) as thread,
    ):
        asyncio.run(fill(office, *orders(2)))
        listener.bind(str(office.folder / "state" / SOCKET_NAME))
        listener.listen()
        gone = thread.submit(hang_up, listener)
        said = in_process("status", config=office.config)
        gone.result()
    assert said.code == 0, said.err
    assert "does not answer: the connection to the daemon was lost" in said.out
    assert "2 orders" in said.out


@pytest.fixture(scope="module")
def troubled() -> Iterator[Office]:
    """Return a stopped office: many connectors, parked commands, a bad row."""
    with lone_office(MANY) as office:
        asyncio.run(fill(office, *orders(2)))
        asyncio.run(_trouble(office, 7))
        yield office


async def _trouble(office: Office, parked: int) -> None:
    path = office.database
    async with started_store(path) as store:
        for number in range(parked):
            command = NewCommand(
                f"{number:032x}", "fulfill", f"ord_{1001 + number}", "lane", {}
            )
            new = NewRecord(f"key-{number}", b"null", "raw", "", "f.csv:1")
            await store.records.accept(
                "courier", "main", [new], None, lambda *_, c=command: Matched(c)
            )
        bad = NewRecord("bad", None, "raw", "the mirror has no order #9", "f.csv:2")
        await store.records.accept(
            "desk_1", "main", [bad], None, lambda *_: Unmatched("", final=True)
        )
        await store.targets.stop("main", WHY)
    overwrite(path, "commands", {"state": "parked", "reason": WHY})


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (50, 24)])
def test_the_status_fits_one_screen_without_wrapping(
    troubled: Office, columns: int, lines: int
) -> None:
    shown = terminal_lines(
        "status", config=troubled.config, columns=columns, lines=lines
    )
    assert len(shown) < lines  # the line of the prompt remains
    assert [line for line in shown if cell_len(line) > columns] == []
    assert "is not running; start it with" in shown[0]
    for typed in (
        "backhaul commands show 00000000",
        "backhaul commands list --state parked",
        "backhaul stock resume main",
        "backhaul quarantine list",
        "backhaul connectors list",
    ):
        assert typed in "\n".join(shown)


def test_into_a_pipe_everything_goes_whole_and_plain(troubled: Office) -> None:
    piped = in_process("status", config=troubled.config).out
    assert WHY.replace("\x1b", "\\x1b") in piped
    assert "\x1b" not in piped
    assert piped.count("connector desk_") == 12


def test_problems_are_listed_above_healthy_parts(troubled: Office) -> None:
    piped = in_process("status", config=troubled.config).out
    heads = [line.split()[0] for line in piped.splitlines()]
    worst = [heads.index(name) for name in ("daemon", "counts", "parked", "quarantine")]
    assert worst == sorted(worst)
    assert max(worst) < min(heads.index(name) for name in ("store", "disk", "mirror"))


def test_without_a_daemon_the_database_says_it_all(troubled: Office) -> None:
    found = in_process("status", "--json", config=troubled.config).json()
    assert found["daemon"] is None
    assert found["commands"] == {"parked": 7}
    assert [each["reason"] for each in found["parked"]] == [WHY] * 3
    main = found["stores"]["main"]
    assert main["last_webhook_at"] == found["last_event_at"]
    assert (main["to_fold"], main["sending"]) == (0, None)
    assert found["connectors"]["desk_1"]["quarantined"] == 1
    assert found["connectors"]["courier"]["last_record_at"] > main["last_webhook_at"]
    assert found["disk"]["database_bytes"] > 4_096
    assert {job["job"] for job in found["jobs"]} >= {"prune", "push_fulfillments"}


def test_a_parked_command_is_shown_with_the_name_of_its_order(
    troubled: Office,
) -> None:
    piped = in_process("status", config=troubled.config).out
    assert "fulfill of #1001: connection reset" in piped
    assert (
        "fulfill of ord_1003: connection reset" in piped
    )  # the order is not in the mirror


LAST_SEEN = """
[connectors.retired]
type = "scanner"
store = "main"
enabled = false
silent_after = "1h"
[connectors.retired.devices]
gun = "a-token-of-a-retired-desk-long-enough"
"""


@pytest.fixture(scope="module")
def stopped() -> Iterator[Office]:
    """Return a stopped office: a parked delivery, paused jobs, a removed connection."""
    with lone_office(LAST_SEEN) as office:
        asyncio.run(fill(office, *orders(1)))
        asyncio.run(_retire(office))
        yield office


async def _retire(office: Office) -> None:
    path = office.database
    async with started_store(path) as store:
        bad = NewRecord("bad", None, "raw", "why", "f.csv:1")
        await store.records.accept(
            "retired", "main", [bad], None, lambda *_: Unmatched("", final=True)
        )
        audits = [("audit", name) for name in ("main", "gone")]
        await store.job_runs.register(dict.fromkeys(audits, "hourly"))
        await store.job_runs.pause(audits, AuditEntry("ann", "jobs pause", "audit"))
    overwrite(path, "records", {"received_at": "2020-01-01T00:00:00.000Z"})
    parked = {"topic": "order.placed", "state": "parked", "reason": "no answer"}
    insert_delivery(path, "courier", "ord_1001", **parked)


def _kinds(office: Office, live: dict[str, Any] | None) -> list[str]:
    with context.reader(office.config) as known:
        found = current(context.settings(office.config), known, live)
    return [problem.key for problem in found]


def test_without_a_daemon_a_parked_delivery_is_a_problem(stopped: Office) -> None:
    assert "news 1" in _kinds(stopped, None)


def test_a_connection_that_is_not_enabled_is_not_silent(stopped: Office) -> None:
    assert "silent retired" not in _kinds(stopped, None)


def test_a_paused_job_of_a_removed_store_is_no_problem(stopped: Office) -> None:
    paused = [key for key in _kinds(stopped, None) if key.startswith("job ")]
    assert paused == ["job audit main"]


def test_the_state_of_a_daemon_is_used_even_without_its_problems(
    stopped: Office,
) -> None:
    live = {"stores": {"main": {"stopped": {"everything": "the key is refused"}}}}
    assert "stopped main everything" in _kinds(stopped, live)


def test_events_that_are_not_folded_yet_count_as_behind() -> None:
    with lone_office() as office:
        asyncio.run(fill(office, *orders(1)))
        asyncio.run(_deliver(office, *orders(1, 1002)))
        found = in_process("status", "--json", config=office.config).json()
    main = found["stores"]["main"]
    assert (main["to_fold"], main["oldest_at"]) == (1, found["last_event_at"])


async def _deliver(office: Office, *bodies: bytes) -> None:
    """Append webhooks without folding them."""
    async with started_store(office.database) as store:
        await append(store, bodies)


def test_a_list_that_cannot_be_read_is_named_beside_the_time() -> None:
    with lone_office() as office:
        asyncio.run(_sync_twice(office))
        shown = in_process("status", config=office.config).out
        found = in_process("status", "--json", config=office.config).json()
    main = found["consistency"]["main"]
    assert f"in sync as of {main['as_of']}; orders cannot be read" in shown
    assert main["kinds"]["orders"] == "403 no"


async def _sync_twice(office: Office) -> None:
    """Run two full syncs; at the second one the key must not read orders."""
    path = office.database
    async with started_store(path) as store:
        for note in ("", "403 no"):
            for kind in KINDS:
                at = await store.passes.begin("main", "full", kind)
                await store.passes.end(at.pass_id, 0, note if kind == "orders" else "")


def test_many_problems_of_one_kind_are_a_list_with_a_command() -> None:
    parked = [
        Problem(
            f"parked {number}",
            f"reason {number}",
            subject="parked",
            command=f"backhaul commands show {number}",
            severity=Severity.PARKED,
            consequence="1 parcel is missing",
            several=Several("{n} are parked", "{n} parcels are missing"),
        )
        for number in range(5)
    ]
    down = [Problem(f"down {n}", "x", subject=n, command=n) for n in "abcde"]
    shown = [*lines([*down, *parked])]
    assert [line.type for line in shown] == [
        *"abcde",
        *(f"backhaul commands show {number}" for number in range(3)),
        "backhaul commands list --state parked",
    ]
    assert shown[-1].says == "and 2 more: 5 parcels are missing"
    (alone,) = lines(parked[:1])
    assert alone.says == "reason 0; 1 parcel is missing"
    assert [line.says for line in lines(parked[:2])] == [
        *("reason 0", "reason 1", "2 parcels are missing")
    ]


def test_a_suggested_command_is_never_cut() -> None:
    long = Line("a", "why " * 30, "backhaul " + "x" * 50)
    for width in range(30, 120):
        lines = fit([Section([long])], width, 24)
        assert lines[-1].type == long.type
        assert len(lines) == (1 if width >= 97 else 2)


def test_the_longest_list_gives_way_first() -> None:
    short, long = ([Line(name, str(n)) for n in range(5)] for name in "ab")
    shown = fit([Section(short[:2]), Section(long, "backhaul all")], 80, 5)
    assert [line.label for line in shown] == ["a", "a", "b", "b", ""]
    assert (shown[-1].says, shown[-1].type) == ("and 3 more", "backhaul all")
    urgent = fit([Section(short, urgent=True), Section(long[:2])], 80, 5)
    assert [line.label for line in urgent] == ["a", "a", "", "b", ""]


def test_text_is_cut_by_columns_not_by_characters() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"
    assert cell_len(cut("注文注文", 6)) <= 6
    assert packed(["a" * 4, "b" * 4, "c" * 4], 10) == ["aaaa; bbbb", "cccc"]


def test_watching_shows_the_status_again_and_again() -> None:
    with lone_office() as office:
        asyncio.run(fill(office, *orders(2)))
        person = Typist("status", "--watch", "--config", str(office.config))
        person.await_text("2 orders")
        asyncio.run(fill(office, *orders(1, 2001)))
        person.await_text("3 orders")
        assert person.interrupt() == 130, person.seen
    assert "Ctrl-C ends this" in person.seen


def test_watching_outlives_a_database_that_cannot_be_read() -> None:
    with lone_office() as office:
        person = Typist("status", "--watch", "--config", str(office.config))
        person.await_text("there is no database yet")
        asyncio.run(fill(office, *orders(2)))
        person.await_text("2 orders")
        assert person.interrupt() == 130, person.seen


def test_watching_into_a_pipe_prints_lines_of_json() -> None:
    with lone_office() as office:
        asyncio.run(fill(office, *orders(2)))
        said = in_process("status", "--watch", config=office.config)
        assert (said.code, said.out) == (2, "")
        assert "--watch needs a terminal, or --json" in said.err
        command = [sys.executable, "-m", "backhaul", "status", "--watch", "--json"]
        with subprocess.Popen(
            [*command, "--config", str(office.config)],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            found = [json.loads(process.stdout.readline()) for _ in range(2)]
            process.kill()
    assert [each["orders"] for each in found] == [2, 2]
    assert "silence" not in found[0]
