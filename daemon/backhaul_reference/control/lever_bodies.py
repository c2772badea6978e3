"""Bodies of the levers: quirks, faults, time."""

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from backhaul_reference.faults import Rule
from backhaul_reference.web.bodies import Body, Instant, Text

HttpFault = Literal[
    "latency", "rate429", "5xx", "html", "refuse", "drop-after-commit", "truncate"
]
WebhookFault = Literal["duplicate", "reorder", "delay", "drop", "corrupt-signature"]
YEAR_SECONDS = 366 * 24 * 3600


def _float(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


Number = Annotated[float, BeforeValidator(_float)]
Probability = Annotated[Number, Field(ge=0, le=1)]
Seconds = Annotated[Number, Field(ge=0, le=3600)]
Count = Annotated[int, Field(ge=1, le=10**9)]


class Strict(Body):
    """A lever's body: a member that does not exist is a mistake, not a novelty."""

    model_config = ConfigDict(
        strict=True, extra="forbid", alias_generator=to_camel, frozen=True
    )


class FaultRule(Strict):
    probability: Probability = 1.0
    count: Count | None = None
    burst: Count = 1
    seconds: Seconds = 1.0


class HttpRule(FaultRule):
    fault: HttpFault
    method: Text = "*"
    route: Text = "*"
    status: Annotated[int, Field(ge=500, le=599)] = 503

    def rule(self) -> Rule:
        return Rule(**self.model_dump(exclude={"route"}), pattern=self.route)


class WebhookRule(FaultRule):
    fault: WebhookFault
    topic: Text = "*"

    def rule(self) -> Rule:
        return Rule(**self.model_dump(exclude={"topic"}), pattern=self.topic)


class FaultPlan(Strict):
    seed: Annotated[int, Field(ge=0, le=2**62)] = 0
    http: Annotated[list[HttpRule], Field(max_length=50)] = Field(default_factory=list)
    webhooks: Annotated[list[WebhookRule], Field(max_length=50)] = Field(
        default_factory=list
    )

    def rules(self) -> list[Rule]:
        return [
            *(one.rule() for one in self.http),
            *(one.rule() for one in self.webhooks),
        ]


class QuirkList(Strict):
    quirks: Annotated[list[Text], Field(max_length=100)]


class ClockMove(Strict):
    advance: Annotated[Number, Field(ge=0, le=10 * YEAR_SECONDS)] = 0
    freeze: bool | None = None


class Ending(Strict):
    sunset_at: Instant
