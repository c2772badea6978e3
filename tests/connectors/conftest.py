"""Which contract tests are left to `make programs` and `make faults`; a bucket."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from scenes.object_store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTHY = ("test_many_records_need_little_memory", "test_cancellation_anywhere")
"""Contract tests of a hundred thousand records, and of every wait there is."""
MEMORY = re.compile(r"test_many_records_need_little_memory\[(?!fulfillments).*")
"""One form of record shows it for each format; `make faults` has all."""
SLOW_SERVERS = re.compile(
    r"test_tryton\.py::TestReading::(test_unplugged_often|test_many_|test_cancellation_)"
    r"|test_erpnext_contract\.py::TestPull::test_many_"
    r"|test_file_drop_servers\.py::TestServer::test_cancellation_\w+\[webdav\]"
)
"""What takes its server minutes; `make faults` has it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the lengthy ones to `make programs`."""
    for item in items:
        if item.name.startswith(LENGTHY) and "connectors/" in item.nodeid:
            item.add_marker(pytest.mark.programs)
        if MEMORY.fullmatch(item.name) and "file_drop_contract" in item.nodeid:
            item.add_marker(pytest.mark.faults)
            item.add_marker(pytest.mark.long)
        if SLOW_SERVERS.search(item.nodeid):
            item.add_marker(pytest.mark.faults)
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.timeout(2_400))


@pytest.fixture
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    started = ObjectStore(tmp_path_factory.mktemp("s3"))
    started.start()
    yield started
    started.kill()
