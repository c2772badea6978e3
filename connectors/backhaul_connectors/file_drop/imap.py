"""A mailbox as a drop folder: its files are the attachments of messages."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from backhaul_connectors.file_drop.files import (
    HELD,
    FileChanged,
    FileCopy,
    Fingerprint,
    FolderUnreachable,
    FoundFile,
    matches,
)
from backhaul_connectors.file_drop.folder import (
    NO_PATTERN,
    FolderListing,
    IgnoredEntry,
)
from backhaul_connectors.file_drop.imap_connection import CLAIM, ImapConnection
from backhaul_connectors.file_drop.mail_parts import (
    PartDecoder,
    attachments_of,
    decoded_text,
    text_of,
)
from backhaul_connectors.file_drop.mail_replies import (
    FILE_HEADER,
    REASON_HEADER,
    content_of,
    digest_of,
    file_message,
    reason_message,
)
from backhaul_connectors.file_drop.mail_senders import (
    NOT_ALLOWED,
    NOT_PROVED,
    is_allowed,
    is_authenticated,
    sender_of,
)
from backhaul_sdk.clock import seconds_since_1970
from backhaul_sdk.files import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul_connectors.file_drop.files import FileNames, TemporaryCopies
    from backhaul_connectors.file_drop.imap_connection import ImapSession
    from backhaul_connectors.file_drop.imap_settings import ImapSettings
    from backhaul_connectors.file_drop.mail_parts import Attachment
    from backhaul_connectors.file_drop.settings import Settings
    from backhaul_sdk.database import Documents, DocumentStore

INBOX = "mailbox"
"""The folder of messages that wait, in the paths of attachments."""
PIECE_BYTES = 1_000_000
OWNER_DOCUMENT = "owner"
ITEMS = ("ENVELOPE", "BODYSTRUCTURE", "INTERNALDATE")
RESULTS = "BODY.PEEK[HEADER.FIELDS (AUTHENTICATION-RESULTS)]"
RESULTS_KEY = b"BODY[HEADER.FIELDS (AUTHENTICATION-RESULTS)]"
TNEF = (
    "this is Outlook's own format (TNEF), which is not read. Ask the sender to send"
    " messages as HTML or plain text, not as rich text"
)
CLAIMED = (
    "another installation of Backhaul claimed the message and did not finish it. If"
    f" that installation is gone, remove the keyword {CLAIM}… of the message"
)
UNREADABLE = (
    "the server describes the message in a way that cannot be parsed. Forward the"
    " attachment in a new message"
)


class Place(NamedTuple):
    """Where an attachment is: its path is `FOLDER/UIDVALIDITY-UID-PART`."""

    folder: str
    uidvalidity: int
    uid: int
    part: str

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def name(self) -> str:
        return f"{self.uidvalidity}-{self.uid}-{self.part}"

    @classmethod
    def of(cls, path: str) -> Place:
        folder, _, name = path.partition("/")
        uidvalidity, uid, part = name.split("-")
        return cls(folder, int(uidvalidity), int(uid), part)


class MailMessage(Struct):
    """A message: attachments to read by their part, and what is not read.

    `done` are the parts that were imported or rejected, `reasons` the rejected ones.
    """

    subject: str = ""
    modified_ns: int = 0
    files: dict[str, Attachment] = field(default_factory=dict)
    strays: Sequence[IgnoredEntry] = ()
    done: set[str] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    is_claimed: bool = False

    def fingerprint(self, part: str) -> Fingerprint:
        return Fingerprint(self.files[part].about_bytes, self.modified_ns)


class Mailbox:
    """The attachments in a mailbox; it implements DropFolder.

    `documents` returns the connection's documents once the host has set them.
    """

    failures: tuple[type[Exception], ...] = (FolderUnreachable, OSError)
    is_atomic = True

    def __init__(
        self,
        settings: Settings,
        imap: ImapSettings,
        names: FileNames,
        documents: Callable[[], DocumentStore],
    ) -> None:
        self._imap = imap
        self._names = names
        self._documents = documents
        self._owner = ""
        self._max_bytes = settings.max_file_mb * 1_000_000
        self._line = ImapConnection(settings, imap)
        self._uidvalidity = 0
        self._messages: dict[int, MailMessage] = {}

    def notices(self) -> Sequence[str]:
        return ()

    async def begin(self, file: FoundFile) -> None:
        """Do nothing: the message was claimed when it was fetched."""

    async def check(self) -> None:
        if problem := await self._line.run(self._problem):
            raise FolderUnreachable(problem)

    async def open(self) -> None:
        await self.check()
        if not self._imap.only_reader:
            self._owner = await self._documents().transact(owner_of)
        await self._line.run(self._create)

    async def close(self) -> None:
        await self._line.close()

    async def listing(self) -> FolderListing:
        return await self._line.run(self._list)

    async def status(self, folder: str, name: str) -> Fingerprint | None:
        """Return None: an archived message never changes."""
        return None

    async def files(self, folder: str) -> Mapping[str, Fingerprint]:
        return await self._line.run(self._rejected_files)

    async def fetch(self, file: FoundFile, copies: TemporaryCopies) -> FileCopy:
        place = Place.of(file.path)
        if place.folder == INBOX:
            await self._claim(place)
        attachment = await self._attachment(place)
        if attachment.about_bytes > self._max_bytes:
            return FileCopy(file.name, file.form, file.fingerprint, copies.make())
        copy = FileCopy(file.name, file.form, file.fingerprint, copies.make())
        decoder, start = PartDecoder(attachment.encoding), 0
        while start < attachment.octets:
            piece = await self._line.run(partial(self._piece, place, start))
            if not piece:
                raise FileChanged(file.name)
            await in_thread(copy.stream.write, decoder.decode(piece))
            start += len(piece)
        await in_thread(copy.stream.write, decoder.finish())
        fingerprint = Fingerprint(copy.stream.tell(), file.fingerprint.modified_ns)
        return FileCopy(file.name, file.form, fingerprint, copy.stream)

    async def free_name(self, folder: str, file: FoundFile) -> str:
        return Place.of(file.path).name

    async def archive(self, file: FoundFile, name: str) -> None:
        """Move the message to the archive once all its attachments are done."""
        place = Place.of(file.path)
        if place.folder == HELD:
            await self._line.run(partial(self._archive_held, place))
        else:
            await self._finish(place, ())

    async def hold(self, file: FoundFile, reason: str) -> None:
        """Note the reason; the message is rejected once all attachments are done."""
        place = Place.of(file.path)
        if place.folder == INBOX:
            await self._finish(place, (f"{file.name}: {reason}",))

    async def read(self, folder: str, name: str) -> bytes | None:
        return await self._line.run(partial(self._read, digest_of(name)))

    async def write(self, folder: str, name: str, content: bytes) -> None:
        message = file_message(self._imap.user, name, content, _now())
        await self._line.run(partial(self._replace, digest_of(name), message))

    def _problem(self, session: ImapSession) -> str:
        """Return why the mailbox cannot be used; empty if it can."""
        user, mailbox = self._imap.user, self._imap.mailbox
        if not session.exists(mailbox):
            return (
                f"{user} has no mailbox {mailbox}; create it, or correct imap.mailbox"
            )
        session.enter(mailbox, readonly=True)
        if not session.has_capability("UIDPLUS"):
            return (
                "the IMAP server lacks UIDPLUS, so single messages cannot be removed;"
                " use another server"
            )
        if self._imap.only_reader:
            return ""
        if not session.has_capability("CONDSTORE"):
            return (
                "the IMAP server lacks CONDSTORE, so messages cannot be claimed. If no"
                f" other program imports from {mailbox}, set imap.only_reader = true"
            )
        return ""

    def _create(self, session: ImapSession) -> None:
        session.create(self._imap.archive)
        session.create(self._imap.rejected)

    def _list(self, session: ImapSession) -> FolderListing:
        self._refresh(session)
        claims = session.keywords([u for u, m in self._messages.items() if m.files])
        found, strays = list[FoundFile](), list[IgnoredEntry]()
        for uid, message in self._messages.items():
            strays += message.strays
            if uid in claims and not self._is_of_others(claims[uid]):
                found += self._found(uid, message)
            elif uid in claims and self._owner:
                strays += self._claimed(message)
        return FolderListing(found, {}, strays)

    def _is_of_others(self, claims: set[str]) -> bool:
        """Return True if another installation claimed the message.

        `check` lists without the database that knows who we are.
        """
        return (
            not self._imap.only_reader and claims - {f"{CLAIM}{self._owner}"} != set()
        )

    def _claimed(self, message: MailMessage) -> list[IgnoredEntry]:
        return [
            IgnoredEntry(each.name, CLAIMED, message.modified_ns)
            for each in message.files.values()
        ]

    def _found(self, uid: int, message: MailMessage) -> list[FoundFile]:
        found = []
        for part, attachment in message.files.items():
            form = self._names.form_of(attachment.name)
            if form is not None and part not in message.done:
                place = Place(INBOX, self._uidvalidity, uid, part)
                fingerprint = message.fingerprint(part)
                found.append(FoundFile(attachment.name, form, fingerprint, place.path))
        return found

    def _refresh(self, session: ImapSession) -> None:
        """Describe the messages that are new; forget those that are gone."""
        uidvalidity = session.enter(self._imap.mailbox, readonly=True)
        if uidvalidity != self._uidvalidity:
            self._uidvalidity, self._messages = uidvalidity, {}
        uids = set(session.search(["UNDELETED"]))
        self._messages = {u: m for u, m in self._messages.items() if u in uids}
        new = sorted(uids - self._messages.keys())
        items = [*ITEMS, RESULTS] if self._imap.authentication else ITEMS
        for uid, found in session.described(new, items):
            self._messages[uid] = self._message(found)

    def _message(self, found: Any) -> MailMessage:
        """Return what is to be read of a message."""
        if found is None or b"BODYSTRUCTURE" not in found:
            return MailMessage(strays=[IgnoredEntry("a message", UNREADABLE, 0)])
        envelope = found[b"ENVELOPE"]
        subject = decoded_text(text_of(envelope.subject))
        modified_ns = int(found[b"INTERNALDATE"].timestamp()) * 10**9
        message = MailMessage(subject, modified_ns)
        attachments = attachments_of(found[b"BODYSTRUCTURE"])
        if not attachments or not matches(subject.lower(), self._imap.subject):
            return message
        address = sender_of(envelope)
        why = self._distrust(address, found.get(RESULTS_KEY) or b"")
        files = {each.part: each for each in attachments if self._is_file(each)}
        if files and not why:
            message.files = files
            return message
        named = [*files.values()] or [
            each for each in attachments if not each.is_inline
        ]
        message.strays = [
            IgnoredEntry(
                f"{each.name} from {address}", why or _why(each.name), modified_ns
            )
            for each in named
            if files or not why
        ]
        return message

    def _is_file(self, attachment: Attachment) -> bool:
        return self._names.form_of(attachment.name) is not None

    def _distrust(self, address: str, results: bytes) -> str:
        """Return why the sender is not trusted; empty if it is."""
        if not is_allowed(address, self._imap.senders):
            return NOT_ALLOWED
        server = self._imap.authentication
        if server and not is_authenticated(results, server, address):
            return NOT_PROVED
        return ""

    async def _claim(self, place: Place) -> None:
        """Claim the message of an attachment. Raises FileChanged if another has it."""
        message = self._messages.get(place.uid)
        if message is None or place.uidvalidity != self._uidvalidity:
            raise FileChanged(place.path)
        if self._imap.only_reader or message.is_claimed:
            return
        if not await self._line.run(partial(self._claims, place)):
            raise FileChanged(place.path)
        message.is_claimed = True

    def _claims(self, place: Place, session: ImapSession) -> bool:
        if session.enter(self._imap.mailbox) != place.uidvalidity:
            return False
        if not session.takes_keywords:
            raise FolderUnreachable(
                f"the IMAP server stores no keywords in {self._imap.mailbox}, so"
                " messages cannot be claimed. If no other program imports from it, set"
                " imap.only_reader = true"
            )
        return session.claim(place.uid, self._owner)

    async def _attachment(self, place: Place) -> Attachment:
        if place.folder == INBOX:
            return self._messages[place.uid].files[place.part]
        found = await self._line.run(self._rejected_messages)
        message = found.get((place.uidvalidity, place.uid))
        if message is None or place.part not in message.files:
            raise FileChanged(place.path)
        return message.files[place.part]

    def _piece(self, place: Place, start: int, session: ImapSession) -> bytes | None:
        mailbox = self._mailbox_of(place)
        if session.enter(mailbox, readonly=True) != place.uidvalidity:
            return None
        return session.piece(place.uid, place.part, start, PIECE_BYTES)

    def _mailbox_of(self, place: Place) -> str:
        return self._imap.mailbox if place.folder == INBOX else self._imap.rejected

    async def _finish(self, place: Place, reasons: Sequence[str]) -> None:
        """Note that an attachment is done, and move the message if all are."""
        message = self._messages.get(place.uid)
        if message is None or place.uidvalidity != self._uidvalidity:
            return
        rejected = [*message.reasons, *reasons]
        if message.files.keys() <= message.done | {place.part}:
            await self._line.run(partial(self._move, place, message, rejected))
        # Noted only now: after a failure the attachment is listed again.
        message.done.add(place.part)
        message.reasons = rejected

    def _move(
        self,
        place: Place,
        message: MailMessage,
        reasons: Sequence[str],
        session: ImapSession,
    ) -> None:
        target = self._imap.rejected if reasons else self._imap.archive
        if reasons:
            key = digest_of(f"{place.uidvalidity}-{place.uid} {message.modified_ns}")
            self._explain(key, message.subject, reasons, session)
        if session.enter(self._imap.mailbox) == place.uidvalidity:
            session.move_to(place.uid, target)

    def _explain(
        self, key: str, subject: str, reasons: Sequence[str], session: ImapSession
    ) -> None:
        """Put the reasons into the mailbox of rejected messages, once."""
        session.enter(self._imap.rejected, readonly=True)
        if not session.search(["HEADER", REASON_HEADER, key]):
            text = reason_message(self._imap.user, subject, reasons, key, _now())
            session.append(session.full(self._imap.rejected), text)

    def _rejected_messages(
        self, session: ImapSession
    ) -> dict[tuple[int, int], MailMessage]:
        uidvalidity = session.enter(self._imap.rejected, readonly=True)
        uids = session.search(["UNDELETED", "NOT", "HEADER", FILE_HEADER, ""])
        return {
            (uidvalidity, uid): self._message(found)
            for uid, found in session.described(uids, [*ITEMS, RESULTS])
        }

    def _rejected_files(self, session: ImapSession) -> dict[str, Fingerprint]:
        return {
            Place(HELD, uidvalidity, uid, part).name: message.fingerprint(part)
            for (uidvalidity, uid), message in self._rejected_messages(session).items()
            for part in message.files
        }

    def _archive_held(self, place: Place, session: ImapSession) -> None:
        """Archive a rejected message that an operator applied, unless it has more."""
        found = self._rejected_messages(session)
        message = found.get((place.uidvalidity, place.uid))
        if message is not None and len(message.files) == 1:
            session.enter(self._imap.rejected)
            session.move_to(place.uid, self._imap.archive)

    def _read(self, digest: str, session: ImapSession) -> bytes | None:
        session.enter(self._imap.rejected, readonly=True)
        uids = session.search(["UNDELETED", "HEADER", FILE_HEADER, digest])
        found = session.fetch(uids[-1:], ["BODY.PEEK[]"]) if uids else {}
        return next((content_of(each[b"BODY[]"]) for each in found.values()), None)

    def _replace(self, digest: str, message: bytes, session: ImapSession) -> None:
        """Put the new message there before the older one goes."""
        session.enter(self._imap.rejected)
        older = session.search(["HEADER", FILE_HEADER, digest])
        session.append(session.full(self._imap.rejected), message)
        session.remove(older)


def _why(name: str) -> str:
    return TNEF if name.lower() == "winmail.dat" else NO_PATTERN


def _now() -> datetime:
    return datetime.fromtimestamp(seconds_since_1970(), UTC)


def owner_of(documents: Documents) -> str:
    """Return the name of this connection's database; make it at the first time.

    It is stored before the first claim, so a claim is recognized after a kill. Daemons
    that share the database share the name, and their claims.
    """
    found = documents.get(OWNER_DOCUMENT)
    if found is None:
        found = secrets.token_hex(16).encode("ascii")
        documents.put(OWNER_DOCUMENT, found)
    return found.decode("ascii")
