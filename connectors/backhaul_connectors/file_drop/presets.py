"""Presets: the layouts of files that known programs write, as settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul_sdk.preset_files import PresetFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul_sdk import Preset

KINDS = ("fulfillments", "cancellations", "stock_deltas", "stock_levels")
"""The settings with the names of files, by kind. A preset sets one of them."""


def _one_kind(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without the other kinds of files.

    A folder of one program has files of one kind, whatever their names are.
    """
    return {**settings, **{kind: "" for kind in KINDS if kind not in settings}}


FILES = PresetFiles(__package__, _one_kind)


def presets() -> Mapping[str, Preset]:
    """Return all presets by their names."""
    return FILES.by_name


def with_preset(given: Any) -> Any:
    """Return the settings that were given, completed by those of their preset."""
    return FILES.completed(given)


def known_preset(name: str) -> str:
    """Return the name. Raises ValueError if there is no such preset."""
    return FILES.known(name)
