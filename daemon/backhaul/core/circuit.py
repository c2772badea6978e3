"""Whether a platform that keeps failing is left alone for a while."""

from __future__ import annotations

FAILURES_TO_OPEN = 5
PROBE_SECONDS = 10.0
"""Rest between two probes of a platform that fails."""


class Circuit:
    """Counts failures in a row, of reads and of commands apart.

    Writes may fail where reads work, and reads are what settles a doubt: they go on
    then. Half open, after a good probe, one command at a time is tried.
    """

    def __init__(self) -> None:
        self._reads = 0
        self._commands = 0
        self._half_open = False

    @property
    def reads_wait(self) -> bool:
        """Whether nothing but probes may be read."""
        return self._reads >= FAILURES_TO_OPEN

    @property
    def commands_wait(self) -> bool:
        """Whether no command may be sent."""
        failing = self._commands >= FAILURES_TO_OPEN and not self._half_open
        return failing or self.reads_wait

    @property
    def half_open(self) -> bool:
        """Whether only one command at a time may be sent."""
        return self._half_open

    def failed(self, *, command: bool) -> None:
        """Note a request without a usable answer: refused, reset, late or 5xx."""
        if command:
            self._commands += 1
            self._half_open = False
        else:
            self._reads += 1

    def answered(self, *, command: bool) -> None:
        """Note an answer in the platform's own words, a refusal too."""
        self._reads = 0
        if command:
            self._commands = 0
            self._half_open = False

    def probed(self) -> None:
        """Note that a probe was answered: what commands meet is still to be seen."""
        self._reads = 0
        self._half_open = self._commands >= FAILURES_TO_OPEN
