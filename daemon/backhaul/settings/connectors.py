"""`[connectors.NAME]`: an instance of a connector, as far as the host knows it."""

from collections.abc import Iterable
from typing import Any

from pydantic import ConfigDict, Field

from backhaul.settings.section import Section
from backhaul.settings.values import Duration, Name, parse_duration


class Connector(Section):
    """An instance of a connector; whatever is not listed here is the connector's own.

    `options` holds those other keys. Secret ones, and what their files hold, are
    `SecretStr` there. They never show in a repr.
    """

    model_config = ConfigDict(extra="allow")

    type: Name = Field(description='Which connector it is, such as "file_drop".')
    store: str = Field(
        default="",
        description="Name of the store it works for; may be left out where there is "
        "only one.",
    )
    every: Duration = Field(
        default=parse_duration("2s"),
        description="Time between two looks for something new.",
    )
    enabled: bool = Field(default=True, description="Whether the instance runs at all.")
    dry_run: bool = Field(
        default=False,
        description="Plan what it asks for and send nothing of it; see `[push] "
        "dry_run`.",
    )

    @property
    def options(self) -> dict[str, Any]:
        """The connector's own settings, not validated yet."""
        return dict(self.model_extra or {})

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, getattr(self, name)) for name in type(self).model_fields]
