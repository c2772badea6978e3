"""A million rows need less than 200 MB, including the program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.million_rows import FILES, TABLES

pytestmark = [
    pytest.mark.faults,
    pytest.mark.long,
    pytest.mark.timeout(1_800),
]

ROWS = 1_000_000
MOST_MEGABYTES = 200
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", [*FILES, *TABLES])
def test_a_million_rows_need_little_memory(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "faults.million_rows", str(tmp_path), kind]
    found = subprocess.run(
        [*command, str(ROWS)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    taken, megabytes = map(int, found.stdout.split())
    with capsys.disabled():
        sys.stdout.write(f" {kind}: {megabytes} MB ")
    assert taken == ROWS
    assert megabytes < MOST_MEGABYTES
