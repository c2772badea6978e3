"""The tuning of garbage collection and of threads for a long-running process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from backhaul.app.process_tuning import start_threads

if TYPE_CHECKING:
    import pytest

PROGRAM = """
import gc, weakref
from backhaul.app import process_tuning

class Knot:
    def __init__(self):
        self.itself = self

usual, known = gc.get_threshold(), len(gc.get_objects())
process_tuning.collect_less_often()
frozen = gc.get_freeze_count()
dropped = [weakref.ref(Knot()) for _ in range(usual[0])]
kept = [[] for _ in range(usual[0])]
early = sum(one() is None for one in dropped)
kept += [[] for _ in range(process_tuning.YOUNG_OBJECTS)]
late = sum(one() is None for one in dropped)
print(frozen >= known // 2, early, late == len(dropped))
"""

LOADING = """
import gc, sys
looks = []
gc.callbacks.append(lambda phase, _: looks.append(phase))
from backhaul.__main__ import main
sys.argv = ["backhaul", "--version"]
try:
    main()
except SystemExit:
    print(len(looks) // 2)
"""

FAILING = """
import gc
from backhaul.app import process_tuning
try:
    with process_tuning.paused():
        before, many = gc.get_stats(), 5 * process_tuning.YOUNG_OBJECTS
        kept = [[] for _ in range(many)]
        print(gc.get_stats() == before)
        import backhaul.nothing_of_the_kind
except ImportError:
    print(gc.isenabled(), gc.get_threshold()[0] == process_tuning.YOUNG_OBJECTS)
"""


def test_garbage_waits_for_many_objects_but_not_for_ever() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("True 0 True\n", "")


def test_garbage_is_rarely_collected_while_modules_are_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADING], capture_output=True, text=True, check=True
    )
    assert int(done.stdout.split()[-1]) < 30


def test_garbage_is_collected_again_after_the_loading_or_its_failure() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAILING], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("True\nTrue True\n", "")


async def test_work_beside_the_loop_starts_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = start_threads(asyncio.get_running_loop())
    started: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", started.append)
    work = (asyncio.to_thread(time.sleep, 0.001) for _ in range(200))
    await asyncio.gather(*work)
    assert started == []
    threads.shutdown()
