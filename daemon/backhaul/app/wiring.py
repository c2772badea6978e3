"""Builds the parts of one store, for the daemon and for offline runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.platform.client import PlatformClient, StoreFacts
from backhaul.platform.requests import Dialect
from backhaul.platform.secret_files import GIVEN, ApiKeyFile, WebhookSecretFile
from backhaul.platform.transport import Limits, Transport
from backhaul.push.dispatcher import Dispatcher
from backhaul.push.dry_run import DryRunCommands
from backhaul.push.effect_verification import EffectVerifier
from backhaul.push.history_audit import Auditor
from backhaul.push.idempotency import IdempotencySupport
from backhaul.push.resolver import KeyedResend, Resolver
from backhaul.push.stock_targets import TargetWorker
from backhaul.sync.diff_repair import MirrorRepair
from backhaul.sync.refetcher import Refetcher
from backhaul.sync.resource_types import ORDERS
from backhaul.sync.stock_reader import StockReader
from backhaul.sync.store_identity import StoreIdentity
from backhaul.sync.sync_scheduler import Reconciler
from backhaul.sync.webhook_subscriptions import SubscriptionManager

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    import httpx

    from backhaul.core.clock import Clock
    from backhaul.ingest.fold_worker import FoldWorker
    from backhaul.ingest.webhook_secrets import SecretRegistry
    from backhaul.platform.decoding import Tracking
    from backhaul.settings import Settings
    from backhaul.store import Store
    from backhaul.store.operations import KeyValues


EXPECTS_STOCK = "expectedStock"
"""The feature of a platform that refuses a step from another level."""


def build_client(
    settings: Settings,
    name: str,
    clock: Clock,
    http: httpx.AsyncBaseTransport | None = None,
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
    transport = Transport(shop.base_url, key, limits, clock, http)
    return transport, PlatformClient(transport, _tracking(settings, name))


def _tracking(settings: Settings, name: str) -> Tracking:
    fields = settings.stores[name].fields
    return fields.tracking_company, fields.tracking_number


class Sender(Struct, frozen=True):
    """What sends one store's commands, resolves uncertain ones, and audits them."""

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
    name: str,
    store: Store,
    client: PlatformClient,
    transport: Transport,
    clock: Clock,
    chance: Callable[[], float],
    hide: Callable[[Iterable[str]], None] = lambda _: None,
) -> Sender:
    """Build the parts that send one store's commands."""
    shop, push = settings.stores[name], settings.push
    dialect = build_dialect(settings, name)
    dry_run = settings.dry_run_connections
    commands = DryRunCommands(store.commands, dry_run, dialect)
    dispatcher = Dispatcher(
        name, commands, store.uncertain, client, transport, dialect, push, clock, chance
    )
    if (file := settings.key_files.get(name)) is not None:
        dispatcher.switch.reload_key = ApiKeyFile(name, file, transport, hide).reload

    # In a dry run, a resend with any key would send.
    configured = False if dry_run else shop.idempotency
    idempotency = IdempotencySupport(name, client, store.kv, clock, configured)
    resend = KeyedResend(
        transport,
        client,
        dispatcher.switch,
        dispatcher.windows,
        idempotency.is_honoured,
    )
    verifier = EffectVerifier(name, client, store.uncertain, store.kv)
    resolver = Resolver(
        name,
        store.uncertain,
        verifier,
        resend,
        push,
        clock,
        chance,
        dispatcher.command_changed,
    )
    dispatcher.on_uncertain = resolver.wake

    def wake() -> None:
        resolver.wake()
        dispatcher.command_changed()

    auditor = Auditor(
        name,
        client,
        store.tags,
        store.kv,
        verifier,
        dispatcher.switch,
        clock,
        chance,
        wake,
        push,
    )
    auditor.hold_for_audit()
    return Sender(dispatcher, resolver, dialect, auditor, idempotency)


def guard_identity(
    settings: Settings,
    name: str,
    transport: Transport,
    marks: KeyValues,
    refused: Callable[[str], None] = lambda _: None,
) -> PlatformClient:
    """Limit a transport to the mirrored store; return a client without that limit.

    `refused` is called once with the reason if the platform is another store.
    """
    free = PlatformClient(transport.unguarded(), _tracking(settings, name))
    identity = StoreIdentity(
        name,
        settings.stores[name].base_url,
        free,
        marks,
        settings.database_file,
        refused,
    )
    transport.require = identity.require
    return free


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
        lambda: facts().currency,
        fold_worker.wake,
        fold_worker.caught_up,
    )


def build_target_worker(
    settings: Settings,
    name: str,
    store: Store,
    client: PlatformClient,
    repair: MirrorRepair,
    clock: Clock,
    chance: Callable[[], float],
    facts: Callable[[], StoreFacts],
    read_orders: Callable[[], Awaitable[object]],
    dispatcher: Dispatcher,
) -> TargetWorker:
    """Build the worker of stock targets; it and the dispatcher wake each other."""
    reader = StockReader(client, repair, clock, lambda: facts().currency, read_orders)
    target_worker = TargetWorker(
        name,
        store.targets,
        reader,
        {name: each.counts.policy() for name, each in settings.connectors.items()},
        lambda: EXPECTS_STOCK in facts().features,
        lambda: dispatcher.switch.on_hold,
        clock,
        chance,
        dispatcher.wake,
    )
    dispatcher.on_resolved = target_worker.wake
    return target_worker


