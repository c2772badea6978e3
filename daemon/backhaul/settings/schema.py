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

from backhaul.settings.connections import API, Connector, Store
from backhaul.settings.infrastructure import (
    ROLES,
    AlertSettings,
    Cluster,
    Database,
)
from backhaul.settings.jobs import Job, Jobs, Scheduled, StoreJobName, polling_job
from backhaul.settings.listeners import Admin, Public
from backhaul.settings.telemetry import Telemetry
from backhaul.settings.values import (
    DATABASE_PREFIX,
    Count,
    Delays,
    Duration,
    FilePath,
    Name,
    Seconds,
    Section,
    parse_duration,
    without_password,
)

Level = Literal["TRACE", "DEBUG", "INFO", "WARNING", "ERROR"]


def upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


class Push(Section):
    """How Backhaul sends commands to the platform."""

    dry_run: bool = Field(
        default=False,
        description="Dry run: Backhaul plans commands and does not send them. The log "
        "and `backhaul commands list --plan` show these commands. When you turn the "
        "dry run off, Backhaul sends all planned commands.",
    )
    eager: bool = Field(
        default=True,
        description="`true`: Backhaul sends each planned command immediately. "
        "`false`: Backhaul sends planned commands only when their job runs. This "
        "setting does not apply to a job that has its own `eager`, or its own "
        "schedule (`trigger`, `every`, `cron` or `quiet`).",
    )
    concurrency: Count = Field(
        default=8,
        le=64,
        description="Maximum number of orders and products of a store for which "
        "Backhaul sends commands at the same time.",
    )
    connect_seconds: Seconds = Field(
        default=5, description="Timeout for connecting to the platform, in seconds."
    )
    read_seconds: Seconds = Field(
        default=30,
        description="Timeout for the platform's response, in seconds. If no response "
        "arrives in this time, the command is uncertain. Then Backhaul checks its "
        "outcome: see `check_after`.",
    )
    max_response_bytes: Count = Field(
        default=5_000_000,
        description="Maximum size of a response from the platform, in bytes.",
    )
    retry_base: Duration = Field(
        default=parse_duration("1s"),
        description="Delay before the first retry. The delay doubles with each "
        "further retry.",
    )
    retry_cap: Duration = Field(
        default=parse_duration("1m"), description="Maximum delay between two retries."
    )
    longest_pause: Duration = Field(
        default=parse_duration("5m"),
        le=86_400,
        description="The longest pause that Backhaul makes if the platform asks for a "
        "pause. The platform asks for a pause because of its rate limit: with status "
        "429 and the header `Retry-After`, or with the header `RateLimit`. After the "
        "pause Backhaul sends one request as a test. `backhaul status` and an alert "
        "report a pause of more than a minute.",
    )
    check_after: Delays = Field(
        default=(0.0, parse_duration("2m"), parse_duration("10m")),
        description="When Backhaul checks the outcome of an uncertain command. "
        "Backhaul measures these times from the moment when the command "
        "became uncertain. Every check can "
        "find that the command took effect. Only the final check can decide that the "
        "command did not take effect. A request can be delayed and take effect late. "
        "So the last entry of the list must be longer than the longest "
        "possible delay of a request. If you do not "
        "know this delay, keep the default. "
        "`looks` is the old name of this setting. The old name still works.",
    )
    on_absent: Literal["resend", "park"] = Field(
        default="resend",
        description="What Backhaul does with an uncertain command if the final check "
        "finds no effect. `resend`: Backhaul sends the command again. `park`: "
        "Backhaul parks the command, and an operator decides.",
    )
    cancel_partly_shipped: Literal["ask", "restock_unshipped"] = Field(
        default="ask",
        description="A cancellation can ask Backhaul to put all units of the order "
        "back into stock. This setting says what Backhaul does if some of these units "
        "have shipped, and no return is reported. `ask`: Backhaul parks the "
        "cancellation, and an operator decides. `restock_unshipped`: Backhaul cancels "
        "the order, and puts only the unshipped units back into stock.",
    )


class Connect(Section):
    """Settings of all connections."""

    match_wait: Duration = Field(
        default=parse_duration("10m"),
        description="How long a record waits if Backhaul does not know its order or "
        "product yet. After this time the record goes to quarantine.",
    )


class Reconcile(Section):
    """How Backhaul keeps the mirror in sync with the platform."""

    backfill_on_start: bool = Field(
        default=True,
        description="Backfill: whether Backhaul reads all products, stock, orders and "
        "customers of a store at the first start with this store.",
    )
    grace: Duration = Field(
        default=parse_duration("10s"),
        description="If a poll or full sync finds a change, Backhaul waits this long "
        "for the webhook of the change. If no webhook arrives, Backhaul reads the "
        "object and counts the change as drift.",
    )
    overlap: Duration = Field(
        default=parse_duration("2m"),
        description="Each poll also reads again the last part of the previous poll's "
        "period, so that no change is missed. This is the length of that part.",
    )


