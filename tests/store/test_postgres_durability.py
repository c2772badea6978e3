"""Each reason why a server would lose confirmed rows is found on real servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.doctor import State, storage
from backhaul.doctor.check_runner import examine
from backhaul.settings import Settings
from backhaul.store.postgres import durability
from backhaul.store.postgres.connection import Connection
from scenes.postgres import PASSWORD
from scenes.postgres_nodes import postgres_nodes
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backhaul.errors import Finding
    from scenes.postgres import Postgres
    from scenes.postgres_nodes import Nodes

pytestmark = pytest.mark.programs

ROLE = "daemon"
RUN = "run: "
CHANGED = """
    SELECT name, setting FROM pg_settings WHERE sourcefile LIKE '%/postgresql.auto.conf'
"""


@pytest.fixture(scope="module")
def three() -> Iterator[Nodes]:
    with postgres_nodes() as started:
        started.primary.run(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
        yield started


@pytest.fixture
def nodes(three: Nodes) -> Iterator[Nodes]:
    """Return the servers; reset every setting at the end."""
    three.primary.run(f"GRANT pg_read_all_stats TO {ROLE}")
    yield three
    configure(three)  # first, because a commit may wait for a replica until then
    three.primary.run(
        f"ALTER ROLE {ROLE} RESET ALL",
        f"ALTER ROLE {ROLE} IN DATABASE postgres RESET ALL",
        "ALTER DATABASE postgres RESET ALL",
        "ALTER ROLE ALL RESET ALL",
    )
    await_no_problem(three)


def configure(nodes: Nodes, **settings: str) -> None:
    """Set these settings on the primary, and wait until they apply."""
    changes = [f"SET {name} = '{value}'" for name, value in settings.items()]
    nodes.primary.run(*(f"ALTER SYSTEM {each}" for each in ("RESET ALL", *changes)))
    nodes.primary.reload()
    with nodes.connect() as connection:

        def is_read() -> bool:
            return dict(connection.execute(CHANGED).fetchall()) == settings

        # the server reads the configuration before its sessions do
        await_true(is_read, "the configuration is read")


def findings(
    server: Postgres, *, quorum: bool = True, options: str = ""
) -> list[Finding]:
    """Return the findings of a check with the daemon's role."""
    place = f"{ROLE}:{PASSWORD}@127.0.0.1:{server.port}/postgres?{options}"
    connection = Connection(f"postgresql://{place}")
    try:
        return list(durability.findings(connection, quorum=quorum))
    finally:
        connection.close()


def only(found: list[Finding]) -> Finding:
    (finding,) = found
    return finding


def await_problem(nodes: Nodes, beginning: str) -> None:
    """Wait for a finding that starts so: the primary notices a replica's end late."""

    def is_found() -> bool:
        problems = [each.problem for each in findings(nodes.primary)]
        return [each.startswith(beginning) for each in problems] == [True]

    await_true(is_found, beginning)


def await_no_problem(nodes: Nodes) -> None:
    await_true(lambda: findings(nodes.primary) == [], "nothing is found")


def run_suggestion(finding: Finding, nodes: Nodes) -> None:
    """Execute the statement that a finding suggests."""
    assert finding.hint.startswith(RUN)
    nodes.primary.run(finding.hint.removeprefix(RUN))


def test_no_problem_is_found_where_a_replica_confirms(nodes: Nodes) -> None:
    assert findings(nodes.primary) == []
    assert findings(nodes.primary, quorum=False) == []


def test_the_check_names_the_grant_that_an_ordinary_role_lacks(nodes: Nodes) -> None:
    nodes.primary.run(f"REVOKE pg_read_all_stats FROM {ROLE}")
    finding = only(findings(nodes.primary))
    assert finding.key == "pg_stat_replication"
    assert finding.source == f"PostgreSQL at 127.0.0.1:{nodes.primary.port}"
    run_suggestion(finding, nodes)
    assert findings(nodes.primary) == []


@pytest.mark.parametrize(
    "where",
    [
        f"ALTER ROLE {ROLE}",
        "ALTER DATABASE postgres",
        f"ALTER ROLE {ROLE} IN DATABASE postgres",
        "ALTER ROLE ALL",
    ],
)
def test_a_commit_that_does_not_wait_is_found_where_it_was_set(
    nodes: Nodes, where: str
) -> None:
    nodes.primary.run(f"{where} SET synchronous_commit = off")
    assert only(findings(nodes.primary, quorum=False)).key == "synchronous_commit"
    finding = only(findings(nodes.primary))
    assert finding.problem.endswith("before it is on any disk")
    run_suggestion(finding, nodes)
    assert findings(nodes.primary) == []


