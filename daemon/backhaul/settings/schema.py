"""Every setting: one model per table, with descriptions and defaults."""

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
    """Where everything is kept."""

    url: DatabaseUrl = Field(
        default="",
        description='The SQLite file, such as "sqlite:////var/lib/backhaul/'
        'backhaul.db" (four slashes: an absolute path). Empty: backhaul.db in '
        "state_dir.",
    )
    retention_days: Count = Field(
        default=30,
        le=3_650,
        description="How many days the bodies and headers of events are kept, and "
        "counts of stock that changed nothing; what became of events is kept for good.",
    )


class Public(Section):
    """The listener that the platform and the connectors' systems call."""

    host: Text = Field(
        default="0.0.0.0",  # noqa: S104 - the platform calls from outside
        description="Address to listen on.",
    )
    port: Port = Field(
        default=8750,
        description="Port to listen on; 0 takes any free one, which is then shown.",
    )
    url: BaseUrl | None = Field(
        default=None,
        description="Address at which the platform reaches this listener, such as "
        '"https://hooks.example". With it the webhook subscription of each store is '
        "made and kept in order.",
    )
    max_body_bytes: Count = Field(
        default=1_048_576,
        description="Largest body that is accepted, in bytes; a larger one is answered "
        "413.",
    )
    request_seconds: Seconds = Field(
        default=10, description="Longest time a request may take to arrive, in seconds."
    )
    max_connections: Count = Field(
        default=512, description="Connections that may be open at once."
    )
    max_waiting_bytes: Count = Field(
        default=16_777_216,
        description="Bytes of requests that may be on their way in, or wait for the "
        "disk, at once; what comes above that is answered 503. Keep it at several "
        "times max_body_bytes.",
    )
    slow_per_address: Count = Field(
        default=32,
        description="Requests of one address that may be on their way for more than a "
        "second; the newest above that are closed.",
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="Addresses or networks of your own proxies, such as "
        '["10.0.0.0/8"]: slow_per_address does not count for them.',
    )


class Admin(Section):
    """The listener for people and monitoring: dashboard, health and metrics."""

    host: Text = Field(
        default="127.0.0.1",
        description="Address to listen on; keep it on this machine or behind a proxy "
        "that speaks https: what monitoring reads asks nobody who they are.",
    )
    port: Port = Field(
        default=8751,
        description="Port to listen on; 0 takes any free one, which is then shown.",
    )
    url: BaseUrl | None = Field(
        default=None,
        description="Address at which people open the dashboard, such as "
        '"https://backhaul.example", where a proxy stands before it.',
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="Addresses or networks of your own proxies, such as "
        '["127.0.0.1"]: what they say in X-Forwarded-Proto and X-Forwarded-For is '
        "believed.",
    )


class Push(Section):
    """How commands are sent to the platform."""

    dry_run: bool = Field(
        default=False,
        description="Plan and send nothing: what would be sent is logged and shown by "
        "`backhaul commands list --plan`. Without it, all that was planned leaves.",
    )
    eager: bool = Field(
        default=True,
        description="Whether commands leave as soon as they are planned where no "
        "schedule is written for their job (`trigger`, `every`, `cron` or `quiet`); "
        "false: they leave only when the job runs. A job's own schedule or `eager` "
        "comes first.",
    )
    concurrency: Count = Field(
        default=8,
        le=64,
        description="Orders and products that are worked on at once, per store.",
    )
    connect_seconds: Seconds = Field(
        default=5, description="Longest wait for a connection, in seconds."
    )
    read_seconds: Seconds = Field(
        default=30,
        description="Longest wait for an answer, in seconds. A command without one is "
        "in doubt: the platform is read back, see `check_after`.",
    )
    max_response_bytes: Count = Field(
        default=5_000_000, description="Largest answer that is read, in bytes."
    )
    retry_base: Duration = Field(
        default=parse_duration("1s"),
        description="Wait before the first retry; it doubles each time.",
    )
    retry_cap: Duration = Field(
        default=parse_duration("1m"), description="Longest wait between two retries."
    )
    longest_pause: Duration = Field(
        default=parse_duration("5m"),
        le=86_400,
        description="Longest pause that a rate limit of the platform causes (429 with "
        "`Retry-After`, or `RateLimit`). After it one request tries again. A pause of "
        "more than a minute is shown in `backhaul status` and raises an alert.",
    )
    check_after: Delays = Field(
        default=(0.0, parse_duration("2m"), parse_duration("10m")),
        description="When the platform is read for the effect of a command in doubt, "
        "counted from the doubt. That it took effect may be found at any look, that it "
        "did not only at the last: leave it time for the longest delay on the way.",
    )
    on_absent: Literal["resend", "park"] = Field(
        default="resend",
        description="What becomes of a command that no look has found: resend sends it "
        "again, park leaves that to a person.",
    )
    cancel_partly_shipped: Literal["ask", "restock_unshipped"] = Field(
        default="ask",
        description="What becomes of a cancellation with restock of an order of which "
        "units have shipped and are not reported returned. ask parks it for an "
        "operator; restock_unshipped cancels without the restock, and then adds the "
        "units that have not shipped to the stock.",
    )


