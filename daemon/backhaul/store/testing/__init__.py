"""Conformance tests for an engine of the store; terms: docs/glossary.md.

They use a store by its protocols only. The test file of an engine provides the fixture
`make_store`, and takes every class of tests:

    @pytest.fixture
    def make_store(tmp_path: Path) -> MakeStore:
        return partial(open_store, tmp_path / "backhaul.db")

    globals().update(suites())
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from backhaul.store.testing.scenes import MakeStore, StoreConformance

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

__all__ = ["MakeStore", "StoreConformance", "suites", "suites_of"]


def suites() -> dict[str, type[StoreConformance]]:
    """Return every class of tests of this package, by a name that pytest collects."""
    names = (module.name for module in iter_modules(__path__, f"{__name__}."))
    return suites_of(import_module(name) for name in names)


def suites_of(modules: Iterable[ModuleType]) -> dict[str, type[StoreConformance]]:
    """Return the classes of tests that these modules define, as `suites` does.

    Raises ValueError if two modules have a class of the same name: pytest would run
    only one of them.
    """
    found: dict[str, type[StoreConformance]] = {}
    for module in modules:
        for name, value in vars(module).items():
            if not _is_suite(module, name, value):
                continue
            test = "Test" + name.removesuffix("Conformance")
            if test in found:
                other = found[test].__module__
                raise ValueError(f"{other} and {module.__name__} both define {name}")
            found[test] = value
    return found


def _is_suite(module: ModuleType, name: str, value: object) -> bool:
    is_own = getattr(value, "__module__", None) == module.__name__
    return is_own and name.endswith("Conformance") and value is not StoreConformance