@pytest.mark.parametrize("level", ["local", "remote_write"])
def test_a_commit_that_waits_for_one_disk_is_enough_for_one_server(
    nodes: Nodes, level: str
) -> None:
    options = f"options=-csynchronous_commit%3D{level}"
    finding = only(findings(nodes.primary, options=options))
    assert finding.problem.endswith("before a replica has it on disk")
    assert "[database] url" in finding.hint
    assert findings(nodes.primary, quorum=False, options=options) == []


def test_a_commit_that_waits_for_more_is_no_problem(nodes: Nodes) -> None:
    options = "options=-csynchronous_commit%3Dremote_apply"
    assert findings(nodes.primary, options=options) == []


def test_the_configuration_of_the_server_is_named(nodes: Nodes) -> None:
    configure(nodes, synchronous_commit="local")
    assert "the server's configuration" in only(findings(nodes.primary)).hint


def test_a_session_that_another_program_changed_is_found(nodes: Nodes) -> None:
    connection = Connection(nodes.url)
    connection.execute("SET synchronous_commit = off")
    finding = only(list(durability.findings(connection, quorum=True)))
    assert "pool of its own" in finding.hint
    connection.close()


def test_a_primary_that_waits_for_no_replica_is_found(nodes: Nodes) -> None:
    configure(nodes, synchronous_standby_names="")
    assert only(findings(nodes.primary)).key == "synchronous_standby_names"
    assert findings(nodes.primary, quorum=False) == []


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_a_power_loss_damages_is_found(
    nodes: Nodes, setting: str
) -> None:
    configure(nodes, **{setting: "off"})
    assert only(findings(nodes.primary)).key == setting
    assert only(findings(nodes.primary, quorum=False)).key == setting


@pytest.mark.parametrize("names", ["b", "*", "FIRST 1 (b, c)", "any 2 (b, c)"])
def test_enough_replicas_are_found_however_they_are_named(
    nodes: Nodes, names: str
) -> None:
    configure(nodes, synchronous_standby_names=names)
    await_no_problem(nodes)


@pytest.mark.parametrize("names", ["3 (b, c, x)", "any 3(b, c, x)"])
def test_too_few_replicas_are_found_however_they_are_named(
    nodes: Nodes, names: str
) -> None:
    configure(nodes, synchronous_standby_names=names)
    await_problem(nodes, "2 of the 3 replicas")


def test_missing_replicas_are_counted(nodes: Nodes) -> None:
    one, other = nodes.standbys
    one.stop()
    assert findings(nodes.primary) == []
    configure(nodes, synchronous_standby_names="b")
    await_problem(nodes, "0 of the 1 replicas")  # the other replica need not confirm
    configure(nodes, synchronous_standby_names="ANY 2 (b, c)")
    await_problem(nodes, "1 of the 2 replicas")
    other.stop()
    await_problem(nodes, "0 of the 2 replicas")
    for server in (one, other):
        nodes.back(server)
    await_no_problem(nodes)


def test_a_replica_is_not_mistaken_for_a_primary(nodes: Nodes) -> None:
    finding = only(findings(nodes.standbys[0], quorum=False))
    assert "target_session_attrs=read-write" in finding.hint


def test_doctor_refuses_for_a_quorum_and_warns_otherwise(nodes: Nodes) -> None:
    def states_and_fixes(*, quorum: bool) -> list[tuple[State, str]]:
        found = storage.check_database(nodes.url, quorum=quorum)
        return [(each.state, each.fix) for each in found if each.check == "durability"]

    assert states_and_fixes(quorum=True) == [(State.OK, "")]
    assert states_and_fixes(quorum=False) == [(State.OK, "")]
    configure(nodes, fsync="off", synchronous_standby_names="")
    assert [state for state, _ in states_and_fixes(quorum=True)] == [
        State.FAIL,
        State.FAIL,
    ]
    assert [state for state, _ in states_and_fixes(quorum=False)] == [State.WARN]
    assert "fsync = on" in states_and_fixes(quorum=False)[0][1]


@pytest.mark.parametrize(
    ("promise", "state"), [("quorum", State.FAIL), ("single", State.WARN)]
)
async def test_doctor_checks_the_promises_of_the_settings(
    nodes: Nodes, tmp_path: Path, promise: str, state: State
) -> None:
    configure(nodes, synchronous_commit="off")
    settings = Settings.model_validate(
        {
            "state_dir": tmp_path,
            "database": {"url": nodes.url},
            "cluster": {"durability": promise},
            "stores": {"main": {"base_url": "http://127.0.0.1:9", "api_key": "k" * 40}},
        }
    )
    examined = examine(settings, None, {}, SystemClock())
    found = [each.state async for each in examined if each.check == "durability"]
    assert found == [state]
