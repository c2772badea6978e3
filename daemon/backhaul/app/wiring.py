"""Builds the parts of one store, for the daemon and for offline runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.app.forwarding import Forwarder, owner_url
from backhaul.ingest.receiver import Receiver, ResponseCounter
from backhaul.ingest.spool import SpoolingInbox
from backhaul.ingest.webhook_secrets import SecretRegistry, SecretWatch
from backhaul.platform.client import PlatformClient, StoreFacts
from backhaul.platform.requests import Dialect
from backhaul.platform.store_credentials import (
    GIVEN,
    ApiKeyFile,
    SecretCipher,
    SharedKeyring,
    WebhookSecretFile,
)
from backhaul.platform.transport import Limits, Transport
from backhaul.push.dispatcher import Dispatcher
from backhaul.push.dry_run import DryRunCommands
from backhaul.push.effect_verification import EffectVerifier
from backhaul.push.history_audit import Auditor
from backhaul.push.resolver import IdempotencySupport, KeyedResend, Resolver
from backhaul.push.send_switch import SendSwitch
from backhaul.push.stock_targets import StockReader, TargetWorker
from backhaul.runtime.signals import Signal, StoreSignals
from backhaul.store import open_spool
from backhaul.sync.diff_repair import MirrorRepair
from backhaul.sync.refetcher import Refetcher
from backhaul.sync.resource_types import ORDERS
from backhaul.sync.store_identity import StoreIdentity
from backhaul.sync.sync_scheduler import Reconciler, SyncState, nothing
from backhaul.sync.webhook_subscriptions import (
    AcceptedSecrets,
    SubscriptionManager,
    no_secret_text,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    import httpx

    from backhaul.core.clock import Clock
    from backhaul.ingest.fold_worker import FoldWorker
    from backhaul.observe.metrics import Metrics
    from backhaul.platform.decoding import Tracking
    from backhaul.platform.store_credentials import Keyring
    from backhaul.runtime.signals import StoreContext
    from backhaul.runtime.tracing import Tracer
    from backhaul.settings import Settings
    from backhaul.store import Store
    from backhaul.store.inbox import Inbox
    from backhaul.store.operations import KeyValues


SPOOL_NAME = "spool.db"
"""The file in the state folder where webhooks wait for a server that is away."""
EXPECTS_STOCK = "expectedStock"
"""The feature of a platform that refuses a step from another level."""


def build_client(
    settings: Settings,
    name: str,
    clock: Clock,
    http: httpx.AsyncBaseTransport | None = None,
    signals: StoreSignals | None = None,
) -> tuple[Transport, PlatformClient]:
    """Build the way to one store's platform; the transport is to be closed."""
    shop, push = settings.stores[name], settings.push
    limits = Limits(
        connect_seconds=push.connect_seconds,
        read_seconds=push.read_seconds,
        max_response_bytes=push.max_response_bytes,
        longest_pause_seconds=push.longest_pause,
    )
    key = shop.api_key.get_secret_value()
    transport = Transport(shop.base_url, key, limits, clock, http, signals)
    return transport, PlatformClient(transport, _tracking(settings, name))


def _tracking(settings: Settings, name: str) -> Tracking:
    fields = settings.stores[name].fields
    return fields.tracking_company, fields.tracking_number


class Sender(Struct, frozen=True):
    """What sends one store's commands, resolves uncertain ones, and audits them."""

    context: StoreContext
    dispatcher: Dispatcher
    resolver: Resolver
    dialect: Dialect
    auditor: Auditor
    idempotency: IdempotencySupport


def build_dialect(settings: Settings, name: str) -> Dialect:
    """Build how one store's platform is spoken to."""
    shop = settings.stores[name]
    return Dialect(
        restock_field=shop.restock_field,
        tracking_company=shop.fields.tracking_company,
        tracking_number=shop.fields.tracking_number,
    )


def build_sender(
    settings: Settings,
    context: StoreContext,
    store: Store,
    client: PlatformClient,
    hide: Callable[[Iterable[str]], None] = lambda _: None,
) -> Sender:
    """Build the parts that send one store's commands."""
    name, push = context.name, settings.push
    dialect = build_dialect(settings, name)
    reload_key = None
    if (file := settings.key_files.get(name)) is not None:
        reload_key = ApiKeyFile(name, file, client.transport, hide).reload
    switch = SendSwitch(context, client, reload_key)
    dry_run = settings.dry_run_connections
    commands = DryRunCommands(store.commands, dry_run, dialect)
    dispatcher = Dispatcher(
        context, commands, store.uncertain, client, dialect, push, switch
    )

    # In a dry run, a resend with any key would send.
    configured = False if dry_run else settings.stores[name].idempotency
    idempotency = IdempotencySupport(name, client, store.kv, context.clock, configured)
    resend = KeyedResend(client, switch, dispatcher.windows, idempotency.is_honoured)
    verifier = EffectVerifier(context, client, store.uncertain, store.kv)
    resolver = Resolver(context, store.uncertain, verifier, resend, push)
    auditor = Auditor(context, client, store.tags, store.kv, verifier, switch, push)
    auditor.hold_for_audit()
    return Sender(context, dispatcher, resolver, dialect, auditor, idempotency)


