"""A platform for the suites that need one, and daemons beside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from faults.trials import LONG
from scenes.daemon import daemon_process, office_of
from scenes.reference_process import reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import DaemonProcess, Office
    from scenes.reference_process import ReferenceProcess


# After all the others, whichever folder they are of: they give the mark.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out, where the short form is wanted, what has none."""
    if LONG or "KILLS" in os.environ:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]


@pytest.fixture(scope="session")
def platform(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ReferenceProcess]:
    with reference(tmp_path_factory.mktemp("platform")) as running:
        yield running


@pytest.fixture
def office(platform: ReferenceProcess) -> Iterator[Office]:
    with office_of(platform) as prepared:
        prepared.write(**{'level = "TRACE"': 'level = "DEBUG"'})
        yield prepared


@pytest.fixture
def daemon(office: Office) -> Iterator[DaemonProcess]:
    with daemon_process(office) as running:
        yield running
