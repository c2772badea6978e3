"""Search, lists, timelines and figures for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from backhaul.store.filters import NO_FILTER, QuarantineCounts, SelectedRows, Sort

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backhaul.store.bulk import BulkRow
    from backhaul.store.catalogue_lists import (
        ListedCustomer,
        ListedProduct,
        ListPlace,
    )
    from backhaul.store.command_records import (
        CommandDetail,
        ListedCommand,
        ListedTarget,
    )
    from backhaul.store.filters import Filter, Span
    from backhaul.store.mappings import ListedMapping
    from backhaul.store.matching import Command
    from backhaul.store.mirror import Pass, SyncState
    from backhaul.store.operations import (
        AlertConditions,
        HeldTargets,
        MetricSample,
        TrafficHour,
    )
    from backhaul.store.operators import SavedView
    from backhaul.store.order_lists import ListedOrder, OrderPlace, OrderTab, Parcel
    from backhaul.store.read_records import (
        ChangedObject,
        ConfirmationTimes,
        Counts,
        DeliveryDetail,
        EventDetail,
        FoundObject,
        JobStatus,
        ListedAuditEntry,
        ListedDelivery,
        ListedEvent,
        ListedLevel,
        ListedQuarantine,
        ListedRecord,
        ListedRun,
        ListedSecret,
        ListedUser,
        ListedVariant,
        ListedWaitingRecord,
        NearMatch,
        OpenIncident,
        OrderLine,
        Overview,
        QuarantineDetail,
        RecentChange,
        SearchHit,
        TimelineEntry,
    )
    from backhaul.store.records import RecordDetail, SourceRun
    from backhaul.store.stock_lists import StockPage
    from backhaul.store.stock_targets import HeldFilter
    from backhaul.store.tokens import ListedToken


class SearchText(Struct, frozen=True):
    """What an object can be found by: its title, and everything else."""

    title: str
    words: str


Describe: TypeAlias = Callable[[str, str], SearchText]
"""From kind (`order`, `product`, `customer`) and document to words."""


class IndexProgress(Struct, frozen=True):
    """One slice of indexing.

    `more` where changes wait to be indexed, `folding` where events wait to be folded.
    """

    indexed: int
    more: bool
    folding: bool


class SearchIndex(Protocol):
    """The search index: follows the change feed by a cursor of its own."""

    async def follow(self, describe: Describe, slice_seconds: float) -> IndexProgress:
        """Index what changed, for about `slice_seconds`. May raise Busy."""
        ...

    async def rebuild(self) -> None:
        """Empty the index and begin at the first change again. May raise Busy."""
        ...


KINDS = ("order", "product", "sku", "customer")
"""The kinds of objects that have a timeline; `sku` is a variant."""


class Reader(Protocol):
    """What operators read, in the terminal and on the dashboard.

    Lists come newest first unless a method says otherwise. `before` is the number of
    the last row of the page before. Texts that are damaged in the database come with
    replacement characters.
    """

    def events(
        self,
        wanted: Filter,
        limit: int,
        before: int | None = None,
        sort: Sort = Sort.USUAL,
        within: Span | None = None,
    ) -> list[ListedEvent]:
        """Return events, with the object that each is about.

        In the order `oldest`, the list continues behind the event `before`. `within` is
        what `searched` returned; without it, all events are searched.
        """
        ...

    def event(self, id_: int) -> EventDetail | None:
        """Return one event with headers and body."""
        ...

    def commands(
        self,
        wanted: Filter,
        limit: int,
        after: str | None = None,
        sort: Sort = Sort.USUAL,
        within: Span | None = None,
    ) -> list[ListedCommand]:
        """Return commands: in the usual order parked ones first, then the newest.

        The list continues behind the command whose id is `after`, or where `searched`
        ended the page before. `within` is what `searched` returned; without it, all
        commands are searched.
        """
        ...

    def searched(
        self, rows: str, wanted: Filter, after: str | None, sort: Sort
    ) -> Span:
        """Return the numbers of the rows that a page behind `after` searches.

        `rows` is `commands`, `events` or `deliveries`. A page searches all rows if an
        index answers the filter, and otherwise a bounded number of them.
        """
        ...

    def state_counts(self, rows: str) -> dict[str, int]:
        """Count all rows of a list in each state in which few are; see `searched`.

        A count ends above 10,000.
        """
        ...

    def bulk_selected(self, rows: str, wanted: Filter) -> list[SelectedRows]:
        """Count the rows of `commands` or `deliveries` by what can be decided."""
        ...

    def bulk_rows(self, rows: str, wanted: Filter, limit: int) -> list[BulkRow]:
        """Return `commands` or `deliveries` to decide about, the oldest first."""
        ...

    def count_commands(self, wanted: Filter) -> int:
        """Count the commands that `commands` would return without a limit."""
        ...

    def plan(self, wanted: Filter, limit: int) -> list[tuple[Command, str]]:
        """Return planned commands with their reason, in the order of planning.

        Damaged commands are left out, because they will not be sent.
        """
        ...

    def open_commands(self, state: str, limit: int) -> list[ListedCommand]:
        """Return some commands that are planned, sending or uncertain."""
        ...

    def command(self, prefix: str) -> CommandDetail | None:
        """Return the only command whose id begins so, with its evidence and history."""
        ...

    def incidents(self) -> list[OpenIncident]:
        """Return the open incidents, the oldest first."""
        ...

    def quarantine(
        self, limit: int, before: int | None = None, wanted: Filter = NO_FILTER
    ) -> list[ListedQuarantine]:
        """Return rows of the quarantine: open ones, unless the filter names a state."""
        ...

    def quarantine_counts(self, wanted: Filter, most_groups: int) -> QuarantineCounts:
        """Count the rows that match by their reason, and all rows by their state."""
        ...

    def quarantine_ids(self, wanted: Filter) -> list[int]:
        """Return the numbers of all rows that match, the oldest first."""
        ...

    def quarantine_selected(self, wanted: Filter) -> list[SelectedRows]:
        """Count the rows that match by what can be done with them."""
        ...

    def quarantined(self, id_: int) -> QuarantineDetail | None:
        """Return one row of the quarantine, with its record if it has one."""
        ...

    def can_correct(self, id_: int) -> bool:
        """Return whether a quarantined shipment's tracking number can be sent alone."""
        ...

    def near_matches(
        self, kind: str, store: str, name: str, limit: int = 5
    ) -> list[NearMatch]:
        """Return what a name may mean; for kind `open`, what its order has to ship."""
        ...

    def knows(self, kind: str, store: str, name: str) -> bool:
        """Return True if a record that names the SKU or `order` is matched now."""
        ...

    def sells(self, store: str, name: str) -> bool:
        """Return True if a variant of the store has the SKU or GTIN now."""
        ...

    def mappings(
        self,
        store: str | None,
        words: str | None,
        limit: int,
        before: int | None = None,
    ) -> list[ListedMapping]:
        """Return mappings, the newest first, whose names contain `words`."""
        ...

    def deliveries(
        self,
        wanted: Filter,
        limit: int,
        before: int | None = None,
        sort: Sort = Sort.USUAL,
        within: Span | None = None,
    ) -> list[ListedDelivery]:
        """Return deliveries to connections, as `events` returns events."""
        ...

    def delivery(self, seq: int) -> DeliveryDetail | None:
        """Return one delivery with its attempts."""
        ...

    def store_of_delivery(self, seq: int) -> str | None:
        """Return the store of a delivery."""
        ...

    def last_records(self, instance: str, limit: int) -> list[ListedRecord]:
        """Return the last records of a connection."""
        ...

    def record(self, id_: int) -> RecordDetail | None:
        """Return one record, and where it stands."""
        ...

    def source_runs(self, instance: str) -> list[SourceRun]:
        """Return the last files or polls of a connection, of its newest records."""
        ...

    def waiting_records(self, limit: int) -> list[ListedWaitingRecord]:
        """Return the records that wait for their order or SKU, the oldest first."""
        ...

    def conditions(self, instances: Iterable[str]) -> AlertConditions:
        """Return what may be a problem, as the tables are now."""
        ...

    def stores(self) -> list[str]:
        """Return the stores that Backhaul has contacted, or has commands for."""
        ...

    def instances(self) -> list[str]:
        """Return the connections that have deliveries."""
        ...

    def jobs(self) -> dict[tuple[str, str], JobStatus]:
        """Return the state of each scheduled job, by its name and store."""
        ...

    def job_runs(self, limit: int, before: int | None = None) -> list[ListedRun]:
        """Return recorded runs of jobs."""
        ...

    def passes(self, limit: int, before: int | None = None) -> list[Pass]:
        """Return passes over the platform's lists, with what each found."""
        ...

    def audit_entries(
        self, who: str | None, limit: int, before: int | None = None
    ) -> list[ListedAuditEntry]:
        """Return entries of the audit log, of one user or of all."""
        ...

    def stock_targets(
        self,
        state: str | None,
        store: str | None,
        limit: int,
        before: int | None = None,
    ) -> list[ListedTarget]:
        """Return the back office's stock counts; `before` is a command's `seq`."""
        ...

    def held_targets(self, wanted: HeldFilter) -> list[ListedTarget]:
        """Return the stock counts on hold after a restore, the oldest first."""
        ...

    def held_by_store(self) -> list[HeldTargets]:
        """Return, in short, each store's stock counts that are on hold."""
        ...

    def stopped_targets(self) -> dict[str, str]:
        """Return why a store's stock counts are not applied, by store."""
        ...

    def webhook_secrets(self) -> list[ListedSecret]:
        """Return the fingerprint and state of each webhook secret."""
        ...

    def users(self) -> list[ListedUser]:
        """Return the users of the dashboard, by name, without their passwords."""
        ...

    def tokens(self) -> list[ListedToken]:
        """Return the tokens of the HTTP API, by name, without their secrets."""
        ...

    def saved_views(self, who: str, list_: str) -> list[SavedView]:
        """Return the views of a list that a user saved, by name."""
        ...

    def samples(self, since: str) -> list[MetricSample]:
        """Return the samples since a time, the oldest first."""
        ...

    def traffic(self, since: str) -> list[TrafficHour]:
        """Return the sums of the samples since a time by the hour, the oldest first."""
        ...

    def find_objects(self, kind: str, name: str) -> list[FoundObject]:
        """Return the objects that a typed name may mean; `kind` is one of KINDS.

        An object that is not mirrored is returned if an event or a record names it;
        then the fact `mirrored` has the reason.
        """
        ...

    def searched_in(self, kind: str) -> str:
        """Return a text of what `find_objects` searches, with the numbers of rows."""
        ...

    def object(self, kind: str, store: str, id_: str) -> FoundObject | None:
        """Return an object by its key, with its document; `kind` is one of KINDS."""
        ...

    def orders(
        self,
        tab: OrderTab,
        stores: Iterable[str],
        limit: int,
        before: OrderPlace | None = None,
    ) -> list[ListedOrder]:
        """Return the orders of these stores, by the time they were placed."""
        ...

    def products(
        self, limit: int, before: ListPlace | None = None
    ) -> list[ListedProduct]:
        """Return the products that are not deleted, by store and id."""
        ...

    def customers(
        self, limit: int, before: ListPlace | None = None
    ) -> list[ListedCustomer]:
        """Return the customers, by store and id."""
        ...

    def orders_of(self, store: str, customer_id: str, limit: int) -> list[ListedOrder]:
        """Return the newest orders of a customer."""
        ...

    def parcels(self, store: str, id_: str) -> list[Parcel]:
        """Return the parcels of an order, the oldest first."""
        ...

    def order_lines(self, store: str, id_: str) -> list[OrderLine]:
        """Return the lines of an order."""
        ...

    def variants(self, store: str, id_: str) -> list[ListedVariant]:
        """Return the variants of a product."""
        ...

    def stock_levels(
        self, sku: str | None, store: str | None, limit: int, after: tuple[str, str]
    ) -> list[ListedLevel]:
        """Return the stock of variants, by store and variant id.

        The list continues behind the store and variant `after`; two empty texts begin
        it.
        """
        ...

    def stock(
        self,
        wanted: Filter,
        stores: Iterable[str],
        limit: int,
        after: str | None = None,
        sort: Sort = Sort.USUAL,
        scanned: int | None = None,
    ) -> StockPage:
        """Return the stock of variants of these stores, and what Backhaul pushes.

        The list is sorted by SKU, or in the order `lowest` by stock, and continues
        behind the text of a StockPlace. If no index answers the filter, at most
        `scanned` variants of each store are searched.
        """
        ...

    def timeline(self, kind: str, found: FoundObject) -> list[TimelineEntry]:
        """Return the history of an object, the oldest entry first.

        `found` comes from `find_objects` or `object`. An entry of an event has the
        event's `body`, as long as it is stored.
        """
        ...

    def search(
        self, text: str, kind: str | None, limit: int, skip: int = 0
    ) -> list[SearchHit]:
        """Return the objects with all the words, the best first, without `skip`."""
        ...

    def unindexed(self) -> int:
        """Return how many changes the search index lacks."""
        ...

    def latest_changes(
        self, kind: str | None, limit: int, before: int | None = None
    ) -> list[ChangedObject]:
        """Return the objects that changed last.

        An object that changed again since `before` is on an earlier page too. After
        fewer than `limit` rows there may be more: see `not_searched`.
        """
        ...

    def not_searched(self, before: int | None) -> int | None:
        """Return the change before which `latest_changes` did not search, if any."""
        ...

    def change_places(self) -> dict[str, int]:
        """Return the last number of each table that `recent_changes` reads."""
        ...

    def recent_changes(
        self, places: Mapping[str, int], limit: int
    ) -> dict[str, list[RecentChange]]:
        """Return up to `limit` rows behind the place in each table, in their order."""
        ...

    def counts(self) -> Counts:
        """Return the backlog, and what needs an operator."""
        ...

    def overview(self, stores: Iterable[str], instances: Iterable[str]) -> Overview:
        """Return the most important facts of each store and connection."""
        ...

    def confirmations(self) -> ConfirmationTimes:
        """Return the times from request to echo in the last hour."""
        ...

    def consistency(self) -> dict[str, SyncState]:
        """Return since when each store's mirror is in sync, and which lists are not."""
        ...
