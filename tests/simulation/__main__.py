"""`make simulate`: many seeds, each a world of its own; one that fails tells itself.

SEED=n runs one seed and shows its trace, SEEDS=n so many of them (1,000, or 100,000
with FAULTS=long), FIRST=n begins elsewhere than at 1, COUNTS=yes or no lets stock be
counted in all of them or none, else in every second. Behind them bugs are planted.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from multiprocessing import get_context
from typing import TYPE_CHECKING

from loguru import logger

from simulation.bugs import BUGS
from simulation.planted import hunt
from simulation.seeds import Template, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulation.world import Report

LONG = os.environ.get("FAULTS") == "long"
SEEDS = int(os.environ.get("SEEDS") or (100_000 if LONG else 1_000))
SECONDS = float(os.environ.get("SECONDS") or ("inf" if LONG else 200))
"""When a machine that is too slow for all seeds goes on to the planted bugs."""
FIRST = int(os.environ.get("FIRST") or 1)
WORKERS = int(os.environ.get("WORKERS") or 2)
STOP = "STOP" in os.environ
"""Whether to be content with the first seed that fails."""
PLANTED = os.environ.get("PLANTED", "yes") == "yes"
SEEDS_A_PROCESS = 5 if STOP else 20
"""The dead are kept until their process ends, so none lives for long."""
SHOWN = 10


def run(template: Template, seeds: range, workers: int) -> Iterator[Report]:
    """Run seeds in processes that are replaced every few of them."""
    context = get_context("fork")
    with context.Pool(workers, initializer=_begin, maxtasksperchild=1) as pool:
        firsts = range(seeds.start, seeds.stop, SEEDS_A_PROCESS)
        parts = [
            (template, range(first, min(first + SEEDS_A_PROCESS, seeds.stop)))
            for first in firsts
        ]
        for reports in pool.imap_unordered(_run_part, parts):
            yield from reports


def _begin() -> None:
    # The dead are kept anyway, and to look through them again and again takes long.
    gc.disable()
    logger.remove()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _run_part(part: tuple[Template, range]) -> list[Report]:
    template, seeds = part
    return [_without_trace(simulate(seed, template)) for seed in seeds]


def _without_trace(report: Report) -> Report:
    report.trace.clear()
    return report


def run_one(template: Template, seed: int) -> int:
    """Run a seed and show all that happened in it."""
    _begin()
    report = simulate(seed, template)
    _say(*report.trace, *report.findings, f"seed {seed}: trace {report.digest}")
    return bool(report.findings)


def run_many(template: Template) -> int:
    """Run all seeds; tell of those that failed."""
    began, failed, parked, lives, commands, done = time.monotonic(), [], 0, 0, 0, 0
    for report in run(template, range(FIRST, FIRST + SEEDS), WORKERS):
        done += 1
        parked += report.parked
        lives += report.lives
        commands += report.commands
        if report.findings:
            failed.append(report)
            _say(f"make simulate SEED={report.seed}:", *report.findings[:SHOWN])
        if (failed and STOP) or time.monotonic() - began > SECONDS:
            break
    bound = "" if failed else f", below {3 / done:.3%} at 95 %"
    if done < SEEDS and not failed:
        _say(f"slow: {done} of {SEEDS} seeds in {SECONDS:.0f} s")
    _say(
        f"{len(failed)}/{done} seeds failed{bound}; {commands} commands,"
        f" {lives - done} deaths, {parked} parked,"
        f" {time.monotonic() - began:.0f} s"
    )
    return bool(failed)


def plant() -> int:
    """Plant the bugs; tell of those that nothing caught."""
    began, missed = time.monotonic(), hunt(WORKERS)
    caught = f"{len(BUGS) - len(missed)}/{len(BUGS)} planted bugs caught"
    _say(*missed, f"{caught}, {time.monotonic() - began:.0f} s")
    return bool(missed)


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def main() -> int:
    template = Template()
    try:
        if seed := os.environ.get("SEED"):
            return run_one(template, int(seed))
        failed = run_many(template)
    finally:
        template.remove()
    return failed or (PLANTED and plant())


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # In which order a set of names is gone through is chance as well.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "simulation"])  # noqa: S606
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the dead are not taken apart