def guard_identity(
    settings: Settings,
    name: str,
    free: PlatformClient,
    marks: KeyValues,
    signals: StoreSignals | None = None,
) -> PlatformClient:
    """Return a client that only reads and sends if it reaches the mirror's store.

    `free` is a client without that limit.
    """
    identity = StoreIdentity(
        name,
        settings.stores[name].base_url,
        free,
        marks,
        settings.database_name,
        (signals or StoreSignals()).other_store_found.emit,
    )
    return PlatformClient(free.transport.guarded(identity.require), free.tracking)


def _currency(facts: Callable[[], StoreFacts]) -> str:
    return facts().currency


def build_repair(
    name: str,
    store: Store,
    fold_worker: FoldWorker,
    facts: Callable[[], StoreFacts],
) -> MirrorRepair:
    """Build the part that appends what is read of a store to its inbox."""
    return MirrorRepair(
        name,
        store.mirror,
        store.inbox,
        partial(_currency, facts),
        fold_worker.wake,
        fold_worker.caught_up,
    )


def build_target_worker(
    settings: Settings,
    context: StoreContext,
    store: Store,
    client: PlatformClient,
    repair: MirrorRepair,
    facts: Callable[[], StoreFacts],
    read_orders: Callable[[], Awaitable[object]],
    switch: SendSwitch,
) -> TargetWorker:
    """Build the worker of stock targets; it and the dispatcher wake each other."""
    currency = partial(_currency, facts)
    reader = StockReader(client, repair, context.clock, currency, read_orders)
    return TargetWorker(
        context,
        store.targets,
        reader,
        {name: each.counts.policy() for name, each in settings.connectors.items()},
        lambda: EXPECTS_STOCK in facts().features,
        lambda: switch.on_hold,
    )


def build_reconciler(
    settings: Settings,
    context: StoreContext,
    store: Store,
    client: PlatformClient,
    fold_worker: FoldWorker,
    facts: Callable[[], StoreFacts],
    check_subscription: Callable[[], Awaitable[None]] = nothing,
) -> Reconciler:
    """Build the syncs that keep one store's mirror equal to the platform."""
    repair = build_repair(context.name, store, fold_worker, facts)
    state = SyncState(store.passes, store.refetch_queue, store.kv)
    reading = settings.reconcile
    return Reconciler(
        context, client, repair, state, facts, reading, check_subscription
    )


class Receiving(Struct, frozen=True):
    """What receives webhooks; `arrived` says that one was stored."""

    signers: SecretRegistry
    answers: ResponseCounter
    receiver: Receiver
    arrived: Signal[[]]
    spool: SpoolingInbox | None
    keyrings: Mapping[str, Keyring]
    watch: SecretWatch | None
    """Finds the secrets that other daemons got; None where there are none."""
    forwarder: Forwarder | None
    """Forwards the requests for connections of other daemons."""

    @property
    def spooled(self) -> int:
        """How many webhooks wait on the disk of this machine."""
        return 0 if self.spool is None else self.spool.waiting


def build_receiving(
    settings: Settings,
    store: Store,
    clock: Clock,
    metrics: Metrics,
    hide: Callable[[Iterable[str]], None],
    tracer: Tracer | None = None,
) -> Receiving:
    """Build what receives webhooks, on an owner and on a standby."""
    verified = metrics.counter("webhook_verify_total")
    signers = SecretRegistry(store.webhook_secrets, clock, verified)
    counted = metrics.counter("webhooks_total")
    answers = ResponseCounter(counted, clock, signers.known)
    arrived = Signal[[]]()
    spool = _spooling(settings, store.inbox, clock)
    inbox = store.inbox if spool is None else spool
    receiver = Receiver(inbox, clock, signers, arrived.emit, answers, tracer)
    rings = build_keyrings(settings, store, hide)
    watch = forwarder = None
    if settings.database.is_server:
        watch = SecretWatch(store.sealed_secrets, signers, rings, clock)
        enabled = settings.enabled_connectors
        stores = {name: settings.connectors[name].store for name in enabled}
        forwarder = Forwarder(partial(owner_url, store.ownership), stores)
    return Receiving(
        signers, answers, receiver, arrived, spool, rings, watch, forwarder
    )


