"""Charts as SVG, drawn on the server: no script, no style that the policy forbids."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from markupsafe import Markup
from msgspec import Struct

from backhaul.core.clock import from_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WIDTH, HEIGHT = 640, 200
LEFT, RIGHT, TOP, BOTTOM = 48, 8, 10, 24
MINUTE = timedelta(minutes=1)
STEPS = (1, 2, 5, 10)
LINES = 4
MOST_POINTS = 144
"""More are no line any more: of a day each point is the mean of ten minutes."""


class _Frame(Struct, frozen=True):
    """Turns moments and values into places."""

    begin: datetime
    end: datetime
    top: float

    def x(self, moment: datetime) -> float:
        part = (moment - self.begin) / (self.end - self.begin)
        return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM), 1)


def chart(
    title: str,
    rows: Sequence[Mapping[str, object]],
    series: Mapping[str, str],
    now: datetime,
    span: timedelta,
) -> Markup:
    """Return lines over time; `series` names the columns of `rows` for the legend."""
    found = [_values(rows, column, span) for column in series.values()]
    highest = max((value for line in found for _, value in line), default=0.0)
    frame = _Frame(now - span, now, _nice(highest or 1.0))
    parts = [*_grid(frame), *_hours(frame, span)]
    for index, line in enumerate(found):
        parts += _lines(frame, line, index, 3 * max(span / MOST_POINTS, MINUTE))
    said = "; ".join(
        f"{name}: {_said(line)}" for name, line in zip(series, found, strict=True)
    )
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, f"{title}. {said}", Markup("").join(parts))


def _values(
    rows: Sequence[Mapping[str, object]], column: str, span: timedelta
) -> list[tuple[datetime, float]]:
    """Return a column's values; of a long span the means of equal pieces of it."""
    pieces: defaultdict[int, list[tuple[datetime, float]]] = defaultdict(list)
    width = span.total_seconds() / MOST_POINTS
    for row in rows:
        if isinstance(value := row[column], int | float):
            at = from_text(str(row["at"]))
            pieces[int(at.timestamp() // width)].append((at, float(value)))
    return [
        (piece[-1][0], sum(value for _, value in piece) / len(piece))
        for piece in pieces.values()
    ]


def _said(line: Sequence[tuple[datetime, float]]) -> str:
    if not line:
        return "no values"
    values = [value for _, value in line]
    return f"now {values[-1]:.3g}, at most {max(values):.3g}"


def _nice(highest: float) -> float:
    """Return a round number above all values, which four lines divide well."""
    unit = 0.001
    while unit * STEPS[-1] * LINES < highest:
        unit *= 10
    return next((unit * n * LINES for n in STEPS if unit * n * LINES >= highest), 4.0)


def _grid(frame: _Frame) -> Iterator[Markup]:
    for step in range(LINES + 1):
        value = frame.top * step / LINES
        y = frame.y(value)
        yield Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            LEFT, WIDTH - RIGHT, y, y
        )
        yield Markup('<text class="mark end" x="{}" y="{}">{}</text>').format(
            LEFT - 6, y + 4, f"{value:g}"
        )


def _hours(frame: _Frame, span: timedelta) -> Iterator[Markup]:
    step = timedelta(minutes=15) if span <= timedelta(hours=1) else timedelta(hours=4)
    seconds = step.total_seconds()
    behind = frame.begin.timestamp() % seconds
    moment = frame.begin + timedelta(seconds=(seconds - behind) % seconds)
    while moment <= frame.end:
        yield Markup('<text class="mark middle" x="{}" y="{}">{}</text>').format(
            frame.x(moment), HEIGHT - 6, f"{moment:%H:%M}"
        )
        moment += step


def _lines(
    frame: _Frame,
    line: Sequence[tuple[datetime, float]],
    index: int,
    gap: timedelta,
) -> Iterator[Markup]:
    """Yield a line in pieces: a silence interrupts it, nothing is made up."""
    piece: list[tuple[datetime, float]] = []
    for at, value in line:
        if piece and at - piece[-1][0] > gap:
            yield _piece(frame, piece, index)
            piece = []
        piece.append((at, value))
    if piece:
        yield _piece(frame, piece, index)


def _piece(
    frame: _Frame, piece: Sequence[tuple[datetime, float]], index: int
) -> Markup:
    if len(piece) == 1:
        at, value = piece[0]
        return Markup('<circle class="dot s{}" cx="{}" cy="{}" r="2.5"/>').format(
            index, frame.x(at), frame.y(value)
        )
    points = " ".join(f"{frame.x(at)},{frame.y(value)}" for at, value in piece)
    return Markup('<polyline class="line s{}" points="{}"/>').format(index, points)
