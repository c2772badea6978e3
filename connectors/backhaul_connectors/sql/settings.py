"""The settings of a database: address, tables to read, tables to write."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from backhaul_sdk.contract import STRICT
from backhaul_sdk.extras import require_extra
from backhaul_sdk.fields import checked_reason_map, zone_named

DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "sqlite": "sqlite",
}
TOPICS = frozenset(
    {
        "order.placed",
        "order.updated",
        "order.cancelled",
        "stock.changed",
        "product.updated",
        "customer.updated",
    }
)
SPECIAL = frozenset({"@topic", "@store", "@object", "@occurred_at", "@document"})
LONGEST_NAME = 128
REASON = (
    "Column of the reason. Unless it is set, `reason` is read where it exists; an "
    "empty name means that there is none."
)


def column_named(name: str) -> str:
    """Return the name of a column, unchanged. Raises ValueError if invalid."""
    if not name or not name.isprintable() or len(name) > LONGEST_NAME:
        raise ValueError(f"{name!r} cannot be the name of a column or table")
    return name


def table_named(name: str) -> str:
    """Return `table` or `schema.table`, unchanged. Raises ValueError if invalid."""
    for part in name.split("."):
        column_named(part)
    if name.count(".") > 1:
        raise ValueError(
            f"{name!r} is not the name of a table; write table or schema.table"
        )
    return name


def checked_query(query: str) -> str:
    """Return a query without the semicolon at its end. Raises ValueError."""
    text = query.strip().rstrip(";").rstrip()
    if text.partition(" ")[0].split("\n")[0].lower() not in ("select", "with"):
        raise ValueError("query must begin with SELECT or WITH")
    return text


Column: TypeAlias = Annotated[str, AfterValidator(column_named)]
Optional: TypeAlias = Annotated[
    str, AfterValidator(lambda text: text and column_named(text))
]
Table: TypeAlias = Annotated[str, AfterValidator(table_named)]


class FulfillmentColumns(BaseModel):
    """The names of the columns of shipments; an empty name means none."""

    model_config = STRICT

    order: Column = Field(
        default="order_number", description="Column of the order's number."
    )
    tracking_company: Optional = Field(
        default="tracking_company", description="Column of the carrier."
    )
    tracking_number: Optional = Field(
        default="tracking_number", description="Column of the tracking number."
    )
    sku: Optional = Field(
        default="", description="Column of the SKU, for a part of an order."
    )
    quantity: Optional = Field(
        default="", description="Column of how many units of the SKU left."
    )
    lines: Optional = Field(
        default="",
        description=(
            "Column of a JSON list of sku and quantity, for shipments of several"
            " SKUs; instead of `sku` and `quantity`."
        ),
    )
    shipped_at: Optional = Field(
        default="", description="Column of when the parcel left."
    )


class CancellationColumns(BaseModel):
    """The names of the columns of cancellations."""

    model_config = STRICT

    order: Column = Field(
        default="order_number", description="Column of the order's number."
    )
    restock: Column = Field(
        default="restock", description="Column that tells whether goods go back."
    )
    reason: Optional = Field(default="reason", description=REASON)


class StockDeltaColumns(BaseModel):
    """The names of the columns of stock changes."""

    model_config = STRICT

    sku: Column = Field(default="sku", description="Column of the SKU.")
    adjustment: Column = Field(
        default="adjustment", description="Column of the signed change, in units."
    )
    reason: Optional = Field(default="reason", description=REASON)


class StockLevelColumns(BaseModel):
    """The names of the columns of stock levels."""

    model_config = STRICT

    sku: Column = Field(default="sku", description="Column of the SKU.")
    quantity: Column = Field(
        default="quantity", description="Column of how many units there are."
    )
    as_of: Optional = Field(
        default="",
        description="Column of when it was counted; without it `changed_at`, or the "
        "moment it was read.",
    )


class Source(BaseModel):
    """A table or query with rows of one kind, and how new rows are recognized."""

    model_config = STRICT

    table: Annotated[str, AfterValidator(lambda t: t and table_named(t))] = Field(
        default="", description="Table or view, or schema.table."
    )
    query: Annotated[str, AfterValidator(lambda t: t and checked_query(t))] = Field(
        default="", description="A SELECT whose rows are read, instead of `table`."
    )
    id: Column = Field(
        default="id", description="Column that names the row; no two have the same."
    )
    changed_at: Optional = Field(
        default="",
        description="Column of when the row was written last: what is later than the "
        "row read before is new.",
    )
    processed_at: Optional = Field(
        default="",
        description="Column that is empty until the row was taken, and is then set by "
        "the connector; instead of `changed_at`.",
    )

    @model_validator(mode="after")
    def _is_one_place(self) -> Source:
        if bool(self.table) == bool(self.query):
            raise ValueError("exactly one of table and query must be set")
        if self.changed_at and self.processed_at:
            raise ValueError(
                "changed_at and processed_at are both set; set only one of them"
            )
        if self.query and self.processed_at:
            raise ValueError(
                "processed_at needs table instead of query, because Backhaul writes"
                " to this column"
            )
        return self


class _Followed(Source):
    @model_validator(mode="after")
    def _has_order(self) -> _Followed:
        if not self.changed_at and not self.processed_at:
            raise ValueError(
                "changed_at and processed_at are both missing; set one of them,"
                " because Backhaul identifies new rows by this column"
            )
        return self


class Fulfillments(_Followed):
    """Shipments that left the warehouse."""

    columns: FulfillmentColumns = Field(
        default=FulfillmentColumns(), description="What the columns are called."
    )


class Cancellations(_Followed):
    """Orders that will not be delivered."""

    columns: CancellationColumns = Field(
        default=CancellationColumns(), description="What the columns are called."
    )


class StockDeltas(_Followed):
    """Movements of stock."""

    columns: StockDeltaColumns = Field(
        default=StockDeltaColumns(), description="What the columns are called."
    )


class StockLevels(Source):
    """Stock levels. Without `changed_at` and `processed_at` all rows are read."""

    columns: StockLevelColumns = Field(
        default=StockLevelColumns(), description="What the columns are called."
    )

    @model_validator(mode="after")
    def _has_count_time(self) -> StockLevels:
        if self.processed_at and not self.columns.as_of:
            raise ValueError(
                "if processed_at is set, columns.as_of must be set too: the column with"
                " the time of the count"
            )
        return self


class WriteTarget(BaseModel):
    """A table that changes of the store are written to."""

    model_config = STRICT

    topics: tuple[str, ...] = Field(
        min_length=1,
        description='Change notifications that are written, such as "order.placed".',
    )
    table: Table = Field(description="Table, or schema.table.")
    change_column: Column = Field(
        default="change_id",
        description="Column that holds the id of the change written last.",
    )
    object_column: Optional = Field(
        default="",
        description="Column that holds the id of the order, product or customer, to "
        "keep one row for each up to date; without it each change is a row.",
    )
    columns: dict[Column, str] = Field(
        default_factory=dict,
        description="Other columns, each with what it is filled from: a path such as "
        "customer.email, or @topic, @store, @object, @occurred_at, @document.",
    )

    @field_validator("topics")
    @classmethod
    def _are_known(cls, topics: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := sorted(set(topics) - TOPICS):
            raise ValueError(
                f"{unknown[0]!r} is not one of {', '.join(sorted(TOPICS))}"
            )
        return topics

    @field_validator("columns")
    @classmethod
    def _can_be_filled(cls, columns: dict[str, str]) -> dict[str, str]:
        for source in columns.values():
            if not source or (source.startswith("@") and source not in SPECIAL):
                known = ", ".join(sorted(SPECIAL))
                raise ValueError(f"{source!r} is neither a path nor one of {known}")
        return columns

    @model_validator(mode="after")
    def _has_each_column_once(self) -> WriteTarget:
        own = [self.change_column, self.object_column, *self.columns]
        if twice := [name for name in self.columns if own.count(name) > 1]:
            raise ValueError(
                f"column {twice[0]!r} is used twice; each value needs a column of its"
                " own"
            )
        return self


class Settings(BaseModel):
    """`[connectors.NAME]` with `type = "sql"`."""

    model_config = STRICT

    url: SecretStr = Field(
        description="Address of the database, such as "
        '"postgresql://backhaul@db.example/erp", mysql://, mariadb:// or '
        "sqlite:////srv/erp.db.",
    )
    password: SecretStr | None = Field(
        default=None, description="The user's password, where `url` has none."
    )
    fulfillments: Fulfillments | None = Field(
        default=None, description="Where shipments are read from."
    )
    cancellations: Cancellations | None = Field(
        default=None, description="Where cancellations are read from."
    )
    stock_deltas: StockDeltas | None = Field(
        default=None, description="Where movements of stock are read from."
    )
    stock_levels: StockLevels | None = Field(
        default=None, description="Where levels of stock are read from."
    )
    write: tuple[WriteTarget, ...] = Field(
        default=(), description="Tables that changes of the store are written to."
    )
    lag_seconds: float = Field(
        default=10.0,
        ge=0,
        description="Seconds for which a row must have been there before it is read "
        "by `changed_at`: as long as most transactions that write such rows.",
    )
    overlap_seconds: float = Field(
        default=300.0,
        ge=0,
        description="Seconds behind the last row that are read again by `changed_at`, "
        "for rows that were committed late.",
    )
    timezone: str = Field(
        default="UTC",
        description="Time zone of times that do not name theirs, such as Asia/Kolkata.",
    )
    reason_map: Annotated[dict[str, str], AfterValidator(checked_reason_map)] = Field(
        default_factory=dict,
        description="What the system's words for a reason mean; `*` is any other.",
    )
    same_sku: Literal["refuse", "sum"] = Field(
        default="refuse",
        description=(
            "What several rows of one SKU mean where the whole list is read. `sum`:"
            " each row is one part of the stock, and Backhaul adds up the rows."
            " `refuse`: Backhaul uses none of these rows."
        ),
    )
    absent: Literal["keep", "zero"] = Field(
        default="keep",
        description=(
            "What a stock list that is read whole says of a SKU that it leaves out"
            " and that an earlier read named: `keep` its stock, or `zero`."
        ),
    )
    absent_limit: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description=(
            "Share of these SKUs, from 0 to 1, above which `absent` waits for an"
            " operator."
        ),
    )
    negative_is_zero: bool = Field(
        default=True,
        description="Whether a stock level below 0 is taken as 0; else it is refused.",
    )
    batch_rows: int = Field(
        default=1_000,
        ge=1,
        le=10_000,
        description="Rows that are read and committed together.",
    )
    connect_seconds: float = Field(
        default=10.0, ge=1, le=300, description="How long connecting may take."
    )
    statement_seconds: float = Field(
        default=30.0, ge=0.1, le=3_600, description="How long one statement may take."
    )

    @field_validator("url")
    @classmethod
    def _is_a_database(cls, url: SecretStr) -> SecretStr:
        parsed(url.get_secret_value())
        return url

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        zone_named(name)
        return name

    @model_validator(mode="after")
    def _has_work(self) -> Settings:
        if not self.sources() and not self.write:
            raise ValueError(
                "the connection reads and writes nothing; set fulfillments,"
                " cancellations, stock_deltas, stock_levels or write"
            )
        followed = self.stock_levels is not None and (
            self.stock_levels.changed_at or self.stock_levels.processed_at
        )
        if self.absent == "zero" and followed:
            raise ValueError(
                'absent = "zero" needs the whole list at each poll; leave out'
                " changed_at and processed_at of stock_levels"
            )
        if self.same_sku == "sum" and followed:
            raise ValueError(
                'same_sku = "sum" needs the whole list at each poll; leave out'
                " changed_at and processed_at of stock_levels, or add the rows up"
                " in a query"
            )
        return self

    def sources(self) -> dict[str, Source]:
        """Return the sources, by kind."""
        all_sources: dict[str, Source | None] = {
            "fulfillments": self.fulfillments,
            "cancellations": self.cancellations,
            "stock_deltas": self.stock_deltas,
            "stock_levels": self.stock_levels,
        }
        return {kind: each for kind, each in all_sources.items() if each is not None}

    def address(self) -> URL:
        """Return the URL with the password, for the driver only."""
        url = parsed(self.url.get_secret_value())
        if self.password is None or url.get_backend_name() == "sqlite":
            return url
        return url.set(password=self.password.get_secret_value())


def parsed(text: str) -> URL:
    """Return the URL with our driver. Raises ValueError that shows no secret."""
    try:
        url = make_url(text)
        family = url.get_backend_name()
    except (ArgumentError, ValueError):
        problem = (
            "url is not the address of a database; write postgresql://USER@HOST/NAME"
        )
        raise ValueError(problem) from None
    if family not in DRIVERS:
        known = ", ".join(f"{name}://" for name in DRIVERS)
        raise ValueError(
            f"url begins with {family}://, but must begin with one of {known}"
        )
    if family == "sqlite" and not url.database:
        raise ValueError("url must name a file; write sqlite:////srv/erp.db")
    if family != "sqlite":
        extra = "postgres" if family == "postgresql" else "mysql"
        require_extra(extra, user="url")
    return url.set(drivername=DRIVERS[family])


def columns_of(source: Any) -> dict[str, str]:
    """Return the columns that a source certainly has, by their meaning."""
    return {
        meaning: name
        for meaning, name in source.columns.model_dump().items()
        if name and not (meaning == "reason" and seeks_reason(source))
    }


def seeks_reason(source: Any) -> bool:
    """Return True if the reason's column is read only if it exists."""
    known, written = type(source.columns).model_fields, source.columns.model_fields_set
    return "reason" in known and "reason" not in written
