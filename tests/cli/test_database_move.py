"""`backhaul migrate --to` moves a database to PostgreSQL and back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store import database_at, open_store
from backhaul.store.database import sole_writer
from scenes.daemon import UNUSED_ADDRESS, Office, backhaul, in_process
from scenes.damaged_rows import insert
from scenes.postgres import PASSWORD, USER, postgres
from scenes.terminal import terminal_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.postgres import Postgres

pytestmark = pytest.mark.programs

ROWS = 3


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


@pytest.fixture
def office() -> Iterator[Office]:
    """Return an office with a database of three rows."""
    made = Office(UNUSED_ADDRESS.removesuffix("/hook"), "svc_live_" + "0" * 40)
    open_store(made.database, SystemClock())
    for name in "abc":
        insert(made.database, "kv", name=name, value="1")
    yield made
    made.remove()


def configure(office: Office, url: str) -> None:
    """Configure what the command printed, with the password."""
    office.more = f'[database]\nurl = "{url}"\n'
    office.write()


def test_there_and_back_as_it_says(server: Postgres, office: Office) -> None:
    url, aside = server.empty(), f"{office.database}.moved"
    there = in_process("migrate", "--to", url, config=office.config)
    assert (there.code, there.err) == (0, "")
    shown = url.replace(f"{USER}:{PASSWORD}@", "")
    lines = there.out.splitlines()
    assert re.sub(r"\d+ tables", "all tables", lines[0]) == (
        f"sqlite:///{office.database}: moved to {shown}: {ROWS} rows of all tables,"
        " compared with equal digests"
    )
    assert lines[1] == f"the file is now {aside}, and no daemon starts with it"
    assert lines[4:6] == ["[database]", f'url = "{url.replace(f":{PASSWORD}", "")}"']
    assert "a password is not shown" in lines[7]
    assert PASSWORD not in there.out
    configure(office, url)
    again = in_process("status", config=office.config)
    assert (again.code, again.err) == (0, "")
    target = office.database.with_name("back.db")
    back = in_process("migrate", "--to", f"sqlite:///{target}", config=office.config)
    assert (back.code, back.err) == (0, "")
    assert back.out.splitlines()[-2:] == ["[database]", f'url = "sqlite:///{target}"']
    assert database_at(target).row_counts()["kv"] == ROWS
    assert PASSWORD not in back.out


def test_a_daemon_of_the_old_configuration_names_the_new_place(
    server: Postgres, office: Office
) -> None:
    url = server.empty()
    in_process("migrate", "--to", url, config=office.config)
    for command in (["run"], ["status"], ["commands", "list"]):
        said = backhaul(*command, config=office.config)
        assert said.code == 78, (said.out, said.err)
        (line,) = [each for each in said.err.splitlines() if "was moved" in each]
        assert "this database was moved to postgresql://127.0.0.1" in line
        assert PASSWORD not in said.out + said.err
    assert not office.database.exists()


def test_for_a_program(server: Postgres, office: Office) -> None:
    url = server.empty()
    done = in_process("migrate", "--to", url, "--json", config=office.config).json()
    tables = done.pop("tables")
    assert done == {
        "from": f"sqlite:///{office.database}",
        "to": url.replace(f"{USER}:{PASSWORD}@", ""),
        "url": url.replace(f":{PASSWORD}", ""),
        "aside": f"{office.database}.moved",
    }
    assert {name for name, each in tables.items() if each["rows"]} == {"kv"}
    back = in_process(
        *("migrate", "--from", url, "--to", f"sqlite:///{office.database}", "--json"),
        config=office.config,
    ).json()
    assert back["aside"] is None
    assert back["tables"] == tables


def test_the_command_is_refused_while_a_daemon_runs(
    server: Postgres, office: Office
) -> None:
    with sole_writer(office.database.parent):
        said = in_process("migrate", "--to", server.empty(), config=office.config)
    assert (said.code, "stop that process, or set" in said.err) == (75, True)
    assert office.database.exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--to", "mysql://db/backhaul"],
        ["--to", "sqlite:///"],
        ["--from", "sqlite:////old.db"],
        ["--plan", "--to", "postgresql://db/backhaul"],
    ],
    ids=" ".join,
)
def test_options_that_mean_nothing(options: list[str], office: Office) -> None:
    assert in_process("migrate", *options, config=office.config).code == 2
    assert office.database.exists()


def test_a_server_that_does_not_answer_is_one_line(office: Office) -> None:
    url = f"postgresql://ann:{PASSWORD}@127.0.0.1:9/backhaul"
    said = in_process("migrate", "--to", url, config=office.config)
    assert (said.code, said.out) == (69, "")
    assert said.err.startswith(
        "postgresql://127.0.0.1:9/backhaul: the database cannot be opened: "
    )
    assert said.err.count("\n") == 1
    assert PASSWORD not in said.err


def test_at_a_terminal_a_bar_names_the_table(server: Postgres, office: Office) -> None:
    lines = terminal_lines(
        *("migrate", "--to", server.empty()),
        config=office.config,
        columns=100,
        lines=24,
    )
    shown = "\n".join(lines)
    assert "comparing metric_samples" in shown
    assert "━" in shown


def test_no_progress_is_shown_without_a_terminal(
    server: Postgres, office: Office
) -> None:
    said = backhaul("migrate", "--to", server.empty(), config=office.config)
    assert (said.code, said.err) == (0, "")
    assert not {"\x1b", "\r", "━"} & set(said.out)