def build_reconciler(
    settings: Settings,
    name: str,
    store: Store,
    client: PlatformClient,
    fold_worker: FoldWorker,
    clock: Clock,
    chance: Callable[[], float],
    known: Mapping[str, StoreFacts],
    wake_refetchers: Callable[[], None],
) -> Reconciler:
    """Build the syncs that keep one store's mirror equal to the platform."""

    def facts() -> StoreFacts:
        return known.get(name, StoreFacts())

    repair = build_repair(name, store, fold_worker, facts)
    return Reconciler(
        client,
        repair,
        store.passes,
        store.refetch_queue,
        store.kv,
        clock,
        chance,
        facts,
        wake_refetchers,
        settings.reconcile,
    )


def build_refetcher(
    name: str,
    store: Store,
    client: PlatformClient,
    fold_worker: FoldWorker,
    clock: Clock,
    chance: Callable[[], float],
) -> Refetcher:
    """Build the part that fetches one store's conflicting objects again."""
    inbox, queue = store.inbox, store.refetch_queue
    return Refetcher(name, client, inbox, queue, clock, chance, fold_worker.wake)


class Shop(Struct, frozen=True):
    """The parts of one store; `free` is a client without the store identity check."""

    transport: Transport
    client: PlatformClient
    free: PlatformClient
    sender: Sender
    reconciler: Reconciler
    target_worker: TargetWorker
    subscription: SubscriptionManager | None


def build_shop(
    settings: Settings,
    name: str,
    store: Store,
    fold_worker: FoldWorker,
    clock: Clock,
    chance: Callable[[], float],
    known: Mapping[str, StoreFacts],
    wake_refetchers: Callable[[], None],
    signers: SecretRegistry,
    secret_files: Mapping[str, WebhookSecretFile],
    hide: Callable[[Iterable[str]], None],
    http: httpx.AsyncBaseTransport | None,
) -> Shop:
    """Build all parts of one store. Close the transport at the end."""
    transport, client = build_client(settings, name, clock, http)
    sender = build_sender(settings, name, store, client, transport, clock, chance, hide)
    free = guard_identity(
        settings, name, transport, store.kv, sender.dispatcher.stop_sending
    )
    reconciler = build_reconciler(
        settings,
        name,
        store,
        client,
        fold_worker,
        clock,
        chance,
        known,
        wake_refetchers,
    )
    target_worker = build_target_worker(
        settings,
        name,
        store,
        client,
        reconciler.repair,
        clock,
        chance,
        lambda: known.get(name, StoreFacts()),
        partial(reconciler.poll, [ORDERS.name]),
        sender.dispatcher,
    )
    subscription = _subscription_manager(
        settings, name, store, client, transport, signers, secret_files
    )
    if subscription is not None:
        reconciler.check_subscription = subscription.check
    return Shop(
        transport, client, free, sender, reconciler, target_worker, subscription
    )


def _subscription_manager(
    settings: Settings,
    name: str,
    store: Store,
    client: PlatformClient,
    transport: Transport,
    signers: SecretRegistry,
    secret_files: Mapping[str, WebhookSecretFile],
) -> SubscriptionManager | None:
    url = settings.public.url
    if url is None:
        return None

    async def admit(name: str, given: list[bytes]) -> None:
        await signers.admit(name, given, GIVEN)

    return SubscriptionManager(
        name,
        url,
        client,
        transport,
        secret_files[name],
        store.kv,
        admit,
        lambda: bool(signers.live().get(name)),
        lambda: signers.why_kept(name),
    )


def build_secret_files(
    settings: Settings, hide: Callable[[Iterable[str]], None]
) -> dict[str, WebhookSecretFile]:
    """Open each store's file of webhook secrets from the platform.

    Without a public URL there is no subscription, and therefore no such secret.
    """
    if settings.public.url is None:
        return {}
    return {
        name: WebhookSecretFile(settings.state_dir, name, hide)
        for name in settings.stores
    }


async def load_secrets(
    settings: Settings,
    signers: SecretRegistry,
    secret_files: Mapping[str, WebhookSecretFile],
) -> None:
    """Accept the configured secrets and those of the webhook subscriptions."""
    await signers.load(webhook_secrets(settings))
    for name, secret_file in secret_files.items():
        await signers.admit(name, secret_file.secrets(), GIVEN)


def webhook_secrets(settings: Settings) -> dict[str, list[bytes]]:
    """Return the configured webhook secrets of each store."""
    return {
        name: [secret.get_secret_value().encode() for secret in shop.webhook_secrets]
        for name, shop in settings.stores.items()
    }
