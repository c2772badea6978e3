"""The option `--where FILTER` of lists, and their other options as terms of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import typer
from msgspec.structs import replace

from backhaul.core.clock import SystemClock
from backhaul.store.filters import NO_FILTER, Filter, FilterError, parse_filter

if TYPE_CHECKING:
    from backhaul.store.filters import Allowed


def where_option(allowed: Allowed, sample: str, words: str) -> Any:
    """Return the option for a list with these fields; `words` says what words find."""
    return typer.Option(
        "--where",
        metavar="FILTER",
        parser=partial(_parsed, allowed),
        help=f"Only rows that match, such as '{sample}'. Fields:"
        f" {', '.join(allowed)}. Words without = are searched for in {words}.",
    )


def _parsed(allowed: Allowed, text: str) -> Filter:
    try:
        return parse_filter(text, allowed, SystemClock().now())
    except FilterError as error:
        raise typer.BadParameter(str(error)) from None


def with_options(where: Filter | None, **terms: str | None) -> Filter:
    """Return a filter with the terms that other options give.

    Raises BadParameter if `--where` has one of them too.
    """
    wanted = where or NO_FILTER
    given = {name: value for name, value in terms.items() if value is not None}
    for name in given:
        if getattr(wanted, name) is not None:
            raise typer.BadParameter(
                f"{name} is in --where and in --{name}; give it only once"
            )
    return replace(wanted, **given)
