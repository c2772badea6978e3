"""file_drop fulfills the connector contract with the mailbox of a real IMAP server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk.testing import PullContract
from connectors.examples import documented
from connectors.mailing import MailDrop
from connectors.test_file_drop_contract import DropBench
from scenes.dovecot import PASSWORD, Dovecot, dovecot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from pathlib import Path

    from backhaul_connectors.file_drop import FileDrop
    from backhaul_sdk import Connector

pytestmark = pytest.mark.programs


class MailBench(DropBench):
    """A mailbox to which a supplier sends files."""

    secrets: Sequence[str] = (PASSWORD,)

    def __init__(self, path: Path, server: Dovecot, kind: str, ending: str) -> None:
        super().__init__(path, kind, ending)
        self._server = server
        self._drop = MailDrop(path, server.settings(), server=server)
        self.made: list[Connector[Any]] = []

    def connector(self) -> FileDrop:
        self.made.append(found := super().connector())
        return found

    def example(self) -> Mapping[str, object]:
        example = documented("file_drop_email")
        # The daemon reads the file.
        assert example.pop("imap_password_file")
        return {**example, "imap_password": PASSWORD}

    def state(self) -> object:
        return self._server.state()

    async def unplug(self) -> None:
        self._server.kill()

    async def plug_in(self) -> None:
        self._server.start()


@pytest.fixture
def server() -> Iterator[Dovecot]:
    with dovecot() as started:
        yield started


class TestMailbox(PullContract):
    """Attachments are taken from a real server."""

    @pytest.fixture(
        params=[("fulfillments", "csv"), ("stock-deltas", "csv")], ids="-".join
    )
    async def bench(
        self, tmp_path: Path, server: Dovecot, request: pytest.FixtureRequest
    ) -> AsyncIterator[MailBench]:
        made = MailBench(tmp_path, server, *request.param)
        yield made
        for connector in made.made:
            await connector.close()
