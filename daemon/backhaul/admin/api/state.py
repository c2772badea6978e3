"""What programs read about the daemon: status, problems, stores, connections, jobs."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from backhaul.admin.api.endpoint import Api, Call, operates, reads
from backhaul.alerting.problem import Problem as FoundProblem
from backhaul.errors import BackhaulError
from backhaul.store.shown_fields import job_row, shape


async def show_status(api: Api, _: Call) -> object:
    """Show the status of the daemon, with all that the page shows."""
    return await api.services.status()


PresentProblem = shape("PresentProblem", FoundProblem)


class Problems(Struct, frozen=True):
    """What is wrong now, the worst first, each with what to do."""

    items: list[PresentProblem]  # type: ignore[valid-type]  # made at run time


async def list_problems(api: Api, _: Call) -> object:
    """List what is wrong now, the worst first."""
    return {"items": await api.services.problems()}


class StoreState(Struct, frozen=True):
    """A store. `stopped` says for each kind of command why it is not sent.

    `subscription` says what to do about the webhook subscription; it is empty if all is
    well. `in_sync_as_of` is the start of the last full sync without a difference.
    """

    store: str
    sending: int
    stopped: dict[str, str]
    paused: dict[str, str] | None
    subscription: str | None
    in_sync_as_of: str | None


class Stores(Struct, frozen=True):
    """The stores of the configuration."""

    items: list[StoreState]


async def list_stores(api: Api, _: Call) -> object:
    """List the stores, and whether Backhaul sends to each."""
    status = await api.services.status()
    consistency = await api.read(lambda reader: reader.consistency())
    return {
        "items": [
            {
                "store": name,
                "sending": found.get("sending", 0),
                "stopped": dict(found.get("stopped", {})),
                "paused": found.get("paused"),
                "subscription": status["subscriptions"].get(name),
                "in_sync_as_of": consistency[name].as_of
                if name in consistency
                else None,
            }
            for name in api.services.settings.stores
            for found in [status["stores"].get(name, {})]
        ]
    }


class Connection(Struct, frozen=True):
    """A connection; `state` is `up`, `down`, `disabled` or `unknown`."""

    connection: str
    type: str
    store: str
    state: str
    reason: str | None
    notices: list[str]


class Connections(Struct, frozen=True):
    """The connections of the configuration."""

    items: list[Connection]


async def list_connectors(api: Api, _: Call) -> object:
    """List the connections to the back office, and whether each works."""
    status = await api.services.status()
    return {
        "items": [
            _connection(name, own, status)
            for name, own in api.services.settings.connectors.items()
        ]
    }


def _connection(name: str, own: Any, status: dict[str, Any]) -> Connection:
    seen = status["connectors"].get(name)
    delivery = status.get("news", {}).get(name)
    state, reason = "unknown", None
    if not own.enabled:
        state = "disabled"
    elif seen is not None:
        state, reason = "up" if seen["up"] else "down", seen["reason"]
        if state == "up" and delivery is not None and not delivery["up"]:
            state, reason = "down", f"deliveries: {delivery['reason']}"
    notices = list(seen.get("notices", ())) if seen else []
    return Connection(name, own.type, own.store, state, reason, notices)


class OneName(Struct, frozen=True, forbid_unknown_fields=True):
    """The name in the path."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]


class Polled(Struct, frozen=True):
    """How many records the connection had, by what became of them."""

    records: dict[str, int]


async def run_connector(api: Api, call: Call) -> object:
    """Read the records of a connection now, without waiting for its schedule."""
    name, known = call.asked.name, api.services.settings.connectors
    if name not in known:
        raise BackhaulError(
            f"no connection is called {name!r}; the connections are:"
            f" {', '.join(known) or 'none'}"
        )
    return await api.change(call, "connectors/run", name=name)


class Job(Struct, frozen=True):
    """A scheduled job with its last and its next run; `store` is empty for all."""

    job: str
    store: str
    when: str
    rule: str | None
    paused_at: str | None
    outcome: str | None
    detail: str | None
    last_run_at: str | None
    trigger: str | None
    next_run_at: str | None


class JobList(Struct, frozen=True):
    """The jobs of the daemon."""

    items: list[Job]


async def list_jobs(api: Api, _: Call) -> object:
    """List the scheduled jobs with their last and next run."""
    status = await api.services.status()
    states = await api.read(lambda reader: reader.jobs())
    rows = []
    for label, when in status["plans"].items():
        job, _, store = label.partition(":")
        rows.append(
            job_row(
                (job, store),
                when,
                status["rules"].get(label),
                states.get((job, store)),
                status["jobs"].get(label),
            )
        )
    return {"items": rows}


class JobScope(Struct, frozen=True, forbid_unknown_fields=True):
    """The store whose job is meant; the jobs of all stores without it."""

    store: Annotated[str, Meta(min_length=1, max_length=64)] | None = None


class ChangedJob(Struct, frozen=True):
    """A job, and what was done with it."""

    job: str
    store: str
    done: str


class ChangedJobs(Struct, frozen=True):
    """The jobs that were changed."""

    jobs: list[ChangedJob]


async def run_job(api: Api, call: Call) -> object:
    """Run a job now, even if it is paused."""
    return await _job(api, call, "run")


async def pause_job(api: Api, call: Call) -> object:
    """Pause a job until somebody resumes it."""
    return await _job(api, call, "pause")


async def resume_job(api: Api, call: Call) -> object:
    """Resume a paused job."""
    return await _job(api, call, "resume")


async def _job(api: Api, call: Call, verb: str) -> object:
    asked = {"name": call.asked.name, "store": call.body.store}
    return await api.change(call, f"jobs/{verb}", **asked)


_JOB: dict[str, Any] = {"asked": OneName, "body": JobScope}
ENDPOINTS = (
    reads("/status", show_status, dict[str, Any]),
    reads("/problems", list_problems, Problems),
    reads("/stores", list_stores, Stores),
    reads("/connectors", list_connectors, Connections),
    operates("/connectors/{name}/run", run_connector, Polled, asked=OneName),
    reads("/jobs", list_jobs, JobList),
    operates("/jobs/{name}/run", run_job, ChangedJobs, **_JOB),
    operates("/jobs/{name}/pause", pause_job, ChangedJobs, **_JOB),
    operates("/jobs/{name}/resume", resume_job, ChangedJobs, **_JOB),
)
