"""Runs three replicas on this machine, kills one after another, and counts at the end.

The platform is outside of the cluster: it keeps what it sent, and what it was asked to
do. A load balancer passes webhooks and scans on to the replicas.
"""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backhaul.demo.comparison import compare_sides
from backhaul.demo.daemon_rows import (
    Kind,
    read_daemon_rows,
    read_owners,
    read_progress,
    read_totals,
)
from backhaul.demo.demo_folder import (
    COURIER,
    HOST,
    SCANNER,
    Access,
    DemoFolder,
    free_port,
    free_ports,
)
from backhaul.demo.postgres_servers import Servers
from backhaul.demo.processes import Balancer, Program, ProgramFailed
from backhaul.demo.program_pair import reference_server
from backhaul.demo.runner import (
    FAILED,
    INTERRUPTED,
    OK,
    Check,
    beside,
    interruptible,
    lent_folder,
    until_at_rest,
    work_left,
)
from backhaul.demo.screen import status_command
from backhaul.demo.simulation import Pace, ShopFloor
from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.demo.daemon_rows import Cause, Finding
    from backhaul.demo.screen import Screen
    from backhaul.demo.workers import Erp


REPLICAS = ("a", "b", "c")
STORES = ("berlin", "lisbon", "oslo", "paris", "rome", "vienna")
KILL_SECONDS, LEAST_SECONDS = 20.0, 5.0
"""From one kill to the next, and at least so long after the replica runs again."""
TAKEOVER_SECONDS = 60.0
"""The longest wait for new owners; with the default `ttl` it takes about 3 s."""
LOOK_SECONDS = 0.1
QUIET_SECONDS = 180.0
PACE = Pace(None, 1, (2.0, 5.0), (0.2, 1.0), 3.0)
RETRY_SCHEDULE = f"0,0.2,1{',2' * 60}"
"""Seconds before each try of a webhook: none is given up while a replica starts."""


class Branch(Struct, frozen=True):
    """One store, and what its people work with.

    A replica that gets a scan of a store which it does not own passes the scan on.
    """

    name: str
    access: Access
    public_url: str
    drop: Path
    device_tokens: Mapping[str, str]
    lines_port: int | None = None
    erp: Erp | None = None
    tryton: Any = None

    @property
    def scanner(self) -> str:
        return f"{SCANNER}_{self.name}"

    def cause(self, said: Cause) -> Cause:
        """Return a cause with the connection's name in this cluster."""
        return replace(said, instance=f"{said.instance}_{self.name}")


class Replica(Struct, frozen=True):
    """One daemon of the cluster."""

    name: str
    program: Program
    config: Path
    admin_url: str


class Cluster:
    """The running programs."""

    def __init__(
        self, url: str, replicas: Sequence[Replica], branches: Sequence[Branch]
    ) -> None:
        self.url = url
        self.replicas = {each.name: each for each in replicas}
        self.branches = branches

    async def owners(self) -> dict[str, str]:
        """Return the replica that owns each store, for those that have an owner."""
        try:
            urls = await asyncio.to_thread(read_owners, self.url)
        except BackhaulError:
            return {}
        names = {each.admin_url: each.name for each in self.replicas.values()}
        found = {store: names.get(urls.get(store, "")) for store in STORES}
        return {store: name for store, name in found.items() if name}


async def run_cluster(
    screen: Screen, clock: Clock, *, kills: int, keep: Path | None, seed: int
) -> int:
    """Run it until `kills` kills are over, or Ctrl-C. Returns the exit code.

    Raises BackhaulError if PostgreSQL's package is missing, or a program fails.
    """
    servers, ending, passed = Servers(clock), asyncio.Event(), None
    rng = random.Random(seed)  # noqa: S311 - plays a shop, guards nothing

    async def work() -> bool:
        async with open_cluster(folder, servers, clock, screen) as cluster:
            return await Play(cluster, screen, clock, rng, ending).play(kills)

    try:
        with lent_folder(keep) as (folder, kept):
            passed = await interruptible(work(), ending)
            if passed is False:
                kept()
                screen.say(f"logs and configuration are kept in {folder}")
    finally:
        servers.remove()
    if passed is None:
        screen.say("stopped at once, without a comparison")
        return INTERRUPTED
    return OK if passed else FAILED


