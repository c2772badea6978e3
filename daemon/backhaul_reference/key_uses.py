"""When each API key was last used, written down to the minute."""

from dataclasses import dataclass, field

from backhaul_reference.clock import Clock
from backhaul_reference.state import keys
from backhaul_reference.state.writer import Writer

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class KeyUses:
    """No call waits for it, and a busy key costs one commit a minute."""

    writer: Writer
    clock: Clock
    _written: dict[str, int] = field(default_factory=dict)

    def note(self, key_id: str) -> None:
        """The key was used now."""
        now_ms = self.clock.now_ms()
        if now_ms // MINUTE_MS != self._written.get(key_id):
            self._written[key_id] = now_ms // MINUTE_MS
            self.writer.post(lambda tx: keys.used(tx, key_id, now_ms))
