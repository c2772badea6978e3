"""Which of the contract tests are left to `make programs` and `make faults`."""

import re

import pytest

LENGTHY = ("test_many_records_need_little_memory", "test_cancellation_anywhere")
"""Contract tests of a hundred thousand records, and of every wait there is."""
MEMORY = re.compile(r"test_many_records_need_little_memory\[(?!fulfillments).*")
"""One form of record shows it for each format; `make faults` has all."""
FROM_TRYTON = re.compile(
    r"test_tryton\.py::TestReading::(test_unplugged_often|test_many_|test_cancellation_)"
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
        if FROM_TRYTON.search(item.nodeid):
            item.add_marker(pytest.mark.faults)
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.timeout(2_400))
