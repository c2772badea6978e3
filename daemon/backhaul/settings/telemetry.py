"""The table `[telemetry]`: traces and metrics by OTLP (OpenTelemetry)."""

import re
from typing import Annotated, Self
from urllib.parse import unquote

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from backhaul.settings.values import (
    BaseUrl,
    Duration,
    Section,
    Text,
    parse_duration,
    refuse_boolean,
)
from backhaul_sdk.extras import require_extra

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_PAIRS = 'must be "NAME=VALUE" pairs with commas between them'


def parse_headers(text: str) -> dict[str, str]:
    """Return the headers of a text such as "api-key=abc,tenant=shop".

    Values are percent-encoded, as in OTEL_EXPORTER_OTLP_HEADERS. Raises ValueError,
    which does not show the text.
    """
    found: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = pair.partition("=")
        name, value = name.strip().lower(), unquote(value.strip())
        if not (equals and _TOKEN.fullmatch(name)):
            raise ValueError(_NOT_PAIRS)
        if not (value.isascii() and value.isprintable()):
            raise ValueError(
                "has a value with a line break or a character outside ASCII; copy the"
                " headers again"
            )
        found[name] = value
    if not found:
        raise ValueError("is empty")
    return found


def check_headers(value: SecretStr) -> SecretStr:
    parse_headers(value.get_secret_value())
    return value


def parse_attribute(text: str) -> tuple[str, str]:
    """Return name and value of a text such as "deployment.environment.name=test"."""
    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise ValueError(f'must be "NAME=VALUE", not "{text}"')
    return name.strip(), unquote(value.strip())


def check_attribute(text: str) -> str:
    parse_attribute(text)
    return text


class Telemetry(Section):
    """Traces and metrics by OTLP, the protocol of OpenTelemetry.

    Without `otlp_endpoint`, Backhaul exports nothing and loads no package for it.
    """

    otlp_endpoint: BaseUrl | None = Field(
        default=None,
        description="Base URL of an OTLP collector that speaks HTTP, such as "
        '"http://127.0.0.1:4318". Backhaul adds `/v1/traces` and `/v1/metrics`. '
        "The variable `OTEL_EXPORTER_OTLP_ENDPOINT` sets it too. This setting needs "
        "`backhaul[otel]`.",
    )
    headers: Annotated[SecretStr, AfterValidator(check_headers)] | None = Field(
        default=None,
        description='Headers of each request to the collector, such as "api-key=…", '
        "with commas between several headers. The variable "
        "`OTEL_EXPORTER_OTLP_HEADERS` sets them too.",
    )
    service_name: Text = Field(
        default="backhaul",
        description="Name of this daemon in traces and metrics (`service.name`). The "
        "variable `OTEL_SERVICE_NAME` sets it too.",
    )
    resource_attributes: tuple[
        Annotated[Text, AfterValidator(check_attribute)], ...
    ] = Field(
        default=(),
        description="Further attributes of this daemon, such as "
        '["deployment.environment.name=production"]. The variable '
        "`OTEL_RESOURCE_ATTRIBUTES` sets them too.",
    )
    traces: bool = Field(default=True, description="Whether Backhaul exports traces.")
    metrics: bool = Field(
        default=True,
        description="Whether Backhaul exports its metrics. They are the same as those "
        "at `/metrics`.",
    )
    sample_ratio: Annotated[float, BeforeValidator(refuse_boolean)] = Field(
        default=1,
        ge=0,
        le=1,
        description="Share of the traces that Backhaul exports, from 0 to 1. It "
        "applies to traces that begin in Backhaul. A trace that another program has "
        "begun is exported if its header `traceparent` says so.",
    )
    metrics_every: Duration = Field(
        default=parse_duration("1m"),
        description="How often Backhaul exports its metrics.",
    )

    @model_validator(mode="after")
    def _is_installed(self) -> Self:
        if self.is_on:
            require_extra("otel", user="otlp_endpoint")
        return self

    @property
    def is_on(self) -> bool:
        """Whether anything is exported."""
        return self.otlp_endpoint is not None and (self.traces or self.metrics)

    @property
    def endpoint(self) -> str:
        """The base URL of the collector; empty if there is none."""
        return self.otlp_endpoint or ""

    @property
    def sent_headers(self) -> dict[str, str]:
        """The headers of each request to the collector, by name; they are secrets."""
        if self.headers is None:
            return {}
        return parse_headers(self.headers.get_secret_value())

    @property
    def attributes(self) -> dict[str, str]:
        """The further attributes of the resource, by name."""
        return dict(map(parse_attribute, self.resource_attributes))
