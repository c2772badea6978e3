"""Contract tests: every connector runs them against its real counterpart.

A connector's test file is short. One that brings records in:

    class TestMine(PullContract):  # ConnectorContract for one that is only called
        @pytest.fixture
        def bench(self, tmp_path: Path) -> Bench:
            return MyBench(tmp_path)

One that carries changes out (one that does both has two such classes):

    class TestMyPush(PushContract):
        @pytest.fixture
        async def bench(self, server: MyServer) -> PushBench:
            return MySinkBench(server)

`pytest.register_assert_rewrite("backhaul_sdk.testing")` in a conftest.py lets a failure
show the values that differ.
"""

from backhaul_sdk.testing.base_contract import (
    HOST_KEYS,
    AnyConnector,
    Interrupted,
    cancelled_at,
    opened,
)
from backhaul_sdk.testing.bench import (
    Bench,
    Counterpart,
    Failure,
    PushBench,
    sample_change,
)
from backhaul_sdk.testing.memory_host import MemoryDocuments, MemoryHost
from backhaul_sdk.testing.pull_contract import ConnectorContract, PullContract
from backhaul_sdk.testing.push_contract import PushContract

__all__ = [
    "HOST_KEYS",
    "AnyConnector",
    "Bench",
    "ConnectorContract",
    "Counterpart",
    "Failure",
    "Interrupted",
    "MemoryDocuments",
    "MemoryHost",
    "PullContract",
    "PushBench",
    "PushContract",
    "cancelled_at",
    "opened",
    "sample_change",
]
