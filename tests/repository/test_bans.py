"""Names that only a few modules may use are used there only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from repository.bans import leaky_comparisons, stores_jobs, trusts_anybody, uses
from repository.tree import SOURCE_ROOTS, python_files, read

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOCKS = {
    "connectors/backhaul_sdk/clock.py",
    "daemon/backhaul/core/clock.py",
    "daemon/backhaul_reference/platform/clock.py",
}
# What is banned, and its home, at most one in each package.
BANS: dict[str, set[str]] = {
    r"asyncio\.(create_task|ensure_future)": {
        "daemon/backhaul_reference/platform/clock.py",
        "daemon/backhaul/admin/live.py",
    },
    r"datetime\.datetime\.(now|utcnow|today)|datetime\.date\.today": CLOCKS,
    r"time\.(time|time_ns)": CLOCKS,
    r"time\.sleep": CLOCKS,
    r"random\.[a-z]\w*": set(),
    r"(builtins\.)?(print|eval|exec)": set(),
    r"(pickle|marshal|shelve|dill)(\..*)?": set(),
    r"yaml\.(load|load_all|unsafe_load)": set(),
    r"apscheduler\.jobstores(\..*)?": set(),  # those that outlive a start unpickle
}


def banned_uses() -> Iterator[tuple[str, int, str]]:
    """Yield every use of a banned name in our own source: path, line, name."""
    banned = re.compile("|".join(BANS))
    for path in python_files(*SOURCE_ROOTS):
        for line, name in uses(read(path)):
            if banned.fullmatch(name):
                yield str(path), line, name


def test_a_banned_name_is_used_in_its_own_module_only() -> None:
    found = [
        f"{path}:{line}: {name}"
        for path, line, name in banned_uses()
        for banned in BANS
        if path not in BANS[banned] and re.fullmatch(banned, name)
    ]
    assert found == []


@pytest.mark.parametrize("banned", BANS)
def test_a_package_has_one_home_at_most(banned: str) -> None:
    packages = [home.split("/")[1] for home in BANS[banned]]
    assert len(packages) == len(set(packages))


def test_digests_and_signatures_are_compared_in_constant_time() -> None:
    found = [
        f"{path}:{line}"
        for path in python_files(*SOURCE_ROOTS)
        for line in leaky_comparisons(read(path))
    ]
    assert found == []


def test_no_ssh_server_is_trusted_unseen() -> None:
    found = [
        f"{path}:{line}"
        for path in python_files(*SOURCE_ROOTS)
        for line in trusts_anybody(read(path))
    ]
    assert found == []


def test_no_scheduler_is_given_a_store_of_jobs() -> None:
    """A store can be had by its name alone, and all but the memory's unpickle."""
    found = [
        f"{path}:{line}"
        for path in python_files(*SOURCE_ROOTS)
        for line in stores_jobs(read(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("scheduler.add_jobstore('sqlalchemy', url='sqlite:///x')", True),
        ("AsyncIOScheduler(jobstores={'default': {'type': 'sqlalchemy'}})", True),
        ("scheduler.add_job(work, jobstore='default')", False),
    ],
)
def test_a_store_of_jobs_is_found_however_it_is_given(source: str, found: bool) -> None:
    assert bool(list(stores_jobs(source))) is found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("asyncssh.connect(host, known_hosts=None)", True),
        ("asyncssh.connect(host, known_hosts=b'')", True),
        ('options = {"known_hosts": None}', True),
        ("asyncssh.connect(host, known_hosts=([], [], []))", False),
        ('options = {"known_hosts": trusted, **more}', False),
    ],
)
def test_disabled_certificate_checks_are_found_in_any_spelling(
    source: str, found: bool
) -> None:
    assert bool(list(trusts_anybody(source))) is found


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import time\ntime.sleep(1)", "time.sleep"),
        ("import time as t\nt.sleep(1)", "time.sleep"),
        ("from time import sleep\nwait = sleep", "time.sleep"),
        ("from time import sleep", "time.sleep"),
        ("def f():\n    from time import sleep as s\n    s(1)", "time.sleep"),
        ("from datetime import datetime\ndatetime.now()", "datetime.datetime.now"),
        ("import datetime as dt\nfield(dt.datetime.now)", "datetime.datetime.now"),
        ("import xml.sax\nxml.sax.parse(x)", "xml.sax.parse"),
        ("print(1)", "print"),
        ("list(map(print, x))", "print"),
        ("import pickle", "pickle"),
        ("from pickle import loads", "pickle.loads"),
    ],
)
def test_a_use_is_found_however_it_is_written(source: str, name: str) -> None:
    assert name in [found for _, found in uses(source)]


@pytest.mark.parametrize(
    "source",
    ["console.print(1)", "async with group as g:\n    g.create_task(x)", "clock.now()"],
)
def test_a_method_of_the_same_name_is_no_use(source: str) -> None:
    banned = "|".join(BANS)
    assert [name for _, name in uses(source) if re.fullmatch(banned, name)] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("given == expected_signature", True),
        ("mac.hexdigest() != given", True),
        ("self.signature == other", True),
        ("sign.hmac_of(body) == given", True),
        ("sign(body).digest() == given", True),
        ("len(digest) == size", False),
        ("signature == ''", False),
        ("held.digest == incoming.digest", False),
        ("state == State.bad_signature", False),
        ("hmac.compare_digest(a, b)", False),
    ],
)
def test_a_leaky_comparison_is_distinguished_from_others(
    source: str, found: bool
) -> None:
    assert bool(list(leaky_comparisons(source))) is found