class Play:
    """Traffic, kills and the count at the end, with a line on the screen for each."""

    def __init__(
        self,
        cluster: Cluster,
        screen: Screen,
        clock: Clock,
        rng: random.Random,
        ending: asyncio.Event,
    ) -> None:
        self._cluster = cluster
        self._screen = screen
        self._clock = clock
        self._rng = rng
        self._ending = ending
        self._began = clock.monotonic()
        self._takeovers: list[float] = []
        self._floors = [
            ShopFloor(each, PACE, random.Random(rng.random()), clock)  # noqa: S311 - as above
            for each in cluster.branches
        ]

    async def play(self, kills: int) -> bool:
        """Return True if nothing was lost or doubled, and both sides agree."""
        self._say(f"traffic for {len(STORES)} stores begins; Ctrl-C ends it")
        self._say(_owned(await self._until_owned()))
        watching = [
            self._restart_ended(each) for each in self._cluster.replicas.values()
        ]
        async with beside(*watching):
            async with asyncio.TaskGroup() as group:
                for floor in self._floors:
                    group.create_task(floor.play())
                await self._kill_often(kills)
                self._say("traffic ends; waiting until both sides are quiet")
                for floor in self._floors:
                    floor.close()
            return await self._compare()

    async def _kill_often(self, kills: int) -> None:
        pause = KILL_SECONDS
        for _ in range(kills):
            if await self._is_ending(pause):
                return
            took = await self._kill_one()
            pause = max(LEAST_SECONDS, KILL_SECONDS - took)
        await self._is_ending(pause)

    async def _kill_one(self) -> float:
        """Kill an owner, and start it again once all its stores have a new owner.

        Returns the seconds until it runs again.
        """
        before = await self._until_owned()
        victim = self._cluster.replicas[self._rng.choice(sorted(set(before.values())))]
        lost = [store for store, name in before.items() if name == victim.name]
        began = self._clock.monotonic()
        await victim.program.kill()
        self._say(f"kill -9 {victim.name}, which owned {', '.join(lost)}")
        after = await self._until_owned(victim.name)
        seconds = self._clock.monotonic() - began
        self._takeovers.append(seconds)
        taken = {store: after[store] for store in lost}
        self._say(f"after {seconds:.1f} s {_took_over(taken)}")
        await victim.program.start()
        self._say(f"{victim.name} runs again; {await self._totals()}")
        return self._clock.monotonic() - began

    async def _until_owned(self, without: str = "") -> dict[str, str]:
        """Wait until each store has an owner, other than the replica `without`."""
        until = self._clock.monotonic() + TAKEOVER_SECONDS
        while True:
            found = await self._cluster.owners()
            if len(found) == len(STORES) and without not in found.values():
                return found
            if self._clock.monotonic() > until:
                missing = sorted(s for s in STORES if found.get(s, without) == without)
                raise ProgramFailed(
                    f"after {TAKEOVER_SECONDS:.0f} s no daemon owns the stores"
                    f" {', '.join(missing)}"
                )
            await self._clock.sleep(LOOK_SECONDS)

    async def _restart_ended(self, replica: Replica) -> None:
        """Start a replica again that ended, as systemd does, for ever."""
        while True:
            try:
                await replica.program.watch()
            except ProgramFailed as error:
                self._say(f"{error}; it is started again")
                await replica.program.start()

    async def _compare(self) -> bool:
        last = await until_at_rest(self._check_sides, self._clock, QUIET_SECONDS)
        for what in last.busy:
            self._say(f"not quiet after {QUIET_SECONDS:.0f} s: {what}")
        # What is in quarantine belongs to no store, so each one would report it.
        findings: dict[Finding, None] = {}
        orders = 0
        for branch, floor in zip(self._cluster.branches, self._floors, strict=True):
            state = last.state[branch.name]
            books = read_daemon_rows(self._cluster.url, branch.name, branch.scanner)
            causes = [branch.cause(each) for each in floor.causes]
            report = compare_sides(state, books, causes, floor.placements)
            findings |= dict.fromkeys(report.findings)
            orders += report.orders
        webhooks, commands = read_totals(self._cluster.url)
        slowest = f"{max(self._takeovers):.1f} s" if self._takeovers else "none"
        self._screen.show_findings(
            list(findings),
            [
                ("orders", str(orders)),
                ("webhooks accepted", str(webhooks)),
                ("commands confirmed", str(commands)),
                ("kills", str(len(self._takeovers))),
                ("longest takeover", slowest),
            ],
        )
        # A command may wait for an operator if its sender was killed.
        return not last.busy and {each.kind for each in findings} <= {Kind.PARKED}

    async def _check_sides(self) -> Check:
        branches = self._cluster.branches
        files = sum(len(list(each.drop.glob("*.csv"))) for each in branches)
        progress = await asyncio.to_thread(read_progress, self._cluster.url)
        states = {each.name: await each.access.state() for each in branches}
        pending = sum(each["deliveries"]["PENDING"] for each in states.values())
        busy = list(work_left(files, 0, 0, progress, pending))
        sequences = [each["sequence"] for each in states.values()]
        return Check(states, busy, (progress, sequences))

    async def _totals(self) -> str:
        try:
            totals = await asyncio.to_thread(read_totals, self._cluster.url)
        except BackhaulError as error:
            return str(error)
        return f"{totals[0]} webhooks accepted, {totals[1]} commands confirmed"

    async def _is_ending(self, seconds: float) -> bool:
        """Wait; return True as soon as an operator wants it to end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()
        return self._ending.is_set()

    def _say(self, text: str) -> None:
        minutes, seconds = divmod(int(self._clock.monotonic() - self._began), 60)
        self._screen.say(f"{minutes}:{seconds:02}  {text}")


def _by_owner(owners: Mapping[str, str]) -> dict[str, list[str]]:
    names = sorted(set(owners.values()))
    return {name: [s for s in owners if owners[s] == name] for name in names}


def _owned(owners: Mapping[str, str]) -> str:
    return "; ".join(
        f"{name} owns {', '.join(stores)}" for name, stores in _by_owner(owners).items()
    )


def _took_over(owners: Mapping[str, str]) -> str:
    return ", and ".join(
        f"{name} took over {', '.join(stores)}"
        for name, stores in _by_owner(owners).items()
    )


@asynccontextmanager
async def open_cluster(
    folder: Path, servers: Servers, clock: Clock, screen: Screen
) -> AsyncIterator[Cluster]:
    """Run the platform, PostgreSQL, the balancers and the replicas.

    Raises ProgramFailed with the last words of a program that does not start.
    """
    home, ports = DemoFolder(folder), free_ports()
    home.prepare()
    reference = reference_server(home, ports, clock, False, RETRY_SCHEDULE, ())
    public = {name: free_port() for name in REPLICAS}
    balancer = Balancer(list(public.values()))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(servers.stop)
        began = clock.monotonic()
        screen.say("starting PostgreSQL: a primary and two replicas")
        await servers.start(home.path)
        took = clock.monotonic() - began
        screen.say(f"each commit waits for one of the two ({took:.0f} s to start)")
        stack.push_async_callback(reference.stop)
        await reference.start()
        access = Access.read(home)
        screen.say(f"the platform with its stores: {access.control_url}")
        await stack.enter_async_context(balancer.serving())
        branches = await _branches(home, access, balancer.port)
        home.keep_secret("database_url", [servers.url])
        screen.say(f"starting the replicas {', '.join(REPLICAS)}")
        replicas = [
            _replica(home, name, public[name], branches, clock) for name in public
        ]
        for replica in replicas:
            stack.push_async_callback(replica.program.stop)
            await replica.program.start()
            screen.say(f"{replica.name}: dashboard {replica.admin_url}")
        screen.say(f"try, in another terminal: {status_command(replicas[0].config)}")
        yield Cluster(servers.url, replicas, branches)


async def _branches(home: DemoFolder, platform: Access, port: int) -> list[Branch]:
    """Create the stores on the platform, with their webhooks and folders."""
    tokens, made = home.make_device_tokens(), []
    for name in STORES:
        access = await platform.another_store(name)
        url = f"http://{HOST}:{port}"
        home.keep_secret(f"{name}_api_key", [access.api_key])
        home.keep_secret(
            f"{name}_webhook", [await access.subscribe(f"{url}/webhooks/{name}")]
        )
        drop = home.drop / name
        drop.mkdir()
        made.append(Branch(name, access, url, drop, tokens))
    return made


def _replica(
    home: DemoFolder,
    name: str,
    public: int,
    branches: Sequence[Branch],
    clock: Clock,
) -> Replica:
    admin, config = free_port(), home.path / f"{name}.toml"
    values = {
        "state_dir": json.dumps(str(home.path / name)),
        "url_file": json.dumps(str(home.secret("database_url"))),
        "public": public,
        "admin": admin,
    }
    text = _CONFIG.format(**values) + "".join(_store(home, each) for each in branches)
    config.write_text(text, encoding="utf-8")
    program = Program(
        name,
        ["backhaul", "run", "--config", str(config)],
        home.path / f"{name}.log",
        f"http://{HOST}:{admin}/readyz",
        clock,
    )
    return Replica(name, program, config, f"http://{HOST}:{admin}")


def _store(home: DemoFolder, branch: Branch) -> str:
    texts = {
        "base_url": branch.access.public_url,
        "api_key": str(home.secret(f"{branch.name}_api_key")),
        "webhook": str(home.secret(f"{branch.name}_webhook")),
        "tokens": str(home.secret("scanner_tokens")),
        "drop": str(branch.drop),
    }
    quoted = {name: json.dumps(text) for name, text in texts.items()}
    return _STORE.format(name=branch.name, **quoted)


_CONFIG = f"""\
# Written by `backhaul demo --cluster`.
state_dir = {{state_dir}}

[database]
url_file = {{url_file}}

[cluster]
durability = "quorum"

[public]
host = "{HOST}"
port = {{public}}

[admin]
port = {{admin}}

[push]
retry_base = "200ms"
retry_cap = "2s"
# Not ten minutes: on one machine nothing is on its way for longer.
check_after = ["0s", "2s", "6s"]
"""
_STORE = f"""
[stores.{{name}}]
base_url = {{base_url}}
api_key_file = {{api_key}}
webhook_secrets_file = {{webhook}}

[connectors.{SCANNER}_{{name}}]
type = "scanner"
store = "{{name}}"
tokens_file = {{tokens}}

# Files are moved in whole, so none has to be watched until it stops growing.
[connectors.{COURIER}_{{name}}]
type = "file_drop"
store = "{{name}}"
path = {{drop}}
every = "1s"
unchanged_seconds = 0
key_columns = ["document"]
"""
