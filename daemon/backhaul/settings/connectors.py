"""`[connectors.NAME]`: an instance of a connector, as far as the host knows it."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import ConfigDict, Field

from backhaul.core.stock import Policy
from backhaul.settings.schedules import Scheduled
from backhaul.settings.section import Section
from backhaul.settings.values import Count, Duration, Name, Text, parse_duration


class Counts(Section):
    """How the stock that a connector reports is read, and what a person must see."""

    quantity_means: Literal["available", "on_hand"] = Field(
        default="available",
        description="What a count is of: available are units that may be sold, on_hand "
        "all that stand in the house; of those, what was sold and not shipped yet when "
        "it was counted is taken off.",
    )
    buffer: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Units that are kept back: the platform shows so many fewer.",
    )
    unseen_orders: Duration = Field(
        default=0.0,
        description="How long an order may be placed before the back office knows of "
        "it: what was sold so shortly before a count is taken off it too. For counts "
        "of what is available.",
    )
    max_step: Count | None = Field(
        default=None,
        le=1_000_000,
        description="Largest change of one article's stock that a count may make; one "
        "that would make a larger one is parked for a person.",
    )
    stale_after: Duration = Field(
        default=parse_duration("1d"),
        description="How old a count may be when it is to be made true; an older one "
        "is parked for a person.",
    )

    def policy(self) -> Policy:
        """Return them as what reckons with them takes them."""
        return Policy(
            quantity_means=self.quantity_means,
            buffer=self.buffer,
            max_step=self.max_step,
            stale_seconds=self.stale_after,
            unseen_seconds=self.unseen_orders,
        )


class Connector(Scheduled):
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
        description="Time between two polls for something new, with "
        '`trigger = "interval"`.',
    )
    enabled: bool = Field(default=True, description="Whether the instance runs at all.")
    silent_after: Duration | None = Field(
        default=None,
        description="How long it may bring nothing before a person is alerted.",
    )
    dry_run: bool = Field(
        default=False,
        description="Plan what it asks for and send nothing of it; see `[push] "
        "dry_run`.",
    )

    counts: Counts = Field(
        default=Counts(), description="What holds for the stock that it reports."
    )
    topics: tuple[Text, ...] = Field(
        default=(),
        description="Kinds of news it is told, such as `order.placed`; none: all that "
        "its connector takes.",
    )
    begin: Literal["now", "all"] = Field(
        default="now",
        description="Whether a new instance is told from now on, or of all that is "
        "there. It counts once, at the first start with the instance.",
    )

    @property
    def options(self) -> dict[str, Any]:
        """The connector's own settings, not validated yet."""
        return dict(self.model_extra or {})

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, getattr(self, name)) for name in type(self).model_fields]