def _spooling(settings: Settings, inbox: Inbox, clock: Clock) -> SpoolingInbox | None:
    """Open the spool if it is wanted, or if an earlier run may have left webhooks."""
    file = settings.state_dir / SPOOL_NAME
    accepts = settings.cluster.spool and isinstance(settings.place, str)
    if not accepts and not file.exists():
        return None
    return SpoolingInbox(inbox, open_spool(file, clock), clock, accepts=accepts)


class Shop(Struct, frozen=True):
    """The parts of one store; `free` is a client without the store identity check."""

    client: PlatformClient
    free: PlatformClient
    sender: Sender
    reconciler: Reconciler
    refetcher: Refetcher
    target_worker: TargetWorker
    subscription: SubscriptionManager | None


class Shared(Struct, frozen=True):
    """What the parts of all stores use."""

    store: Store
    fold_worker: FoldWorker
    facts: Mapping[str, StoreFacts]
    secrets: SecretRegistry
    keyrings: Mapping[str, Keyring]
    hide: Callable[[Iterable[str]], None]
    http: httpx.AsyncBaseTransport | None


def build_shop(settings: Settings, context: StoreContext, shared: Shared) -> Shop:
    """Build all parts of one store. Close the transport of its client at the end."""
    name, store, signals = context.name, shared.store, context.signals

    def facts() -> StoreFacts:
        return shared.facts.get(name, StoreFacts())

    _, free = build_client(settings, name, context.clock, shared.http, signals)
    client = guard_identity(settings, name, free, store.kv, signals)
    sender = build_sender(settings, context, store, client, shared.hide)
    subscription = _subscription_manager(settings, name, client, shared)
    check = nothing if subscription is None else subscription.check
    worker = shared.fold_worker
    reconciler = build_reconciler(
        settings, context, store, client, worker, facts, check
    )
    refetcher = Refetcher(context, client, store.inbox, store.refetch_queue)
    signals.events_arrived.connect(worker.wake)
    target_worker = build_target_worker(
        settings,
        context,
        store,
        client,
        reconciler.repair,
        facts,
        partial(reconciler.poll, [ORDERS.name]),
        sender.dispatcher.switch,
    )
    return Shop(
        client,
        free,
        sender,
        reconciler,
        refetcher,
        target_worker,
        subscription,
    )


def _subscription_manager(
    settings: Settings, name: str, client: PlatformClient, shared: Shared
) -> SubscriptionManager | None:
    url, secrets = settings.public.url, shared.secrets
    if url is None:
        return None

    async def admit(given: list[bytes]) -> None:
        await secrets.admit(name, given, GIVEN)

    accepted = AcceptedSecrets(
        admit, lambda: bool(secrets.live().get(name)), partial(secrets.why_kept, name)
    )
    ring = shared.keyrings[name]
    return SubscriptionManager(name, url, client, ring, shared.store.kv, accepted)


def build_keyrings(
    settings: Settings, store: Store, hide: Callable[[Iterable[str]], None]
) -> dict[str, Keyring]:
    """Return where each store's webhook secrets from the platform are.

    Without a public URL there is no subscription, and therefore no such secret. With
    a key they are in the database, for all daemons on it.
    """
    if settings.public.url is None:
        return {}
    files = {
        name: WebhookSecretFile(settings.state_dir, name, hide)
        for name in settings.stores
    }
    if not (settings.cluster.key and settings.database.is_server):
        return dict(files)
    cipher, sealed = SecretCipher(settings.cluster.key), store.sealed_secrets
    return {
        name: SharedKeyring(name, sealed, cipher, hide, file.secrets)
        for name, file in files.items()
    }


async def load_secrets(
    settings: Settings,
    signers: SecretRegistry,
    keyrings: Mapping[str, Keyring],
) -> None:
    """Accept the configured secrets and those of the webhook subscriptions."""
    await signers.load(webhook_secrets(settings))
    for name, keyring in keyrings.items():
        await signers.admit(name, await keyring.load(), GIVEN)


def webhook_secrets(settings: Settings) -> dict[str, list[bytes]]:
    """Return the configured webhook secrets of each store."""
    return {
        name: [secret.get_secret_value().encode() for secret in shop.webhook_secrets]
        for name, shop in settings.stores.items()
    }


def unsigned_stores(
    shops: Mapping[str, Shop], live: Mapping[str, Collection[str]], public_url: str
) -> dict[str, str]:
    """Return what to do for each store whose secret an operator must enter."""
    address = f"an address that reaches {public_url}"
    return {
        name: "[public] url is not set, so Backhaul creates no subscription; "
        + no_secret_text(name, f"{address}, with the path /webhooks/{name},")
        for name, shop in shops.items()
        if shop.subscription is None and not live.get(name)
    }
