"""The presets of a connector, as TOML files in the folder `presets` of its package.

A file has a `title`, the public documents that describe the system (`sources`), and
the `settings`. A connection's own settings override those of its preset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from backhaul_sdk.previews import Preset

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

FOLDER = "presets"
ENDING = ".toml"


def _unchanged(settings: dict[str, Any]) -> dict[str, Any]:
    return settings


class PresetFiles:
    """The presets of the connector in `package`; they are read when first used.

    `complete` adds to each preset the settings that follow from the others.
    """

    def __init__(
        self,
        package: str,
        complete: Callable[[dict[str, Any]], dict[str, Any]] = _unchanged,
    ) -> None:
        self._package = package
        self._complete = complete

    @cached_property
    def by_name(self) -> Mapping[str, Preset]:
        """All presets by their names, in alphabetical order."""
        # No daemon needs this without a preset.
        from importlib.resources import files

        folder = files(self._package).joinpath(FOLDER)
        found = sorted(folder.iterdir(), key=lambda each: each.name)
        return {
            name: self._read(name, each)
            for each in found
            if (name := each.name.removesuffix(ENDING)) != each.name
        }

    def completed(self, given: Any) -> Any:
        """Return the settings that were given, completed by those of their preset.

        An unknown preset is ignored here: `known` reports it.
        """
        if not isinstance(given, Mapping) or not given.get("preset"):
            return given
        preset = self.by_name.get(str(given["preset"]))
        return _merged(preset.settings, given) if preset else given

    def known(self, name: str) -> str:
        """Return the name. Raises ValueError if there is no such preset."""
        if name and name not in self.by_name:
            import difflib

            near = difflib.get_close_matches(name, self.by_name, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(
                f"no preset is called {name!r}; {hint}`backhaul connectors presets`"
                " lists all presets"
            )
        return name

    def _read(self, name: str, file: Traversable) -> Preset:
        import tomllib

        written = tomllib.loads(file.read_text("utf-8"))
        return Preset(
            name=name,
            title=written["title"],
            sources=tuple(written["sources"]),
            settings=self._complete(dict(written["settings"])),
        )


def _merged(preset: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return both; in a table, the connection's own settings override each name."""
    merged = {**preset, **given}
    for name, written in preset.items():
        own = given.get(name)
        if isinstance(written, Mapping) and isinstance(own, Mapping):
            merged[name] = {**written, **own}
    return merged
