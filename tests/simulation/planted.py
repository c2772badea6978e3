"""Plants bugs one by one, each into a process of its own: each must be caught.

What no world and no test notices would not be noticed either if somebody made that
mistake. Nothing on the disk is changed: the one module is compiled from its planted
source when it is imported.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import redirect_stdout
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simulation.bugs import BUGS, NO_BUG, Bug

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

ROOT = Path(__file__).parents[2]
OURS = ("backhaul", "simulation", "scenes")
SEEDS = range(1, 41)
CONTROL_SEEDS = range(1, 9)
"""The worlds of a bug; the first that notices it is the last that is run."""
PATIENCE_SECONDS = 300.0
"""No longer is waited for what a bug keeps from coming: others come within a minute."""
PYTEST = ("-x", "-q", "-p", "no:cacheprovider")
PLUGINS = ("-p", "pytest_asyncio.plugin", "-p", "pytest_timeout")


class PlantedLoader(SourceFileLoader):
    """Compiles a module from its source with the bug."""

    def __init__(self, name: str, path: str, bug: Bug) -> None:
        super().__init__(name, path)
        self._bug = bug

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text()
        return compile(self._bug.planted_in(source), self.path, "exec")


class Planter(MetaPathFinder):
    """Finds the module of one bug before anybody else does."""

    def __init__(self, bug: Bug) -> None:
        self._bug = bug

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != self._bug.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = PlantedLoader(fullname, spec.origin, self._bug)
        return spec


def hunt(workers: int) -> list[str]:
    """Plant every bug; return what is to be said of those that nothing caught."""
    with get_context("fork").Pool(workers, maxtasksperchild=1) as pool:
        control = pool.apply_async(_see_through)
        missed = [said for said in pool.imap_unordered(miss, range(len(BUGS))) if said]
        return (
            missed if control.get() else [*missed, f"{NO_BUG.name}, yet it is caught"]
        )


def _see_through() -> bool:
    """Tell whether nothing is caught where nothing is planted."""
    _plant(NO_BUG)
    return not _shows(CONTROL_SEEDS)


def miss(number: int) -> str:
    """Plant a bug into this process; return what to say where nobody notices."""
    bug = BUGS[number]
    _plant(bug)
    caught = _fails(bug.test) if bug.test else _shows(SEEDS)
    planted = hasattr(sys.modules.get(bug.module), "__file__")
    return "" if caught and planted else f"nobody notices that {bug.name}"


def _plant(bug: Bug) -> None:
    """Forget what is imported of ours; what is imported anew has the bug."""
    for name in [name for name in sys.modules if name.startswith(OURS)]:
        del sys.modules[name]
    sys.meta_path.insert(0, Planter(bug))


def _fails(test: str) -> bool:
    """Tell whether the test fails; one that cannot even be run does not."""
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with redirect_stdout(StringIO()):
        code = pytest.main([*PYTEST, *PLUGINS, test])
    return code is pytest.ExitCode.TESTS_FAILED


def _shows(seeds: range) -> bool:
    """Tell whether one of the worlds is not as it should be in the end."""
    from loguru import logger

    from simulation.seeds import Template, simulate

    gc.disable()
    logger.remove()
    template = Template()
    try:
        return any(
            simulate(seed, template, PATIENCE_SECONDS).findings for seed in seeds
        )
    finally:
        template.remove()
