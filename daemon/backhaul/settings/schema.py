"""The models of the configuration: one per table, with descriptions and defaults."""

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from backhaul.settings.alerts import AlertSettings
from backhaul.settings.connections import Connector, Store
from backhaul.settings.jobs import Job, Jobs, Scheduled, StoreJobName, polling_job
from backhaul.settings.values import (
    DATABASE_PREFIX,
    BaseUrl,
    Count,
    DatabaseUrl,
    Delays,
    Duration,
    FilePath,
    Name,
    Networks,
    Port,
    Seconds,
    Section,
    Text,
    parse_duration,
)

Level = Literal["TRACE", "DEBUG", "INFO", "WARNING", "ERROR"]


def upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


class Database(Section):
    """Storage: the SQLite file and how long data is kept."""

    url: DatabaseUrl = Field(
        default="",
        description='The SQLite file, such as "sqlite:////var/lib/backhaul/'
        'backhaul.db" (four slashes: an absolute path). Empty: backhaul.db in '
        "state_dir.",
    )
    retention_days: Count = Field(
        default=30,
        le=3_650,
        description="How many days Backhaul keeps the bodies and headers of events, "
        "and stock counts that changed nothing. It keeps the outcome of each event "
        "forever.",
    )


class Public(Section):
    """Public listener: called by the platform and by connected systems."""

    host: Text = Field(
        default="0.0.0.0",  # noqa: S104 - the platform calls from outside
        description="Address to listen on.",
    )
    port: Port = Field(
        default=8750,
        description="Port to listen on; 0 picks a free port and logs it.",
    )
    url: BaseUrl | None = Field(
        default=None,
        description="URL at which the platform reaches this listener, such as "
        '"https://hooks.example". If set, Backhaul creates and maintains the webhook '
        "subscription of each store.",
    )
    max_body_bytes: Count = Field(
        default=1_048_576,
        description="Maximum size of a request body, in bytes; a larger one gets 413.",
    )
    request_seconds: Seconds = Field(
        default=10, description="Maximum time for a request to arrive, in seconds."
    )
    max_connections: Count = Field(
        default=512, description="Maximum number of open connections."
    )
    max_waiting_bytes: Count = Field(
        default=16_777_216,
        description="Maximum bytes of all requests that are arriving or wait for the "
        "disk; above it, requests get 503. Set it to several times `max_body_bytes`.",
    )
    slow_per_address: Count = Field(
        default=32,
        description="Maximum slow requests (arriving for more than 1 s) per client "
        "address; Backhaul closes newer ones.",
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="Addresses or networks of your own proxies, such as "
        '["10.0.0.0/8"]; `slow_per_address` does not apply to them.',
    )


class Admin(Section):
    """Admin listener: dashboard, health checks and metrics."""

    host: Text = Field(
        default="127.0.0.1",
        description="Address to listen on. Use a loopback address or an HTTPS proxy: "
        "the monitoring endpoints need no login.",
    )
    port: Port = Field(
        default=8751,
        description="Port to listen on; 0 picks a free port and logs it.",
    )
    url: BaseUrl | None = Field(
        default=None,
        description="URL at which users open the dashboard, such as "
        '"https://backhaul.example", if it is behind a proxy.',
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="Addresses or networks of your own proxies, such as "
        '["127.0.0.1"]; Backhaul trusts their X-Forwarded-Proto and X-Forwarded-For.',
    )


class Push(Section):
    """How commands are sent to the platform."""

    dry_run: bool = Field(
        default=False,
        description="Dry run: plan commands and send none. The log and `backhaul "
        "commands list --plan` show what would be sent. When you turn it off, all "
        "planned commands are sent.",
    )
    eager: bool = Field(
        default=True,
        description="Whether commands are sent as soon as they are planned, if their "
        "job has no schedule of its own (`trigger`, `every`, `cron` or `quiet`). If "
        "false, they are sent only when the job runs. A job's own schedule or `eager` "
        "takes precedence.",
    )
    concurrency: Count = Field(
        default=8,
        le=64,
        description="Maximum number of orders and products with a command in progress "
        "at the same time, per store.",
    )
    connect_seconds: Seconds = Field(
        default=5, description="Timeout for connecting to the platform, in seconds."
    )
    read_seconds: Seconds = Field(
        default=30,
        description="Timeout for the platform's response, in seconds. Without a "
        "response the command is uncertain, and Backhaul checks its outcome: see "
        "`check_after`.",
    )
    max_response_bytes: Count = Field(
        default=5_000_000, description="Maximum size of a response, in bytes."
    )
    retry_base: Duration = Field(
        default=parse_duration("1s"),
        description="Delay before the first retry; it doubles each time.",
    )
    retry_cap: Duration = Field(
        default=parse_duration("1m"), description="Maximum delay between two retries."
    )
    longest_pause: Duration = Field(
        default=parse_duration("5m"),
        le=86_400,
        description="Maximum length of a pause that the platform requests because of "
        "its rate limit (429 with `Retry-After`, or `RateLimit`). After the pause "
        "Backhaul sends one request as a test. `backhaul status` and an alert report "
        "a pause of more than a minute.",
    )
    check_after: Delays = Field(
        default=(0.0, parse_duration("2m"), parse_duration("10m")),
        description="When Backhaul checks the outcome of an uncertain command, "
        "counted from the moment it became uncertain. Any check can find that the "
        "command took effect; only the last one can conclude that it did not. Set the "
        "last value longer than a request can take to reach the platform and take "
        "effect there. `looks` is the old name of this setting and still works.",
    )
    on_absent: Literal["resend", "park"] = Field(
        default="resend",
        description="What happens to an uncertain command if the last check finds no "
        "effect: `resend` sends it again, `park` leaves it to an operator.",
    )
    cancel_partly_shipped: Literal["ask", "restock_unshipped"] = Field(
        default="ask",
        description="What happens to a cancellation with restock if some units of the "
        "order were shipped and are not reported as returned. `ask` parks the "
        "cancellation for an operator. `restock_unshipped` cancels without restock; "
        "then it adds to the stock the units that were not shipped.",
    )