class Log(Section):
    """Level, format and file of the log."""

    level: Annotated[Level, BeforeValidator(upper)] = Field(
        default="INFO", description="The lowest level that Backhaul logs."
    )
    format: Literal["auto", "text", "json"] = Field(
        default="auto",
        description="`text` is for people. `json` writes one JSON object per line. "
        "`auto` is `text` on a terminal, otherwise `json`.",
    )
    file: FilePath | None = Field(
        default=None,
        description="An additional log file, in JSON format. At 50 MB Backhaul starts "
        "a new file. Backhaul keeps five files.",
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
        description="Folder for the database, the lock file and the control socket. "
        "The folder must be on a local disk.",
    )
    database: Database = Field(default=Database(), description="The database.")
    cluster: Cluster = Field(default=Cluster(), description="Several daemons.")
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
    telemetry: Telemetry = Field(
        default=Telemetry(), description="Traces and metrics by OTLP."
    )
    _key_files: dict[str, Path] = PrivateAttr(default_factory=dict)

    @field_validator("cluster")
    @classmethod
    def _has_all_roles(cls, cluster: Cluster, info: ValidationInfo) -> Cluster:
        """Refuse to leave out a role where nobody else could have it."""
        database = info.data.get("database")
        if database and not database.is_server and cluster.roles != ROLES:
            raise ValueError(
                "roles must contain all three roles with a SQLite file, because"
                " only one daemon can use the file; leave roles out, or use"
                " PostgreSQL"
            )
        return cluster

    @field_validator("public")
    @classmethod
    def _shares_secrets(cls, public: Public, info: ValidationInfo) -> Public:
        """Require a key where several machines need the subscription's secret."""
        database, cluster = info.data.get("database"), info.data.get("cluster")
        if database and database.is_server and public.receivers:
            raise ValueError(
                "sets receivers, which works only with a SQLite file; remove this"
                " setting, and run more daemons with the role receiver"
            )
        if not (public.url and database and cluster):
            return public
        if database.is_server and not cluster.key:
            raise ValueError(
                "has a url, so on PostgreSQL key_file in [cluster] is required:"
                " with this key all machines encrypt the secrets of the webhook"
                " subscriptions"
            )
        return public

    @field_validator("admin")
    @classmethod
    def _shares_factors(cls, admin: Admin, info: ValidationInfo) -> Admin:
        """Require a key where several machines check the same second factors."""
        database, cluster = info.data.get("database"), info.data.get("cluster")
        needs_key = admin.require_totp and database and database.is_server
        if needs_key and cluster and not cluster.key:
            raise ValueError(
                "has require_totp, so on PostgreSQL key_file in [cluster] is"
                " required: with this key all machines encrypt the secrets of the"
                " second factors"
            )
        return admin

    @field_validator("connectors")
    @classmethod
    def _only_store(
        cls, connectors: dict[str, Connector], info: ValidationInfo
    ) -> dict[str, Connector]:
        """Fill in the only store where a connection names none."""
        if API in connectors:
            raise ValueError(
                f"cannot have the name {API!r}, because the records of programs that"
                " use the HTTP API have it; choose another name"
            )
        stores = list(info.data.get("stores", ()))
        if len(stores) != 1:
            return connectors
        return {
            name: connector.model_copy(update={"store": connector.store or stores[0]})
            for name, connector in connectors.items()
        }

    def planned_jobs(self) -> dict[tuple[str, str], Scheduled]:
        """Return every job by name and store; the store is "" for shared jobs.

        Each enabled connection has a job of its own, which polls it. A PostgreSQL
        server is backed up by its own tools.
        """
        is_file = isinstance(self.place, Path)
        return {
            ("prune", ""): self.jobs.prune,
            **({("backup", ""): self.jobs.backup} if is_file else {}),
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
    def pins(self) -> dict[str, str]:
        """The only host that may own a store, for each store that has one."""
        running = (self.connectors[name] for name in self.enabled_connectors)
        return {each.store: each.runs_on for each in running if each.runs_on}

    @property
    def enabled_connectors(self) -> list[str]:
        """The names of the connections that run."""
        return [name for name, each in self.connectors.items() if each.enabled]

    @property
    def dry_run_connections(self) -> tuple[str, ...]:
        """The connections whose commands are not sent; ("*",) means all."""
        if self.push.dry_run:
            return ("*",)
        return tuple(name for name, each in self.connectors.items() if each.dry_run)

    @property
    def place(self) -> Path | str:
        """Where the database is: the path of its file, or the URL of PostgreSQL.

        The URL may hold a password; `database_name` is for people.
        """
        url = self.database.url.get_secret_value()
        if self.database.is_server:
            return url
        if not url:
            return self.state_dir / "backhaul.db"
        return Path(url.removeprefix(DATABASE_PREFIX))

    @property
    def database_name(self) -> str:
        """The database in words: its file, or its URL without the password."""
        place = self.place
        return without_password(place) if isinstance(place, str) else str(place)

    @property
    def data_folder(self) -> Path:
        """The folder whose disk fills: of the database's file, or `state_dir`."""
        place = self.place
        return self.state_dir if isinstance(place, str) else place.parent

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
