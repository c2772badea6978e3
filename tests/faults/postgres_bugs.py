"""Mistakes that break what a cluster promises, each with the test that must fail.

Nothing on the disk is changed: each process of the test, the daemons that it starts as
well, compiles the one module from its planted source.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from simulation.bugs import Bug
from simulation.planted import Planter

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "PLANTED_BUG"
SITE = "from faults.postgres_bugs import plant\nplant()\n"
"""The module `sitecustomize` of a process with a bug, which Python imports first."""
_STORE = "daemon/backhaul/store/postgres"
_OWNERSHIP = "tests/store/test_postgres_ownership.py"
_TAKEOVERS = (
    "tests/faults/test_cluster_takeovers.py"
    "::test_a_command_of_the_former_owner_is_looked_up_and_not_sent_again"
)
BUGS = (
    Bug(
        "no fence",
        f"{_STORE}/fence.py",
        "        if row is None:\n            self.lease.end()\n",
        "        if row is None:\n"
        "            row = (self._confirmed + 1,)\n"
        "        if False:\n"
        "            self.lease.end()\n",
        f"{_OWNERSHIP}::test_a_fenced_member_can_no_longer_write",
    ),
    Bug(
        "no send deadline",
        f"{_STORE}/fence.py",
        "return now < self._trusted_until and now - claimed_at < SEND_BY_SECONDS",
        "return now < self._trusted_until",
        f"{_OWNERSHIP}::test_a_command_that_was_claimed_long_ago_is_not_sent",
    ),
    Bug(
        "an owner sends after others may have taken over",
        f"{_STORE}/fence.py",
        "return now < self._trusted_until and now - claimed_at < SEND_BY_SECONDS",
        "return now - claimed_at < SEND_BY_SECONDS",
        f"{_OWNERSHIP}::test_the_right_to_send_ends_before_another_can_take_over",
    ),
    Bug(
        "one cursor over serial ids",
        f"{_STORE}/streams.py",
        "        seen = self._seen.get(stream, 0)\n",
        "        seen = max(self._seen.values(), default=0)\n",
        "tests/store/test_postgres_members.py"
        "::test_an_event_that_becomes_visible_late_is_folded",
    ),
    Bug(
        "a new owner passes over what waited in a stream that has grown",
        f"{_STORE}/streams.py",
        "        known = stores & self._stores\n",
        "        known = stores\n",
        "tests/store/test_postgres_members.py"
        "::test_waiting_events_of_a_store_are_folded_though_its_stream_has_grown",
    ),
    Bug(
        "owners in an unlogged table",
        f"{_STORE}/fence.py",
        "    CREATE TABLE owners (\n",
        "    CREATE UNLOGGED TABLE owners (\n",
        f"{_OWNERSHIP}::test_the_rows_of_the_members_survive_a_crash_of_the_server",
    ),
    Bug(
        "asynchronous commits",
        f"{_STORE}/connection.py",
        '            f"SET LOCAL lock_timeout = {lock_milliseconds}",\n',
        '            f"SET LOCAL lock_timeout = {lock_milliseconds}",\n'
        '            "SET LOCAL synchronous_commit = local",\n',
        "tests/faults/test_postgres_failovers.py"
        "::test_no_write_is_confirmed_that_only_the_primary_has",
    ),
    Bug(
        "a decision is kept over a takeover",
        "daemon/backhaul/store/sql/commands/repository.py",
        "                apply_transition(connection, command, transition, now)\n"
        "                marked.append(command.id)\n",
        "                connection.execute(\n"
        "                    \"UPDATE commands SET state = 'planned', attempts = 0\"\n"
        "                    \" WHERE state = 'sending'\"\n"
        "                )\n"
        "                marked.append(command.id)\n",
        f"{_TAKEOVERS}[killed-blind]",
    ),
)


def plant() -> None:
    """Plant the bug that the environment names into this process."""
    sys.meta_path[:0] = [Planter(bug) for bug in _named(os.environ.get(VARIABLE, ""))]


def _named(name: str) -> Iterator[Bug]:
    yield from (bug for bug in BUGS if bug.name == name)
