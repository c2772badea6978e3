"""Renders pages: templates, assets and SVG charts."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web
from markupsafe import Markup
from msgspec import Struct

from backhaul.admin import formatting, navigation
from backhaul.core.clock import from_text
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jinja2 import Environment

    from backhaul.store.operations import MetricSample


WIDTH, HEIGHT = 640, 200
LEFT, RIGHT, TOP, BOTTOM = 48, 8, 10, 24
MINUTE = timedelta(minutes=1)
STEPS = (1, 2, 5, 10)
GRID_LINES = 4
MAX_POINTS = 144
"""Limit of points in a line; each point of a day is the mean of ten minutes."""


class _Frame(Struct, frozen=True):
    """Maps times and values to coordinates."""

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
    rows: Sequence[MetricSample],
    series: Mapping[str, str],
    now: datetime,
    span: timedelta,
) -> Markup:
    """Return lines over time; `series` names the columns of `rows` for the legend."""
    found = [_values(rows, column, span) for column in series.values()]
    highest = max((value for line in found for _, value in line), default=0.0)
    frame = _Frame(now - span, now, _round_up(highest or 1.0))
    parts = [*_grid(frame), *_time_labels(frame, span)]
    for index, line in enumerate(found):
        parts += _line_pieces(frame, line, index, 3 * max(span / MAX_POINTS, MINUTE))
    summary = "; ".join(
        f"{name}: {_summary(line)}" for name, line in zip(series, found, strict=True)
    )
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, f"{title}. {summary}", Markup("").join(parts))


def _values(
    rows: Sequence[MetricSample], column: str, span: timedelta
) -> list[tuple[datetime, float]]:
    """Return a column's values; of a long span the means of equal pieces of it."""
    pieces: defaultdict[int, list[tuple[datetime, float]]] = defaultdict(list)
    width = span.total_seconds() / MAX_POINTS
    for row in rows:
        if isinstance(value := getattr(row, column), int | float):
            at = from_text(row.at)
            pieces[int(at.timestamp() // width)].append((at, float(value)))
    return [
        (piece[-1][0], sum(value for _, value in piece) / len(piece))
        for piece in pieces.values()
    ]


def _summary(line: Sequence[tuple[datetime, float]]) -> str:
    if not line:
        return "no values"
    values = [value for _, value in line]
    return f"now {values[-1]:.3g}, at most {max(values):.3g}"


def _round_up(highest: float) -> float:
    """Return a round number above all values, which four lines divide well."""
    unit = 0.001
    while unit * STEPS[-1] * GRID_LINES < highest:
        unit *= 10
    return next(
        (unit * n * GRID_LINES for n in STEPS if unit * n * GRID_LINES >= highest), 4.0
    )


def _grid(frame: _Frame) -> Iterator[Markup]:
    for step in range(GRID_LINES + 1):
        value = frame.top * step / GRID_LINES
        y = frame.y(value)
        yield Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            LEFT, WIDTH - RIGHT, y, y
        )
        yield Markup('<text class="mark end" x="{}" y="{}">{}</text>').format(
            LEFT - 6, y + 4, f"{value:g}"
        )


def _time_labels(frame: _Frame, span: timedelta) -> Iterator[Markup]:
    step = timedelta(minutes=15) if span <= timedelta(hours=1) else timedelta(hours=4)
    seconds = step.total_seconds()
    behind = frame.begin.timestamp() % seconds
    moment = frame.begin + timedelta(seconds=(seconds - behind) % seconds)
    while moment <= frame.end:
        yield Markup('<text class="mark middle" x="{}" y="{}">{}</text>').format(
            frame.x(moment), HEIGHT - 6, f"{moment:%H:%M}"
        )
        moment += step


def _line_pieces(
    frame: _Frame,
    line: Sequence[tuple[datetime, float]],
    index: int,
    gap: timedelta,
) -> Iterator[Markup]:
    """Yield the pieces of a line, interrupted where data is missing."""
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


HERE = Path(__file__).parent
ASSETS = HERE / "assets"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


THEMES = ("system", "light", "dark")
THEME_COOKIE = "backhaul_theme"


def theme_of(request: web.Request) -> str:
    """Return the theme that the browser chose, one of THEMES."""
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else THEMES[0]


def page(name: str, now: datetime, code: int, /, **values: Any) -> web.Response:
    """Render a template; a whole page needs the value `theme`."""
    text = _templates().get_template(name).render(now=now, **values)
    return web.Response(text=text, status=code, content_type="text/html")


@cache
def _templates() -> Environment:
    # Imported here: the first page waits for it, not every start of the daemon.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= formatting.FILTERS
    made.globals |= {"asset": asset, "Role": Role, "chart": chart}
    made.globals |= {"reason_words": formatting.reason_words}
    made.globals |= {"object_path": formatting.object_path}
    made.globals |= {"sections": navigation.sections_of, "place": navigation.place_of}
    return made


@cache
def asset(name: str) -> str:
    """Return the URL of an asset; it changes with the content."""
    digest = hashlib.sha256((ASSETS / name).read_bytes()).hexdigest()[:12]
    return f"/assets/{name}?v={digest}"


def plain_text(status: int, text: str) -> web.Response:
    """Return a plain-text response for a client that is not logged in."""
    return web.Response(text=text, status=status)