class Connect(Section):
    """Settings of all connections."""

    match_wait: Duration = Field(
        default=parse_duration("10m"),
        description="How long a record waits for an unknown order or product to appear "
        "before it goes to quarantine.",
    )


class Reconcile(Section):
    """How Backhaul keeps the mirror in sync with the platform."""

    backfill_on_start: bool = Field(
        default=True,
        description="Backfill: read a store's products, stock, orders and customers at "
        "the first start with the store.",
    )
    grace: Duration = Field(
        default=parse_duration("10s"),
        description="How long to wait for the webhook of a change that a poll or full "
        "sync found. After that Backhaul reads the object and counts it as drift.",
    )
    overlap: Duration = Field(
        default=parse_duration("2m"),
        description="Each poll also reads the changes of this period before the "
        "previous poll, so that it misses none.",
    )


class Log(Section):
    """Level, format and file of the log."""

    level: Annotated[Level, BeforeValidator(upper)] = Field(
        default="INFO", description="The lowest level that is logged."
    )
    format: Literal["auto", "text", "json"] = Field(
        default="auto",
        description="`text` is for people, `json` writes one object per line; `auto` "
        "is `text` on a terminal and `json` elsewhere.",
    )
    file: FilePath | None = Field(
        default=None,
        description="An additional log file, in JSON; rotated at 50 MB, five files are "
        "kept.",
    )


class Settings(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=False,
        hide_input_in_errors=True,
        env_prefix="BACKHAUL_",
        env_nested_delimiter="__",
    )

    state_dir: FilePath = Field(
        default=Path("/var/lib/backhaul"),
        description="Folder for the database, the lock and the control socket; must be "
        "on a local disk.",
    )
    database: Database = Field(default=Database(), description="The database.")
    public: Public = Field(default=Public(), description="The public listener.")
    admin: Admin = Field(default=Admin(), description="The admin listener.")
    stores: Annotated[dict[Name, Store], Field(min_length=1)] = Field(
        description="The stores, by name."
    )
    connectors: dict[Name, Connector] = Field(
        default={}, description="The connections, by name."
    )
    jobs: Jobs = Field(default=Jobs(), description="The scheduled jobs.")
    push: Push = Field(default=Push(), description="Sending commands.")
    connect: Connect = Field(default=Connect(), description="All connections.")
    reconcile: Reconcile = Field(
        default=Reconcile(), description="Keeping the mirror in sync."
    )
    alerts: AlertSettings = Field(
        default=AlertSettings(), description="Alerts to operators."
    )
    log: Log = Field(default=Log(), description="The log.")
    _key_files: dict[str, Path] = PrivateAttr(default_factory=dict)

    @field_validator("connectors")
    @classmethod
    def _only_store(
        cls, connectors: dict[str, Connector], info: ValidationInfo
    ) -> dict[str, Connector]:
        """Fill in the only store where a connection names none."""
        stores = list(info.data.get("stores", ()))
        if len(stores) != 1:
            return connectors
        return {
            name: connector.model_copy(update={"store": connector.store or stores[0]})
            for name, connector in connectors.items()
        }

    def planned_jobs(self) -> dict[tuple[str, str], Scheduled]:
        """Return every job by name and store; the store is "" for shared jobs.

        Each enabled connection has a job of its own, which polls it.
        """
        return {
            ("prune", ""): self.jobs.prune,
            ("backup", ""): self.jobs.backup,
            **{
                (name, store): self._job(name, store)
                for name in get_args(StoreJobName)
                for store in self.stores
            },
            **{
                (polling_job(name), ""): connector
                for name, connector in self.connectors.items()
                if connector.enabled
            },
        }

    def _job(self, name: StoreJobName, store: str) -> Job:
        job: Job = getattr(self.jobs, name)
        own = self.stores[store].jobs.get(name)
        return job.for_store(own) if own else job

    @property
    def dry_run_connections(self) -> tuple[str, ...]:
        """The connections whose commands are not sent; ("*",) means all."""
        if self.push.dry_run:
            return ("*",)
        return tuple(name for name, each in self.connectors.items() if each.dry_run)

    @property
    def database_file(self) -> Path:
        """The SQLite file that `database.url` names."""
        url = self.database.url
        if not url:
            return self.state_dir / "backhaul.db"
        return Path(url.removeprefix(DATABASE_PREFIX))

    @property
    def backup_folder(self) -> Path:
        """The folder for the backups of `[jobs.backup]`."""
        return self.jobs.backup.folder or self.state_dir / "backups"

    @property
    def key_files(self) -> dict[str, Path]:
        """The files that hold API keys, by store; `load_settings` fills it in."""
        return self._key_files

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use only the given values: `load_settings` reads all sources itself."""
        return (init_settings,)
