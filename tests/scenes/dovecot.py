"""A Dovecot IMAP server on loopback: started, killed and started again on its port."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imapclient import IMAPClient

from scenes.certificates import of_this_machine
from scenes.ports import accepts, free_port, unless_ended
from scenes.postgres import server_user
from scenes.processes import kill_family
from scenes.requirements import require
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

PASSWORD = "mailbox-password-that-must-not-show"
USER = "stock@shop.example"
LINES = """
protocols = imap
listen = 127.0.0.1
base_dir = {folder}/run
state_dir = {folder}/run
log_path = {folder}/log
default_internal_user = {user}
default_login_user = {user}
default_internal_group = {group}
first_valid_uid = 1
mail_max_userip_connections = 100
mail_location = maildir:{folder}/mail/%u
ssl = yes
ssl_cert = <{folder}/certificate.pem
ssl_key = <{folder}/key.pem
disable_plaintext_auth = no
auth_mechanisms = plain login
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}/mail/%u
}}
namespace inbox {{
  inbox = yes
  separator = /
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
  }}
}}
service anvil {{
  chroot =
}}
"""


@dataclass(slots=True)
class Dovecot:
    """The server of one user; `more` are further lines of its configuration."""

    folder: Path
    more: str = ""
    port: int = field(default_factory=free_port)
    tls_port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    def settings(self, **more: object) -> dict[str, object]:
        """Return what a connector needs to read this mailbox."""
        imap = {
            "host": "127.0.0.1",
            "port": self.port,
            "tls": "none",
            "user": USER,
            "senders": ("*",),
            **more,
        }
        return {"imap": imap, "imap_password": PASSWORD}

    @property
    def is_dead(self) -> bool:
        return self._process is None

    def start(self) -> None:
        """Start the server; return when it accepts logins."""
        program = shutil.which("dovecot", path="/usr/sbin:/sbin") or require("dovecot")
        file = self.folder / "dovecot.conf"
        owner = server_user()
        file.write_text(
            LINES.format(
                folder=self.folder,
                user=self.folder.owner(),
                group=self.folder.group(),
                password=PASSWORD,
                port=self.port,
                tls_port=self.tls_port,
            )
            + self.more,
            encoding="ascii",
        )
        command = [program, "-F", "-c", str(file)]
        log = self.folder / "output"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                user=owner,
                group=owner,
                extra_groups=None if owner is None else [],
                stdout=output,
                stderr=output,
            )
        ready = unless_ended(self._process.poll, self._answers, log)
        await_true(ready, "Dovecot answers")

    def kill(self) -> None:
        """Kill the server with all its sessions."""
        if self._process is not None:
            kill_family(self._process.pid)
            self._process.wait()
            self._process = None

    def client(self) -> IMAPClient:
        """Return a session of a user or another program."""
        client = IMAPClient("127.0.0.1", port=self.port, ssl=False, timeout=60)
        try:
            client.login(USER, PASSWORD)
        except BaseException:
            client.shutdown()
            raise
        return client

    def deliver(
        self,
        message: bytes,
        mailbox: str = "INBOX",
        at: datetime | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        """Put a message into the mailbox."""
        with self.client() as client:
            client.append(mailbox, message, flags=flags, msg_time=at)

    def messages(self, mailbox: str) -> list[bytes]:
        """Return all messages of a mailbox; none if it does not exist."""
        with self.client() as client:
            if not client.folder_exists(mailbox):
                return []
            client.select_folder(mailbox, readonly=True)
            found = client.fetch(client.search(["UNDELETED"]), ["BODY.PEEK[]"])
        return [each[b"BODY[]"] for each in found.values()]

    def state(self) -> object:
        """Return the mailboxes with their messages and flags."""
        state: dict[str, Any] = {}
        with self.client() as client:
            for _, _, name in client.list_folders():
                client.select_folder(name, readonly=True)
                found = client.fetch(client.search(), ["FLAGS", "RFC822.SIZE"])
                state[name] = {uid: repr(items) for uid, items in found.items()}
        return state

    def renumber(self) -> None:
        """Renumber all messages, as a restored backup of the mailbox does.

        Call it while the server is down; messages get another UID and UIDVALIDITY.
        """
        for file in (self.folder / "mail").rglob("dovecot.index*"):
            file.unlink()
        for file in (self.folder / "mail").rglob("dovecot-uidlist"):
            head, *_ = file.read_text("ascii").splitlines()
            found = re.fullmatch(r"3 V(\d+) N(\d+) (G\w+)", head)
            assert found is not None, head
            head = f"3 V{int(found[1]) + 1_000} N{int(found[2]) + 10} {found[3]}\n"
            file.write_text(head, encoding="ascii")

    def sent_bytes(self) -> int:
        """Return the number of bytes that the server sent in all ended sessions."""
        log = self.folder / "log"

        def lines(words: str) -> list[str]:
            return re.findall(words, log.read_text("utf-8"))

        await_true(
            lambda: len(lines(r"imap-login: .*Login: ")) == len(lines(r" out=\d+")),
            "every session has ended",
        )
        return sum(int(each.removeprefix(" out=")) for each in lines(r" out=\d+"))

    def _answers(self) -> bool:
        if not accepts(self.port):
            return False
        with suppress(OSError, IMAPClient.Error), self.client():
            return True
        return False


@contextmanager
def dovecot(more: str = "") -> Iterator[Dovecot]:
    """Run a server with an empty mailbox, and remove both at the end."""
    # Only root may read pytest's folders, and the server never runs as root.
    folder = Path(tempfile.mkdtemp(prefix="dovecot-"))
    of_this_machine(folder)
    if (owner := server_user()) is not None:
        for each in (folder, *folder.iterdir()):
            os.chown(each, owner, owner)
    server = Dovecot(folder, more)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)
