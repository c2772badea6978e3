"""The notices of a working connector are logged once and shown while they apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.cli.connectors import _notice_lines
from backhaul.connect.health import (
    MAX_CHARACTERS,
    MAX_NOTICES,
    ConnectorFailed,
    Notices,
    read_findings,
    read_notices,
)
from backhaul.errors import BackhaulError
from backhaul_connectors.file_drop import FileDrop
from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import Batch
from scenes.back_office import ScriptedConnector, fulfillment_record, host_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backhaul.store import Store

NOTICE = "a.xyz is not read: no pattern takes its name"


class NoticingConnector(ScriptedConnector):
    """A connector with a notice."""

    said: Sequence[object] = ()
    found: Sequence[str] = ()

    def findings(self) -> Sequence[str]:
        return self.found

    def notices(self) -> Sequence[str]:
        return self.said  # type: ignore[return-value]


def logged(lines: list[str], action: str) -> list[str]:
    return [line for line in lines if line.startswith(action)]


async def test_a_notice_is_logged_once_and_shown_while_it_holds(
    store: Store, lines: list[str]
) -> None:
    connector = NoticingConnector()
    host = host_of(connector, store)
    connector.said = [NOTICE]
    for _ in range(3):
        await host.once()
    assert host.state()["notices"] == [NOTICE]
    assert len(logged(lines, "connector.notice ")) == 1
    connector.said = ()
    await host.once()
    assert host.state()["notices"] == []
    connector.said = [NOTICE]
    await host.once()
    assert len(logged(lines, "connector.notice ")) == 2


async def test_articles_below_zero_are_counted_until_they_are_corrected(
    store: Store, tmp_path: Path
) -> None:
    settings = Settings.model_validate({"path": tmp_path, "unchanged_seconds": 0})
    host = host_of(FileDrop("drop", settings), store)
    levels = tmp_path / "stock-levels.csv"
    levels.write_text("sku,quantity\nA,-2\nB,-1\nC,4\nD,5\n")
    await host.once()
    assert host.state()["notices"] == [
        "stock below 0 is taken as 0 for 2 SKUs, such as 'A'; correct them in the "
        "back office"
    ]
    levels.write_text("sku,quantity\nA,0\nC,4\n")
    await host.once()
    assert "for 1 SKUs, such as 'B'" in str(host.state()["notices"])
    levels.write_text("sku,quantity\nB,3\n")
    await host.once()
    assert host.state()["notices"] == []


async def test_the_notes_of_a_batch_are_logged_after_it_is_stored(
    store: Store, lines: list[str]
) -> None:
    connector = NoticingConnector()
    said = "a.csv: 2 of 3 rows were left out"
    connector.waiting.append(
        Batch(records=[fulfillment_record()], cursor="1", notes=(said,))
    )
    await host_of(connector, store).once()
    assert len(logged(lines, "connector.note ")) == 1
    assert any(said in line for line in lines)


def test_notices_of_a_connector_are_bounded_and_fit_to_be_stored() -> None:
    connector = NoticingConnector()
    connector.said = ["x" * 10_000, "odd \udcff name", 7, *map(str, range(100, 1000))]
    said = read_notices(connector)
    assert len(said) == MAX_NOTICES
    assert max(map(len, said)) == MAX_CHARACTERS
    assert all(each.encode() for each in said)


async def test_findings_of_a_check_come_first_and_are_no_notices(store: Store) -> None:
    connector = NoticingConnector()
    connector.found, connector.said = ["it is version 7"], [NOTICE]
    assert read_findings(connector) == ["it is version 7", NOTICE]
    host = host_of(connector, store)
    await host.once()
    assert host.state()["notices"] == [NOTICE]


async def test_notices_that_fail_are_a_failure_of_the_connector(
    store: Store,
) -> None:
    connector = NoticingConnector()
    connector.said = None  # type: ignore[assignment]
    with pytest.raises(ConnectorFailed):
        Notices(connector).refresh()
    with pytest.raises(BackhaulError, match="desk: TypeError"):
        await host_of(connector, store).once()


def test_the_list_of_connections_shows_a_notice_of_one_that_is_up() -> None:
    rows = [{"connection": "drop", "up": True, "reason": None, "notices": [NOTICE]}]
    assert _notice_lines(rows) == [f"drop: {NOTICE}"]
