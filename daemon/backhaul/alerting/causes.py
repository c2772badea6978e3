"""What needs a person now, from what the daemon's numbers and parts say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.store.alerting import Alert

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul.settings.alerts import Alerts

Number = tuple[str, float, tuple[str, ...]]
EVERYTHING = "everything"
"""What a door says that is closed to commands of all kinds."""
_LISTED = 5
"""Parked commands that are named one by one; of more, their number is told."""


def causes(
    wanted: Alerts,
    status: Mapping[str, Any],
    numbers: Sequence[Number],
    silence: Mapping[str, float],
    parked: Sequence[Mapping[str, str]],
    now: float,
) -> dict[str, Alert]:
    """Return every cause by its key.

    `numbers` are the database's (name, value, labels), `silence` the seconds that each
    instance may bring nothing, `parked` the commands that wait for a person, `now` is
    in seconds since 1970.
    """
    found = [
        *_parked(parked),
        *_stopped(status),
        *_unrepaired(numbers, wanted.drift_rows),
        *_silent(numbers, silence, now),
        *_down(status),
    ]
    return {alert.key: alert for alert in found}


def _parked(parked: Sequence[Mapping[str, str]]) -> Iterator[Alert]:
    for command in parked[:_LISTED]:
        yield Alert(
            f"parked {command['id']}",
            f"{command['kind']} of {command['target']} ({command['store']}) is parked:"
            f" {command['reason']}",
            f"backhaul commands show {command['id'][:8]}",
        )
    if len(parked) > _LISTED:
        yield Alert(
            "parked more",
            f"{len(parked)} commands are parked",
            "backhaul commands list --state parked",
        )


def _stopped(status: Mapping[str, Any]) -> Iterator[Alert]:
    for name, store in status["stores"].items():
        for kind, reason in store["stopped"].items():
            what = "Nothing" if kind == EVERYTHING else f"No {kind}"
            yield Alert(
                f"stopped {name} {kind}",
                f"{what} is sent to {name}: {reason}",
                "backhaul status; it goes on by itself once that is mended",
            )


def _unrepaired(numbers: Sequence[Number], most: int) -> Iterator[Alert]:
    for name, value, labels in numbers:
        if name == "unrepaired_rows" and value >= most:
            yield Alert(
                f"drift {labels[0]}",
                f"{value:.0f} rows of {labels[0]} differ from the platform and could"
                " not be repaired",
                "backhaul reconcile --dry-run shows them",
            )


def _silent(
    numbers: Sequence[Number], silence: Mapping[str, float], now: float
) -> Iterator[Alert]:
    last = {
        labels[0]: value
        for name, value, labels in numbers
        if name == "last_record_timestamp_seconds"
    }
    for instance, seconds in silence.items():
        if instance in last and now - last[instance] >= seconds:
            yield Alert(
                f"silent {instance}",
                f"{instance} has brought nothing for longer than"
                f" {seconds / 3600:g} hours",
                "backhaul status; is its system running?",
            )


def _down(status: Mapping[str, Any]) -> Iterator[Alert]:
    for name, instance in status["connectors"].items():
        if not instance["up"]:
            yield Alert(
                f"down {name}",
                f"{name} cannot work: {instance['reason']}",
                "backhaul status says why",
            )
