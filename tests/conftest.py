"""What holds for every test: logs are kept, loops are not blocked, secrets stay in."""

from __future__ import annotations

import contextlib
import gc
import inspect
import itertools
import logging
import os
import shutil
import signal
import sysconfig
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, settings
from loguru import logger

from scenes import leftovers, postgres_text, tracking_tokens
from scenes.loop_guard import LoopGuard, on_purpose
from scenes.postgres_databases import PostgresDatabases, postgres_databases
from scenes.recorded_exchanges import EXCHANGE_FILES
from scenes.requirements import everything_is_required

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator
    from typing import TextIO

    from backhaul.store import Place
    from scenes.databases import NewDatabase
    from scenes.recorded_exchanges import Exchange

# Before anything imports it: lets failures in the shared contract tests show the values
# that differ.
pytest.register_assert_rewrite("backhaul_sdk.testing", "backhaul.store.testing")

LEAKS: pytest.StashKey[list[str]] = pytest.StashKey()
TOLD: pytest.StashKey[list[str]] = pytest.StashKey()
FAULTS: pytest.StashKey[list[str]] = pytest.StashKey()
STATEMENTS = postgres_text.Recorder()
LAST = "zz_secrets"
LENGTHY = tuple(
    f"tests/{name}"
    for name in (
        "connectors/",
        "sdk/",
        "testing/test_plugin",
        "app/test_conflict_refetch",
        "cli/test_completion",
        "dashboard/",
        "cli/test_doctor",
        "cli/test_events_and_quarantine",
        "cli/test_reconcile",
        "cli/test_reprocess",
        "cli/test_run",
        "cli/test_secrets",
        "cli/test_traffic",
        "sync/test_lost_webhooks",
        "reference_dashboard/test_browser",
        "reference/test_fixtures",
        "reference/test_process",
        "observe/test_metrics",
        "faults/test_out_of_order",
        "simulation/",
        "cli/test_support_bundle",
        "cli/test_stock_targets",
        "push/test_stock_targets",
    )
)
"""Quick one by one, and minutes together: they go with the programs."""
SELDOM = (
    "test_browser.py::test_every_page_fits_and_names_its_controls[900]",
    "test_fixtures.py::test_the_large_fixture_is_loaded_whole",
    "test_process.py::test_kill_under_load_loses_nothing[calm]",
    "test_simulation.py::test_nothing_is_lost_or_doubled_in_a_few_worlds",
    "test_tryton.py::TestWriting::test_cancellation_anywhere",
    "test_n8n.py::test_each_order_is_fulfilled_once",
    "test_tryton_erp.py::test_an_order_is_one_sale_though_both_are_killed",
    "test_file_drop_azure.py::",
)
"""Long, and much like others that run each time, or large to install: only `make
faults` has them."""
PART = os.environ.get("PROGRAMS_PART", "")
ENGINES = (
    "sqlite",
    pytest.param("postgres", marks=(pytest.mark.programs, pytest.mark.postgres)),
)
"""What a test that asks for a `database` runs on."""
# A machine that stands still for a moment says nothing of a test.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
# The logger asks for the library's folders at each sink, which took a tenth of a run.
sysconfig.get_path = cast("Any", cache(sysconfig.get_path))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--prepare-on-postgres",
        action="store_true",
        help="prepare every statement that the store ran on a real PostgreSQL",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The process that was started first makes the folder; workers inherit it."""
    if not hasattr(config, "workerinput"):
        leftovers.begin()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts background jobs so, and every program of a test inherits it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--prepare-on-postgres"):
        STATEMENTS.install()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Leave thousands of tests out of every look for garbage: each took a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    items.sort(key=lambda item: LAST in item.nodeid)
    for item in items:
        if item.nodeid.startswith(LENGTHY):
            item.add_marker(pytest.mark.programs)
        if any(name in item.nodeid for name in SELDOM):
            item.add_marker(pytest.mark.faults)
            item.add_marker(pytest.mark.long)
    if PART:
        _keep_part(config, items)


def _keep_part(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the files with programs keep one part: the second of three for `2/3`.

    The parts have about as many tests each; a file is not divided.
    """
    number, _, parts = PART.partition("/")
    started = [item for item in items if item.get_closest_marker("programs")]
    tests = Counter(item.path for item in started)
    sizes, kept = [0] * int(parts), set[Path]()
    for file in sorted(tests, key=lambda path: (-tests[path], path)):
        smallest = sizes.index(min(sizes))
        sizes[smallest] += tests[file]
        if smallest == int(number) - 1:
            kept.add(file)
    others = {id(item) for item in started if item.path not in kept}
    config.hook.pytest_deselected(items=[i for i in items if id(i) in others])
    items[:] = [item for item in items if id(item) not in others]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[
    None, pytest.TestReport, pytest.TestReport
]:
    """Where everything is required a skip is a failure."""
    report = yield
    if report.skipped and everything_is_required():
        report.outcome = "failed"
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With all workers gone, look through every log of the run."""
    recorded = session.config.getoption("--prepare-on-postgres")
    if recorded:
        STATEMENTS.keep()
    if hasattr(session.config, "workerinput"):
        return
    session.config.stash[TOLD] = _told()
    session.config.stash[FAULTS] = postgres_text.faults() if recorded else []
    session.config.stash[LEAKS] = _leaks_at_the_end()
    found = session.config.stash[LEAKS] or session.config.stash[FAULTS]
    if found and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure() -> None:
    if _log_file.cache_info().currsize:
        _log_file().close()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if told := config.stash.get(TOLD, []):
        terminalreporter.section("what was tried")
        terminalreporter.write_line("\n".join(told))
    if faults := config.stash.get(FAULTS, []):
        terminalreporter.section("statements that PostgreSQL refuses", red=True)
        terminalreporter.write_line("\n".join(faults))
    found = config.stash.get(LEAKS, [])
    if found:
        terminalreporter.section("secrets in logs", red=True)
        terminalreporter.write_line("\n".join(found[:20]))
        terminalreporter.write_line(f"logs: {os.environ[leftovers.VARIABLE]}")


def _told() -> list[str]:
    return leftovers.all_reports()


def _leaks_at_the_end() -> list[str]:
    found = leftovers.leaks()
    if not found:
        shutil.rmtree(os.environ[leftovers.VARIABLE], ignore_errors=True)
    return found


@cache
def _log_file() -> TextIO:
    return leftovers.new_log("tests").open("a", encoding="utf-8", buffering=1)


@pytest.fixture(autouse=True)
def _log_is_kept() -> Iterator[None]:
    """Write everything at TRACE, as it is: nothing here takes secrets out."""
    sink = logger.add(
        _log_file(), level="TRACE", format="{message} {extra}", diagnose=False
    )
    root, handler = logging.getLogger(), logging.StreamHandler(_log_file())
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield
    root.removeHandler(handler)
    root.setLevel(level)
    with contextlib.suppress(ValueError):
        logger.remove(sink)


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What a person reads: the action of each line of the log, and its message."""
    found: list[str] = []
    sink = logger.add(found.append, level="INFO", format="{extra[action]} {message}")
    yield found
    logger.remove(sink)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """Search what a test leaves behind, a pair's books and logs too, before it goes."""
    yield tmp_path
    with on_purpose():
        tracking_tokens.check_servers(tmp_path)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresDatabases]:
    """Start one server for each process that runs tests."""
    with postgres_databases() as made:
        yield made


