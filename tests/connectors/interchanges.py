"""Writes EDI interchanges of tests: segments in, envelopes with right counts out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FILES = Path(__file__).parent / "cases" / "edi"
WAREHOUSE, MERCHANT = "4012345000009", "4098765000001"
ADVICE = "UNA:+.? '"


def edifact(
    *messages: Sequence[str],
    advice: str = ADVICE,
    charset: str = "UNOC",
    reference: str = "7",
    ending: str = "\n",
    mark: str = "",
) -> bytes:
    """Return an interchange of messages, each its type and then its segments.

    The type is such as `DESADV:D:96A:UN`. `mark` is what follows the reference in UNB.
    """
    head = f"UNB+{charset}:3+{WAREHOUSE}:14+{MERCHANT}:14+260331:1405+{reference}{mark}"
    segments = [head]
    for number, (type_, *inner) in enumerate(messages, 1):
        segments += [f"UNH+{number}+{type_}", *inner]
        segments.append(f"UNT+{len(inner) + 2}+{number}")
    segments.append(f"UNZ+{len(messages)}+{reference}")
    text = "".join(f"{each}'{ending}" for each in segments)
    return f"{advice}{ending if advice else ''}{text}".encode("latin-1")


def x12(
    *sets: Sequence[str],
    element: str = "*",
    component: str = ">",
    terminator: str = "~",
    ending: str = "\n",
    usage: str = "P",
) -> bytes:
    """Return an interchange of transaction sets, each its number and its segments.

    The segments are written with `*`.
    """
    parties = f"ZZ*{'WAREHOUSE':15}*ZZ*{'MERCHANT':15}"
    none = " " * 10
    header = (
        f"ISA*00*{none}*00*{none}*{parties}*260331*1405*U*00401*000000905*0*{usage}*"
    )
    segments = ["GS*SH*WAREHOUSE*MERCHANT*20260331*1405*905*X*004010"]
    for number, (type_, *inner) in enumerate(sets, 1):
        segments += [f"ST*{type_}*{number:04}", *inner]
        segments.append(f"SE*{len(inner) + 2}*{number:04}")
    segments += [f"GE*{len(sets)}*905", "IEA*1*000000905"]
    parts = [f"{header}{component}", *segments]
    text = "".join(f"{each}{terminator}{ending}" for each in parts)
    return text.replace("*", element).encode()


def despatch(
    *lines: Sequence[str], order: str = "1001", document: str = "LS-1"
) -> list[str]:
    """Return a DESADV with one parcel; each line is its segments after LIN."""
    found = ["DESADV:D:96A:UN", f"BGM+351+{document}+9", f"RFF+ON:{order}"]
    found += ["RFF+CN:JJD1", "TDT+20++30+31+:::DHL", "CPS+1"]
    for number, line in enumerate(lines, 1):
        found += [f"LIN+{number}", *line]
    return found


def shirt(quantity: str = "2:PCE", sku: str = "LS-S") -> list[str]:
    """Return the segments of a line."""
    return [f"PIA+1+{sku}:SA", f"QTY+12:{quantity}"]
