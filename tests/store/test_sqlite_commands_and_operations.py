"""SQLite passes the conformance tests of commands, records and operations."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from backhaul.store.testing.alerts import AlertConditionsConformance, AlertsConformance
from backhaul.store.testing.commands import CommandsConformance
from backhaul.store.testing.customer_erasure import ErasureConformance
from backhaul.store.testing.deliveries import DeliveriesConformance
from backhaul.store.testing.history_tags import HistoryTagsConformance
from backhaul.store.testing.job_runs import JobRunsConformance
from backhaul.store.testing.lifecycle import StoreConformance
from backhaul.store.testing.metrics import (
    GaugesConformance,
    MetricSamplesConformance,
)
from backhaul.store.testing.operator_decisions import (
    DecisionsConformance,
    IncidentsConformance,
)
from backhaul.store.testing.records import (
    MatchReaderConformance,
    RecordsConformance,
)
from backhaul.store.testing.retention import RetentionConformance
from backhaul.store.testing.stock_targets import TargetsConformance
from backhaul.store.testing.uncertain_commands import UncertainCommandsConformance
from backhaul.store.testing.users import (
    UsersConformance,
    WebhookSecretsConformance,
)
from scenes.clock import SettableClock
from scenes.databases import started_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store import Store
    from backhaul.store.testing.contract import OpenStore


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
async def open_store(tmp_path: Path, clock: SettableClock) -> AsyncIterator[OpenStore]:
    async with AsyncExitStack() as stack:

        async def opened() -> Store:
            path = tmp_path / "backhaul.db"
            return await stack.enter_async_context(started_store(path, clock))

        yield opened


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()


class TestCommands(CommandsConformance):
    pass


class TestUncertainCommands(UncertainCommandsConformance):
    pass


class TestDecisions(DecisionsConformance):
    pass


class TestIncidents(IncidentsConformance):
    pass


class TestUsers(UsersConformance):
    pass


class TestWebhookSecrets(WebhookSecretsConformance):
    pass


class TestJobRuns(JobRunsConformance):
    pass


class TestAlerts(AlertsConformance):
    pass


class TestAlertConditions(AlertConditionsConformance):
    pass


class TestGauges(GaugesConformance):
    pass


class TestMetricSamples(MetricSamplesConformance):
    pass


class TestStore(StoreConformance):
    pass


class TestHistoryTags(HistoryTagsConformance):
    pass


class TestRecords(RecordsConformance):
    pass


class TestMatchReader(MatchReaderConformance):
    pass


class TestDeliveries(DeliveriesConformance):
    pass


class TestErasure(ErasureConformance):
    pass


class TestRetention(RetentionConformance):
    pass


class TestTargets(TargetsConformance):
    pass
