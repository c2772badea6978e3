"""Garbage collection is fast, because it blocks all requests."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scenes.loop_guard import on_purpose
from scenes.reference_process import ask
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FEW = 20_000
"""A full collection looks through so many objects within two milliseconds."""
PROGRAM = """
import gc, sys
from aiohttp import web
from backhaul_reference.__main__ import main

@web.middleware
async def count(request, handler):
    answer = await handler(request)
    gc.collect()
    answer.headers["Objects"] = str(len(gc.get_objects()))
    return answer

sys.exit(main([count]))
"""


def test_a_full_collection_scans_few_objects(tmp_path: Path) -> None:
    with counting(tmp_path) as url:
        answer = ask("GET", f"{url}/storefront/store", {"x-subdomain": "demo"})
    assert answer.status == 200
    assert int(answer.headers["Objects"]) < FEW


@contextmanager
def counting(folder: Path) -> Iterator[str]:
    """The server as it ships; its answers tell how many objects are looked through."""
    ports = ("--port", "0", "--control-port", "0")
    command = [sys.executable, "-c", PROGRAM, "--data", str(folder), *ports]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield first_word(process)
        finally:
            process.terminate()
            assert process.wait(HANG_SECONDS) == 0


@on_purpose()
def first_word(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    lines = [process.stdout.readline(), process.stdout.readline()]
    return lines[0].split()[1]
