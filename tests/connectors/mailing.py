"""Messages with attachments, and a mailbox from which the connector takes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import EmailMessage
from typing import TYPE_CHECKING

from backhaul_sdk.testing import MemoryDocuments
from connectors.dropping import Drop, rejection_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from backhaul_connectors.file_drop import FileDrop
    from backhaul_sdk import Rejection
    from backhaul_sdk.testing import MemoryHost
    from scenes.dovecot import Dovecot

SUPPLIER = "export@supplier.example"


def mail(
    *files: tuple[str, str | bytes],
    sender: str = SUPPLIER,
    subject: str = "Daily export",
    **headers: str,
) -> EmailMessage:
    """Return a message with these attachments, as a mail program writes it."""
    message = EmailMessage()
    message["From"] = sender
    message["To"] = "stock@shop.example"
    message["Subject"] = subject
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content("See the attachment.\n")
    for name, content in files:
        data = content.encode() if isinstance(content, str) else content
        message.add_attachment(data, "application", "octet-stream", filename=name)
    return message


@dataclass(slots=True)
class MailDrop(Drop):
    """A mailbox, and the host that takes what is in it."""

    server: Dovecot | None = None
    documents: MemoryDocuments = field(default_factory=MemoryDocuments)
    notices: Sequence[str] = ()

    def put(self, name: str, content: str | bytes) -> Path:
        """Send a message with one attachment."""
        self.send(mail((name, content)))
        return self.path / name

    def send(self, message: EmailMessage | bytes, at: datetime | None = None) -> None:
        """Deliver a message to the mailbox."""
        assert self.server is not None
        data = message if isinstance(message, bytes) else message.as_bytes()
        lines = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        self.server.deliver(lines, at=at)

    async def pull(self) -> MemoryHost:
        """Take everything with a new connector, and close it."""
        connector = self.connector()
        try:
            await connector.open()
            await self.host.pull(connector)
            self.notices = connector.notices()
        finally:
            await connector.close()
        return self.host

    async def report(self, *rejections: Rejection) -> None:
        connector = self.connector()
        await connector.open()
        every = map(rejection_of, self.host.bad.values())
        await connector.report(rejections or tuple(every))
        await connector.close()

    def mailbox(self, name: str = "INBOX") -> list[str]:
        """Return the subjects of the messages in a mailbox."""
        assert self.server is not None
        found = map(message_from_bytes, self.server.messages(name))
        return [str(make_header(decode_header(each["Subject"]))) for each in found]

    def connector(self) -> FileDrop:
        made = Drop.connector(self)
        made.documents = self.documents
        return made