class Connect(Section):
    """What holds for every connector."""

    match_wait: Duration = Field(
        default=parse_duration("10m"),
        description="How long a record waits for an order or product that is not known "
        "yet before it is set aside.",
    )


class Reconcile(Section):
    """How the mirror is kept equal to the platform."""

    backfill_on_start: bool = Field(
        default=True,
        description="Read a store's products, stock, orders and customers once, when "
        "the daemon meets it for the first time.",
    )
    grace: Duration = Field(
        default=parse_duration("10s"),
        description="How long a difference is left to the webhook that may still tell "
        "of it, before it is read and counted as drift.",
    )
    overlap: Duration = Field(
        default=parse_duration("2m"),
        description="How far a look for what changed reaches back behind the last one.",
    )


class Log(Section):
    """What is logged, and where."""

    level: Annotated[Level, BeforeValidator(upper)] = Field(
        default="INFO", description="The least important level that is logged."
    )
    format: Literal["auto", "text", "json"] = Field(
        default="auto",
        description="text for people, json for one object a line; auto is text on a "
        "terminal, else json.",
    )
    file: FilePath | None = Field(
        default=None,
        description="A file to write to as well, as json; rotated at 50 MB, five are "
        "kept.",
    )


class Settings(BaseSettings):
    """The configuration."""

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
        default={}, description="The connectors' instances, by name."
    )
    jobs: Jobs = Field(default=Jobs(), description="The scheduled jobs.")
    push: Push = Field(default=Push(), description="Sending commands.")
    connect: Connect = Field(default=Connect(), description="All connectors.")
    reconcile: Reconcile = Field(default=Reconcile(), description="Reading back.")
    alerts: AlertSettings = Field(
        default=AlertSettings(), description="Telling a person."
    )
    log: Log = Field(default=Log(), description="The log.")
    _key_files: dict[str, Path] = PrivateAttr(default_factory=dict)

    @field_validator("connectors")
    @classmethod
    def _only_store(
        cls, connectors: dict[str, Connector], info: ValidationInfo
    ) -> dict[str, Connector]:
        """Fill in the store that was left out because there is only one."""
        stores = list(info.data.get("stores", ()))
        if len(stores) != 1:
            return connectors
        return {
            name: connector.model_copy(update={"store": connector.store or stores[0]})
            for name, connector in connectors.items()
        }

    def planned_jobs(self) -> dict[tuple[str, str], Scheduled]:
        """Return every job by its name and store; "" where it is of no store.

        The polls of each enabled connector are a job of their own.
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
        return job.altered(own) if own else job

    @property
    def rehearsed(self) -> tuple[str, ...]:
        """The connectors of which nothing is sent, by name; `*` stands for all."""
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
        """Where `[jobs.backup]` puts its copies."""
        return self.jobs.backup.folder or self.state_dir / "backups"

    @property
    def key_files(self) -> dict[str, Path]:
        """The files that API keys stand in, by store; filled in by `load_settings`."""
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
        """Take what is handed in only: `load_settings` knows each value's origin."""
        return (init_settings,)
