"""Runs the fuzzer against a running server and reads what it found."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reference_openapi.hooks import STORE_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scenes.reference_shop import Shop

HERE = Path(__file__).parent
CONFIG = HERE / "schemathesis.toml"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, with all that it printed."""

    code: int
    text: str


async def fuzz(shop: Shop, folder: Path, phases: str, *more: str) -> Outcome:
    """Run the phases over the whole document as the server serves it."""
    access = shop.running.access
    arguments = ["--config-file", str(CONFIG), "run"]
    arguments += [f"{access.public_url}/openapi.json", "--phases", phases, *more]
    arguments += ["-H", f"Authorization: Bearer {access.api_key}"]
    return await _run(arguments, folder, {STORE_ID: access.store_id})


async def _run(
    arguments: Sequence[str], folder: Path, environment: dict[str, str]
) -> Outcome:
    paths = os.pathsep.join((str(HERE.parent), os.environ.get("PYTHONPATH", "")))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "schemathesis.cli",
        "--no-color",
        *arguments,
        cwd=folder,
        env={**os.environ, **environment, "PYTHONPATH": paths},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    return Outcome(process.returncode or 0, printed.decode())
