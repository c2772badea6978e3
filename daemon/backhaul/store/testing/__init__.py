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

from backhaul.store.testing.scenes import MakeStore, StoreConformance

__all__ = ["MakeStore", "StoreConformance", "suites"]


def suites() -> dict[str, type[StoreConformance]]:
    """Return every class of tests of this package, by a name that pytest collects."""
    found: dict[str, type[StoreConformance]] = {}
    for module in iter_modules(__path__, f"{__name__}."):
        for name, value in vars(import_module(module.name)).items():
            if name.endswith("Conformance") and value is not StoreConformance:
                found["Test" + name.removesuffix("Conformance")] = value
    return found
