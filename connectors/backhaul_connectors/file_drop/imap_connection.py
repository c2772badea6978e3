"""A connection to an IMAP server, and the commands that Backhaul sends on it."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from imapclient import IMAPClient
from imapclient.exceptions import (
    CapabilityError,
    IMAPClientAbortError,
    IMAPClientError,
    LoginError,
    ProtocolError,
)

from backhaul_connectors.file_drop.files import FolderUnreachable
from backhaul_connectors.file_drop.server_folder import tls_context
from backhaul_sdk.files import in_breakable_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from backhaul_connectors.file_drop.imap_settings import ImapSettings
    from backhaul_connectors.file_drop.settings import Settings

T = TypeVar("T")

TIMEOUT_SECONDS = 30
MESSAGES_AT_ONCE = 200
FLAGS, MODSEQ = b"FLAGS", b"MODSEQ"
CLAIM = "backhaul-"
"""The beginning of the keyword by which an installation claims a message."""


class ImapSession(IMAPClient):  # type: ignore[misc]  # it has no type hints
    """One login. Every method waits for the server: call it in a thread."""

    uidvalidity = 0
    """Of the mailbox that was entered last."""
    takes_keywords = False
    """Whether that mailbox stores any keyword."""

    def full(self, mailbox: str) -> str:
        """Return the name of one of the user's mailboxes, with the server's prefix."""
        prefix, separator = self._personal()
        if separator:
            mailbox = mailbox.replace("/", separator)
        is_whole = mailbox.upper() == "INBOX" or mailbox.startswith(prefix)
        return mailbox if is_whole else f"{prefix}{mailbox}"

    def _personal(self) -> tuple[str, str]:
        if not self.has_capability("NAMESPACE"):
            return "", ""
        (prefix, separator), *_ = self.namespace().personal or (("", ""),)
        return prefix or "", separator or ""

    def exists(self, mailbox: str) -> bool:
        """Return True if the user has this mailbox."""
        return bool(self.folder_exists(self.full(mailbox)))

    def create(self, mailbox: str) -> None:
        """Create a mailbox unless it exists."""
        if not self.exists(mailbox):
            self.create_folder(self.full(mailbox))

    def enter(self, mailbox: str, *, readonly: bool = False) -> int:
        """Select a mailbox as it is now; return its UIDVALIDITY."""
        found = self.select_folder(self.full(mailbox), readonly=readonly)
        self.uidvalidity = int(found[b"UIDVALIDITY"])
        self.takes_keywords = b"\\*" in found.get(b"PERMANENTFLAGS", ())
        return self.uidvalidity

    def described(self, uids: Sequence[int], items: Sequence[str]) -> Iterator[Any]:
        """Yield (UID, items) of each message; None for one that cannot be parsed."""
        for start in range(0, len(uids), MESSAGES_AT_ONCE):
            some = uids[start : start + MESSAGES_AT_ONCE]
            try:
                yield from self.fetch(some, items).items()
            except ProtocolError:
                for uid in some:
                    yield uid, self._one(uid, items)

    def _one(self, uid: int, items: Sequence[str]) -> Any:
        try:
            return self.fetch([uid], items).get(uid)
        except ProtocolError:
            return None

    def keywords(self, uids: Sequence[int]) -> dict[int, set[str]]:
        """Return the claims of each message that exists."""
        return {
            uid: claims_in(found[FLAGS])
            for uid, found in self.described(uids, ["FLAGS"])
            if found and FLAGS in found
        }

    def claim(self, uid: int, owner: str) -> bool:
        """Claim a message for an installation; return False if another one has it.

        The server compares and stores in one step (CONDSTORE), so one claim wins.
        """
        keyword = f"{CLAIM}{owner}"
        found = self.fetch([uid], ["FLAGS", "MODSEQ"]).get(uid)
        if found is None:
            return False
        claims = claims_in(found[FLAGS])
        if not claims:
            unchanged = f"(UNCHANGEDSINCE {found[MODSEQ][0]})"
            # The library has no method for a conditional STORE.
            self._imap.uid(
                "STORE", str(uid), unchanged, "+FLAGS.SILENT", f"({keyword})"
            )
            claims = self.keywords([uid]).get(uid, set())
        return claims == {keyword}

    def move_to(self, uid: int, mailbox: str) -> None:
        """Move a message; nothing happens if it is not there any more."""
        target = self.full(mailbox)
        if self.has_capability("MOVE"):
            self.move([uid], target)
        elif self.fetch([uid], ["UID"]):
            self.copy([uid], target)
            self.remove([uid])

    def remove(self, uids: Sequence[int]) -> None:
        """Delete messages for good, and no others that somebody marked as deleted."""
        if uids:
            self.delete_messages(uids, silent=True)
            self.uid_expunge(uids)

    def piece(self, uid: int, part: str, start: int, size: int) -> bytes | None:
        """Return `size` bytes of a part, still encoded; None without the message."""
        found = self.fetch([uid], [f"BODY.PEEK[{part}]<{start}.{size}>"]).get(uid)
        if found is None:
            return None
        key = f"BODY[{part}]<{start}>".encode()
        return found.get(key) or b""


def claims_in(flags: Sequence[bytes]) -> set[str]:
    """Return the claims among the flags of a message."""
    named = (flag.decode("ascii", "replace").lower() for flag in flags)
    return {flag for flag in named if flag.startswith(CLAIM)}


class ImapConnection:
    """One connection, opened when needed and reopened after it broke.

    It serves one caller at a time: a broken connection or a cancellation closes it.
    """

    def __init__(self, settings: Settings, imap: ImapSettings) -> None:
        self._imap = imap
        self._password = settings.imap_password
        self._where = f"{imap.host}:{imap.actual_port}"
        self._lock = asyncio.Lock()
        self._session: ImapSession | None = None

    async def run(self, work: Callable[[ImapSession], T]) -> T:
        """Return the result of `work`. Raises FolderUnreachable."""
        async with self._lock:
            try:
                return await in_breakable_thread(lambda: self._run(work), self._break)
            except (IMAPClientAbortError, OSError) as error:
                await self._drop()
                raise FolderUnreachable(
                    f"the connection to the IMAP server {self._where} broke:"
                    f" {_words(error)}"
                ) from None
            except (IMAPClientError, CapabilityError) as error:
                await self._drop()
                raise FolderUnreachable(
                    f"the IMAP server {self._where} refused a request:"
                    f" {_words(error)}. Check that {self._imap.user} may read and"
                    " write its mailboxes, and that there is space left"
                ) from None
            except asyncio.CancelledError:
                # A late answer would be taken for the next request's answer.
                await self._drop()
                raise

    async def close(self) -> None:
        async with self._lock:
            await self._drop()

    def _run(self, work: Callable[[ImapSession], T]) -> T:
        if self._session is None:
            self._session = self._log_in()
        return work(self._session)

    def _break(self) -> None:
        """Make the call that waits in a thread fail."""
        if self._session is not None:
            with suppress(OSError):
                self._session.socket().shutdown(socket.SHUT_RDWR)

    async def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(OSError, IMAPClientError):
                session.shutdown()

    def _log_in(self) -> ImapSession:
        # The host logs a lost and a restored connection, once each.
        logging.getLogger("imapclient").setLevel(logging.CRITICAL)
        session = self._connect()
        try:
            if self._imap.token_file is not None:
                session.oauth2_login(self._imap.user, _read(self._imap.token_file))
            elif self._password is not None:
                session.login(self._imap.user, self._password.get_secret_value())
        except LoginError as error:
            _close(session)
            raise FolderUnreachable(
                f"the IMAP server {self._where} refuses the login of"
                f" {self._imap.user}: {_words(error)}; check imap.user, and"
                " imap_password or imap.token_file"
            ) from None
        except Exception:
            _close(session)
            raise
        return session

    def _connect(self) -> ImapSession:
        context = tls_context(self._imap.ca_file, "imap.ca_file")
        try:
            session = ImapSession(
                self._imap.host,
                port=self._imap.actual_port,
                ssl=self._imap.tls == "implicit",
                ssl_context=context,
                timeout=TIMEOUT_SECONDS,
            )
        except ssl.SSLCertVerificationError as error:
            raise self._untrusted(error) from None
        except (OSError, IMAPClientError) as error:
            raise FolderUnreachable(
                f"the IMAP server {self._where} cannot be reached: {_words(error)};"
                " check imap.host, imap.port and imap.tls"
            ) from None
        session.normalise_times = False
        if self._imap.tls == "starttls":
            self._begin_tls(session, context)
        return session

    def _begin_tls(self, session: ImapSession, context: ssl.SSLContext) -> None:
        try:
            session.starttls(context)
        except ssl.SSLCertVerificationError as error:
            _close(session)
            raise self._untrusted(error) from None
        except CapabilityError:
            _close(session)
            raise FolderUnreachable(
                f"the IMAP server {self._where} offers no STARTTLS; set imap.tls ="
                ' "implicit" and imap.port = 993'
            ) from None

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> FolderUnreachable:
        return FolderUnreachable(
            f"the certificate of the IMAP server {self._where} is not trusted:"
            f" {error.verify_message}; correct imap.host, or set imap.ca_file to the"
            " certificate of its authority"
        )


def _close(session: ImapSession) -> None:
    with suppress(OSError, IMAPClientError):
        session.shutdown()


def _read(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not ASCII text"
        raise FolderUnreachable(
            f"imap.token_file {file} cannot be read: {reason}; let another program"
            " write the access token there, readable for this user"
        ) from None


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
