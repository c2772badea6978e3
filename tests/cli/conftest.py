"""A platform for the tests that run the program as a person does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.reference_process import ReferenceProcess, reference

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceProcess]:
    with reference(tmp_path_factory.mktemp("platform")) as started:
        yield started
