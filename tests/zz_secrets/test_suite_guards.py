"""The guards of the test suite can fail every test."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from repository.tree import ROOT
from scenes import requirements
from scenes.clock import run_ready_tasks
from scenes.loop_guard import LoopGuard, on_purpose
from scenes.waiting import await_true, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


LEAKING = """
from scenes import leftovers as session

def pytest_runtest_teardown():
    session.issued("a-secret-of-this-test")
    session.new_log("planted").write_text("it is a-secret-of-this-test")
"""


def test_a_secret_in_a_log_fails_a_run_whose_tests_pass(tmp_path: Path) -> None:
    (tmp_path / "leaking.py").write_text(LEAKING)
    pytest_ = [sys.executable, "-m", "pytest", "-p", "leaking"]
    leaked = subprocess.run(
        [*pytest_, "tests/core/test_circuit.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert leaked.returncode == pytest.ExitCode.TESTS_FAILED
    assert "it is <the secret>" in leaked.stdout


def burn(seconds: float) -> None:
    """Use this thread's processor for so long, however long the machine takes."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def test_a_loop_that_computes_for_long_is_noticed() -> None:
    guard = LoopGuard(limit_seconds=0.2)
    await run_ready_tasks()
    burn(0.3)
    guard.stop()
    assert "processor time" in (guard.flaw() or "")


def sleep() -> None:
    time.sleep(0)


def wait_for_a_program() -> None:
    subprocess.run(["true"], check=True)


def wait_for_a_thread() -> None:
    with ThreadPoolExecutor() as pool:
        pool.submit(burn, 0.05).result()


@pytest.mark.parametrize("call", [sleep, wait_for_a_program, wait_for_a_thread])
async def test_a_call_that_waits_is_noticed(call: Callable[[], None]) -> None:
    guard = LoopGuard(blamed=("tests",))
    call()
    guard.stop()
    assert "calls that wait" in (guard.flaw() or "")


@pytest.mark.parametrize("call", [sleep, wait_for_a_program, wait_for_a_thread])
async def test_a_call_in_another_thread_blocks_no_loop(
    call: Callable[[], None],
) -> None:
    guard = LoopGuard(blamed=("tests",))
    await asyncio.to_thread(call)
    guard.stop()
    assert guard.flaw() is None


async def test_a_test_that_waits_on_purpose_is_excused() -> None:
    guard = LoopGuard(blamed=("tests",), limit_seconds=0.2)
    await run_ready_tasks()
    with on_purpose():
        burn(0.3)
        wait_for_a_program()
    guard.stop()
    assert guard.flaw() is None


async def test_a_search_for_garbage_is_excused() -> None:
    guard = LoopGuard()
    await run_ready_tasks()
    end = time.thread_time() + 0.4
    while time.thread_time() < end:
        gc.collect()
    guard.stop()
    assert guard.longest_seconds < 0.2


async def test_a_loop_that_waits_is_not_blocked() -> None:
    guard = LoopGuard()
    loops: list[int] = []

    def look() -> bool:
        loops.append(1)
        return len(loops) > 20

    await until(look, "twenty looks")
    guard.stop()
    assert guard.flaw() is None


async def test_a_condition_that_never_holds_fails_by_its_name() -> None:
    with pytest.raises(AssertionError, match=r"not within 0\.05 s: a miracle"):
        await until(lambda: False, "a miracle", 0.05)


def test_so_it_does_without_a_loop() -> None:
    with pytest.raises(AssertionError, match=r"not within 0\.05 s: a miracle"):
        await_true(lambda: 0, "a miracle", 0.05)


def outcome_of(action: Callable[[], object]) -> str:
    try:
        return str(action())
    except (pytest.skip.Exception, pytest.fail.Exception) as outcome:
        return f"{type(outcome).__name__}: {outcome.msg}"


def test_a_missing_tool_skips_or_fails_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(requirements.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    missing = "openssl is missing: apt-get install openssl"
    assert outcome_of(lambda: requirements.require("openssl")) == f"Skipped: {missing}"
    monkeypatch.setenv(requirements.VARIABLE, "all")
    found = outcome_of(lambda: requirements.require("openssl"))
    assert found == f"Failed: {missing} (TEST_REQUIRE=all)"
