"""An engine runs every class of conformance tests that the package defines."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

import pytest

from backhaul.store import testing
from backhaul.store.testing import StoreConformance, suites, suites_of

FOLDER = Path(testing.__file__).parent


def module_with(name: str, *classes: type) -> ModuleType:
    """Return a module with these classes."""
    made = ModuleType(name)
    vars(made).update({each.__name__: each for each in classes})
    return made


def suite(module: str, name: str = "OddConformance") -> type:
    """Return a test class that a module defines."""
    return type(name, (StoreConformance,), {"__module__": module})


def test_every_class_in_the_files_is_run() -> None:
    written = {
        node.name
        for file in FOLDER.glob("*.py")
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Conformance")
    }
    run = {value.__name__ for value in suites().values()}
    assert run == written - {"StoreConformance"}


def test_two_classes_of_one_name_are_refused() -> None:
    modules = [module_with(name, suite(name)) for name in ("first", "second")]
    with pytest.raises(ValueError, match="first and second both define OddConform"):
        suites_of(modules)


def test_a_class_that_another_module_imports_is_run_once() -> None:
    odd = suite("first")
    modules = [module_with(name, odd) for name in ("first", "second")]
    assert suites_of(modules) == {"TestOdd": odd}
