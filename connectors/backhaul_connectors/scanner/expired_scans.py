"""Handles scans that their device kept for too long: the row, and the session's end."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul_connectors.scanner.actions import COMMANDS
from backhaul_connectors.scanner.session_store import DeviceState, KnownScan
from backhaul_sdk import Bad
from backhaul_sdk.fields import counted, rfc3339
from backhaul_sdk.records import ReadValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul_connectors.scanner.scan import Scan
    from backhaul_connectors.scanner.session_store import Session, Sessions
    from backhaul_sdk.records import RecordKind

DAY_SECONDS = 86_400.0


def days_old(scan: Scan, now: float) -> float:
    """Return the days since the scan; 0 if its device does not say when it was.

    `now` are seconds since 1970. The result is negative if the device's clock is ahead.
    """
    if scan.at is None:
        return 0.0
    return (now - datetime.fromisoformat(scan.at).timestamp()) / DAY_SECONDS


class EndedSession(Struct, frozen=True):
    """How an expired scan ended the open order or count of its device.

    `what` is a sentence for the operator. `units` lists the discarded units, one SKU
    per line. Both are empty if the device had no open order or count.
    """

    what: str = ""
    units: str = ""


def end_session(
    sessions: Sessions, scan: Scan, key: str, first_mode: str
) -> EndedSession:
    """End the session that an expired scan or command belonged to.

    Otherwise the device's next scans, which may be in time, would be added to it. An
    order keeps the units that were collected for it. A count is discarded, because it
    is wrong without its expired scans. A scan that is sent again gets the same result.
    """
    if (known := sessions.known_scan(_known_as(key))) is not None:
        what, _, units = known.what.partition("\n")
        return EndedSession(what, units)
    device = sessions.device(scan.device) or DeviceState(first_mode)
    mode = scan.mode or device.mode
    at_work = _taken_from(sessions, scan, device, mode)
    ended = EndedSession() if at_work is None else _ended(sessions, at_work, mode)
    # A scan that ended nothing too: a session that begins later is not its own.
    session = None if at_work is None else at_work.id
    known = KnownScan(f"{ended.what}\n{ended.units}", session)
    sessions.remember(_known_as(key), known)
    return ended


def expired_before(sessions: Sessions, key: str | None) -> bool:
    """Return True if a scan with this key was too old when it came before."""
    return key is not None and sessions.known_scan(_known_as(key)) is not None


def _taken_from(
    sessions: Sessions, scan: Scan, device: DeviceState, mode: str
) -> Session | None:
    """Return the open order or count that the scan belonged to; its device leaves it.

    Returns None if there is none. A receipt belongs to none.
    """
    if mode == "receive":
        return None
    found = None if device.session is None else sessions.find(device.session)
    if mode == "count":
        found = sessions.open_one("count", "", scan.device)
    sessions.put_device(
        scan.device, DeviceState(device.mode if scan.code in COMMANDS else mode)
    )
    return found if found is not None and found.state == "open" else None


def _known_as(key: str) -> str:
    """Return the key under which the end of a session by an expired scan is stored."""
    return f"expired:{key}"


def _ended(sessions: Sessions, session: Session, mode: str) -> EndedSession:
    lines = [(sku, each.units) for sku, each in sessions.articles(session)]
    units = counted(sum(number for _, number in lines), "unit")
    if session.mode == "pick":
        how = "" if mode == "pack" else f": scan {session.order} to continue"
        return EndedSession(f"The order {session.order} stays open with {units}{how}")
    sessions.finish(session, "dropped")
    skus = counted(len(lines), "SKU")
    what = (
        f"The open count of {session.device} ({units} of {skus}) is discarded: count"
        " them again"
    )
    return EndedSession(what, "\n".join(f"{sku} {number}" for sku, number in lines))


def refusal_of_command(
    scan: Scan, ended: EndedSession, days: float, limit: float
) -> str:
    """Return why an expired command was not carried out."""
    age = _age(scan, days, limit)
    return ". ".join(filter(None, (f"{age}. It was not carried out", ended.what)))


def expired(
    scan: Scan, key: str, ended: EndedSession, days: float, limit: float
) -> Bad:
    """Return the row for the quarantine of a scan that is older than the limit.

    An operator decides whether it still holds: since then the goods may have been
    counted, or the order packed in another way.
    """
    kind, read = _fields(scan)
    what = f"{ended.what}. " if ended.what else ""
    units = f"\n\ndiscarded with it:\n{ended.units}" if ended.units else ""
    return Bad(
        key=key,
        raw=f"{scan.raw}{units}",
        reason=(
            f"{_age(scan, days, limit)}. {what}Check whether the scan still holds,"
            " then edit and retry it, or discard it. If the time is wrong, set the"
            f" clock of {scan.device}"
        ),
        locator=scan.locator,
        kind=kind,
        read=read,
    )


def _age(scan: Scan, days: float, limit: float) -> str:
    if days <= limit:
        return f"{scan.code} was already too old when it came first ({scan.at})"
    scanned = datetime.fromisoformat(scan.at or "")
    oldest = rfc3339(scanned + timedelta(days=days - limit), "seconds")
    return (
        f"{scan.code} was scanned {days:.1f} days ago ({scan.at}); with max_age_days ="
        f" {limit:g} the oldest accepted time was {oldest}"
    )


def _fields(scan: Scan) -> tuple[RecordKind | None, Mapping[str, ReadValue]]:
    """Return what the scan was meant to be, if it needs no other scan."""
    if scan.mode == "receive":
        units = str(1 if scan.quantity is None else scan.quantity)
        return "adjust", {
            "sku": ReadValue(scan.code, "code"),
            "delta": ReadValue(units, "quantity"),
            "reason": ReadValue("RECEIVED", "mode"),
        }
    if scan.mode == "pack" and scan.order is None:
        return "fulfill", {
            "order": ReadValue(scan.code, "code"),
            "tracking_company": ReadValue(
                scan.tracking_company or "", "trackingCompany"
            ),
            "tracking_number": ReadValue(scan.tracking_number or "", "trackingNumber"),
            "everything": ReadValue("true"),
            "shipped_at": ReadValue(scan.at or "", "at"),
        }
    return None, {}
