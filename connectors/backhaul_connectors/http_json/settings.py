"""The settings of http_json: address, lists to read, requests to send."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    SecretStr,
    model_validator,
)

from backhaul_sdk.addresses import Network, reachable
from backhaul_sdk.contract import STRICT, TOPICS
from backhaul_sdk.json_items import ItemMapping
from backhaul_sdk.json_paths import Expression

PLACES = ("{id}", "{object_id}")


def _path(text: str) -> str:
    if not text.startswith("/") or text.startswith("//") or "#" in text:
        raise ValueError(
            f"{text!r} must be a path such as /orders, the part of the URL after"
            " base_url"
        )
    return text


UrlPath = Annotated[str, AfterValidator(_path)]


class List(ItemMapping):
    """`[connectors.NAME.lists.LIST]`: a list of the system and its kind of items."""

    path: UrlPath = Field(description="Path of the list below base_url.")
    key: Expression = Field(description="Unique id of an item.")
    query: dict[str, str] = Field(
        default_factory=dict, description="Parameters that every request has."
    )
    since_parameter: str = Field(
        default="", description="Parameter that asks for what changed since a time."
    )
    since: Expression | None = Field(
        default=None, description="Where an item says when it changed (RFC 3339)."
    )
    overlap_seconds: float = Field(
        default=300.0,
        ge=0,
        description="Seconds that are asked for again, for items that appear late.",
    )
    paging: Literal["none", "page", "offset", "cursor", "link"] = Field(
        default="none", description="How the system hands out what follows."
    )
    page_parameter: str = Field(
        default="page", description="Parameter with the page, offset or cursor."
    )
    first_page: int = Field(default=1, ge=0, description="Number of the first page.")
    size_parameter: str = Field(
        default="", description="Parameter with the number of items wanted."
    )
    page_size: int = Field(
        default=100, ge=1, le=10_000, description="How many items a page has."
    )
    next: Expression | None = Field(
        default=None,
        description="Where an answer has the next cursor, or the link to what follows; "
        "without it links are read from the Link header.",
    )
    keep_cursor: bool = Field(
        default=False,
        description="Whether the next pull goes on where the last cursor led to.",
    )

    @model_validator(mode="after")
    def _is_whole(self) -> List:
        if bool(self.since_parameter) != (self.since is not None):
            raise ValueError(
                "only one of since_parameter and since is set; set both or neither"
            )
        if self.same_sku == "sum" and (self.since or self.keep_cursor):
            raise ValueError(
                'same_sku = "sum" needs the whole list at each poll; leave out'
                " since and keep_cursor"
            )
        if self.keep_cursor and (self.since or self.paging != "cursor"):
            raise ValueError(
                'keep_cursor needs paging = "cursor", and cannot be combined with since'
            )
        if self.paging == "cursor" and self.next is None:
            raise ValueError('if paging is "cursor", next must be set too')
        return self


class Push(BaseModel):
    """`[connectors.NAME.pushes."TOPIC"]`: the request for a change of this topic."""

    model_config = STRICT

    path: UrlPath = Field(description="Path below base_url; may hold {object_id}.")
    method: Literal["POST", "PUT", "PATCH"] = Field(
        default="POST", description="How it is sent."
    )
    body: Expression = Field(
        default="@",
        description="What is sent, of id, store, topic, object_id, occurred_at and "
        "document.",
    )
    reference: Expression | None = Field(
        default=None, description="Where the answer has the system's own number."
    )
    lookup_path: UrlPath | None = Field(
        default=None,
        description="Path that tells whether the change is there, by {id} or "
        "{object_id}.",
    )
    lookup_reference: Expression = Field(
        default="@", description="Where that answer has the number; nothing is absent."
    )

    @model_validator(mode="after")
    def _names_the_change(self) -> Push:
        if self.lookup_path and not any(p in self.lookup_path for p in PLACES):
            raise ValueError(
                "lookup_path must contain {id} or {object_id}, such as /orders/{id}"
            )
        return self


class Settings(BaseModel):
    """`[connectors.NAME]` with `type = "http_json"`."""

    model_config = STRICT

    base_url: str = Field(description="Where the system is; nothing else is called.")
    auth: Literal["none", "bearer", "basic", "header"] = Field(
        default="none", description="How the token is shown."
    )
    token: SecretStr = Field(
        default=SecretStr(""), description="Token, key, or password of user."
    )
    user: str = Field(default="", description="The user, with auth = basic.")
    header: str = Field(
        default="X-API-Key",
        pattern=r"^[A-Za-z0-9-]+$",
        description="Name of the header, with auth = header.",
    )
    lists: dict[str, List] = Field(
        default_factory=dict, description="The lists that are read."
    )
    pushes: dict[str, Push] = Field(
        default_factory=dict, description="What is sent, by topic."
    )
    answer_seconds: float = Field(
        default=30.0, gt=0, le=300, description="Seconds that an answer may take."
    )
    in_flight_seconds: float | None = Field(
        default=None,
        gt=0,
        le=600,
        description="How long the system may still process a request after the "
        "connection was lost. Until then a missing change is not taken as absent. "
        "Default: twice answer_seconds.",
    )
    most_bytes: int = Field(
        default=5_000_000, ge=1_000, description="Size of the largest answer."
    )
    network: Network = Field(
        default=Network(),
        description="Addresses that are allowed besides public HTTPS servers.",
    )

    @model_validator(mode="after")
    def _can_work(self) -> Settings:
        url = reachable(self.base_url, self.network)
        if url.query_string or url.fragment:
            raise ValueError("base_url must end with its path")
        if (self.auth == "none") == bool(self.token.get_secret_value()):
            raise ValueError("only one of auth and token is set; set both or neither")
        if unknown := self.pushes.keys() - set(TOPICS):
            raise ValueError(f"no topic is called {', '.join(sorted(unknown))}")
        if not self.lists and not self.pushes:
            raise ValueError(
                "the connection has neither lists nor pushes; set at least one of them"
            )
        if self.late_request_seconds < self.answer_seconds:
            least = f"{self.answer_seconds:g}"
            raise ValueError(
                f"in_flight_seconds must be {least} or more, because a response can"
                " take that long"
            )
        return self

    @property
    def late_request_seconds(self) -> float:
        """Seconds after which the system has ended an abandoned request."""
        return self.in_flight_seconds or 2 * self.answer_seconds
