"""A problem: what is wrong, and what an operator can do."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul.store.operations import Alert

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from backhaul.store.operations import AlertConditions

LISTS = {
    "incident": "backhaul incidents list",
    "news": "backhaul connectors deliveries --state parked",
    "parked": "backhaul commands list --state parked",
    "unreadable": "backhaul quarantine list",
}
"""The command that lists all problems of a kind, if there is one."""


class Severity(StrEnum):
    """How bad a problem is, the worst first; the words name colors of the output."""

    FAIL = "fail"
    PARKED = "parked"
    WARN = "warn"


class Several(Struct, frozen=True):
    """What several problems of one kind are together; `{n}` stands for their number."""

    text: str
    consequence: str


class Problem(Struct, frozen=True):
    """One problem. `key` stays the same while it lasts; its first word is the kind.

    `text` says what is wrong, `consequence` what happens until somebody acts, and
    `remedy` what to do. `subject` is the object in two words, `short` the text beside
    it (empty: `text`), and `command` what to type first. `link` is the path of the
    dashboard's page where an operator acts, and `action` the words on its button.
    Problems of one kind with an equal `several` are shown as one.
    """

    key: str
    text: str
    remedy: str = ""
    subject: str = ""
    command: str = ""
    short: str = ""
    severity: Severity = Severity.FAIL
    raises_alert: bool = True
    consequence: str = ""
    link: str = ""
    action: str = ""
    several: Several | None = None

    @property
    def kind(self) -> str:
        """The first word of the key."""
        return self.key.partition(" ")[0]

    def alert(self) -> Alert:
        """Return the alert about this problem."""
        return Alert(self.key, self.text, self.remedy)


class Facts(Struct, frozen=True, kw_only=True):
    """Everything that problems are found in.

    `status` is the status of the running daemon, or what is known without one.
    `silence` has the seconds that each connection may submit no record, and
    `drift_rows` is how many different rows are a problem. `now` is in seconds since
    1970. `backups_missed` returns whether the schedule had two backups or more since a
    moment. `free_bytes` is the free space on the disk of the database. `archive` says
    why a server cannot archive its log, or is empty.
    """

    status: Mapping[str, Any]
    conditions: AlertConditions
    drift_rows: int
    silence: Mapping[str, float]
    now: float
    backups_missed: Callable[[datetime], bool]
    free_bytes: int
    archive: str = ""