@pytest.fixture(params=ENGINES)
def new_database(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[NewDatabase]:
    """Return where another empty database of the test's engine is, at each call."""
    with contextlib.ExitStack() as lent:
        if request.param == "postgres":
            server: PostgresDatabases = request.getfixturevalue("postgres_server")
            yield lambda: lent.enter_context(server.lent())
        else:
            numbers = itertools.count(1)
            yield lambda: tmp_path / f"database_{next(numbers)}" / "backhaul.db"


@pytest.fixture
def database(new_database: NewDatabase) -> Place:
    """Return where the test's database is: a new path or the URL of an empty one."""
    return new_database()


@pytest.fixture(autouse=True)
def _answers_are_described() -> Iterator[None]:
    """Fail a test to which a reference server said what its document does not say."""
    yield
    with on_purpose():
        found = [
            flaw
            for exchange in EXCHANGE_FILES.read_new()
            for flaw in _flaws_of(exchange)
        ]
    if found:
        lines = [f"{len(found)} flaws in what the reference server answered", *found]
        pytest.fail("\n".join(lines[:20]), pytrace=False)


def _flaws_of(exchange: Exchange) -> Iterator[str]:
    # Five seconds to import, in every process, and most have no need of it.
    from scenes.openapi_checks import flaws_of

    return flaws_of(exchange)


@pytest.fixture(autouse=True)
def _loop_is_free(request: pytest.FixtureRequest) -> None:
    """Fail an asynchronous test that keeps its event loop from running."""
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("_guarded_loop")


@pytest.fixture
async def _guarded_loop(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    guard = LoopGuard()
    yield
    guard.stop()
    if flaw := guard.flaw():
        pytest.fail(flaw, pytrace=False)
