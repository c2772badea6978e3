"""Change notifications as CloudEvents 1.0, in the JSON format or as HTTP headers.

Sources: github.com/cloudevents/spec, cloudevents/spec.md, cloudevents/formats/
json-format.md and cloudevents/bindings/http-protocol-binding.md, version 1.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, Field
from yarl import URL

from backhaul_sdk.change_documents import as_json, checked_template, filled
from backhaul_sdk.contract import STRICT

if TYPE_CHECKING:
    from backhaul_sdk.contract import Change

SPECIFICATION = "1.0"
STRUCTURED_TYPE = "application/cloudevents+json; charset=utf-8"
DATA_TYPE = "application/json"
# Header values have these characters as they are: all printable ones of ASCII, except
# the blank, the quotation mark and the percent sign.
_PLAIN_IN_HEADERS = "".join(map(chr, range(0x21, 0x7F))).translate({0x22: "", 0x25: ""})


def _source(text: str) -> str:
    """Return a template of a URI reference. Raises ValueError."""
    if not text or any(not "!" <= each <= "~" for each in text):
        raise ValueError(
            f"source {text!r} is not a URI; use for example urn:shop:{{store}}"
        )
    return checked_template(text)


def _schema(text: str) -> str:
    """Return a template of an absolute URI; empty for none. Raises ValueError."""
    if text and not URL(text.replace("{", "").replace("}", "")).scheme:
        raise ValueError(
            f"data_schema {text!r} must be a whole URI, such as"
            " https://shop.example/schemas/{topic}.json"
        )
    return checked_template(text)


class CloudEvents(BaseModel):
    """How change notifications become CloudEvents."""

    model_config = STRICT

    source: Annotated[str, AfterValidator(_source)] = Field(
        default="urn:backhaul:{store}",
        description="URI of the store that events are from. With several installations "
        "of Backhaul, give each its own: source and id together identify an event.",
    )
    type_prefix: str = Field(
        default="backhaul.",
        pattern=r"^[A-Za-z0-9._/-]*$",
        description="What is before the topic in the type of an event, such as "
        "com.example.shop.",
    )
    data_schema: Annotated[str, AfterValidator(_schema)] = Field(
        default="",
        description="URI of the schema of the data, with {topic}, {store} or "
        "{object_id}; none leaves dataschema out.",
    )


class HttpCloudEvents(CloudEvents):
    """How change notifications become CloudEvents in HTTP requests."""

    mode: Literal["structured", "binary"] = Field(
        default="structured",
        description="`structured`: the body is the whole event. `binary`: the body is "
        "the object in the mirror, and headers have the rest, which are not signed.",
    )


class MessageFormat(BaseModel):
    """What the messages to a broker are."""

    model_config = STRICT

    format: Literal["plain", "cloudevents"] = Field(
        default="plain",
        description="What a message is: `plain` is Backhaul's own JSON document, "
        "`cloudevents` is a CloudEvent 1.0.",
    )
    cloudevents: CloudEvents = Field(
        default=CloudEvents(),
        description="How messages become CloudEvents, with the format `cloudevents`.",
    )

    def content(self, change: Change, plain: bytes) -> tuple[str, bytes]:
        """Return the content type and the body of a message; `plain` is the body of
        the format `plain`.
        """
        if self.format == "cloudevents":
            return STRUCTURED_TYPE, structured(change, change.id, self.cloudevents)
        return DATA_TYPE, plain


def attributes(change: Change, event_id: str, how: CloudEvents) -> dict[str, str]:
    """Return the attributes of an event, by their names in the specification.

    `store` is an extension: the name of the store in Backhaul's configuration.
    """
    found = {
        "specversion": SPECIFICATION,
        "id": event_id,
        "source": filled(how.source, change),
        "type": how.type_prefix + change.topic,
        "subject": change.object_id,
        "time": change.occurred_at,
        "datacontenttype": DATA_TYPE,
        "dataschema": filled(how.data_schema, change),
        "store": change.store,
    }
    return {name: value for name, value in found.items() if value}


def structured(change: Change, event_id: str, how: CloudEvents) -> bytes:
    """Return an event as one JSON object, with its data."""
    named = attributes(change, event_id, how)
    return as_json({**named, "data": change.document})


def http_message(
    change: Change, event_id: str, how: HttpCloudEvents
) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of an HTTP request with one event."""
    if how.mode == "structured":
        return {"Content-Type": STRUCTURED_TYPE}, structured(change, event_id, how)
    named = attributes(change, event_id, how)
    headers = {"Content-Type": named.pop("datacontenttype")}
    headers |= {f"ce-{name}": _for_header(value) for name, value in named.items()}
    return headers, as_json(change.document)


def _for_header(text: str) -> str:
    """Return a header value with all other characters percent-encoded."""
    return quote(text, safe=_PLAIN_IN_HEADERS)
