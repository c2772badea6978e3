"""Operator actions, by the running daemon or offline on its database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from backhaul.admin import accounts, tokens
from backhaul.admin.accounts import Passwords
from backhaul.app import quarantine_actions, store_actions
from backhaul.app.bulk_actions import change_commands, change_deliveries
from backhaul.app.mapping_actions import add_mappings, remove_mapping
from backhaul.core.clock import from_text
from backhaul.core.lifecycle import State
from backhaul.errors import BackhaulError
from backhaul.maintenance.customer_erasure import CustomerErasure
from backhaul.platform import requests
from backhaul.store.commands import LONGEST_REASON, Decision, require_possible
from backhaul.store.inbox import Selection
from backhaul.store.operations import AuditEntry
from backhaul.store.ownership import DATABASE
from backhaul.store.stock_targets import HeldFilter

if TYPE_CHECKING:
    from backhaul.app.jobs import Jobs
    from backhaul.app.store_actions import OrderBackfill, Subscription
    from backhaul.connect.submissions import Submissions
    from backhaul.core.clock import Clock
    from backhaul.ingest.fold_worker import Reprocessor
    from backhaul.ingest.webhook_secrets import SecretRegistry
    from backhaul.maintenance.customer_erasure import ReceivedFiles
    from backhaul.platform.requests import Dialect
    from backhaul.runtime.signals import SharedSignals
    from backhaul.store import Store
    from backhaul.store.command_records import CommandDetail
    from backhaul.store.matching import Command
    from backhaul.store.read_models import Reader
    from backhaul.store.read_records import OpenIncident, QuarantineDetail

Answer: TypeAlias = dict[str, Any]
Action: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Answer]]

IN_USE = timedelta(days=1)
"""A secret that signed a delivery within this time is still in use."""


class ActionContext(msgspec.Struct, frozen=True):
    """What the actions work on.

    `dialects` has the request format of each store's platform, `subscriptions` the
    webhook subscription of each store that has one, and `order_backfills` what reads
    the orders of each store that runs here. `receivers` has the files of webhooks that
    are not in the database yet.
    """

    store: Store
    clock: Clock
    signers: SecretRegistry
    reprocessor: Reprocessor
    signals: SharedSignals
    dialects: Mapping[str, Dialect]
    jobs: Jobs
    ask_connector: Callable[[str], Awaitable[dict[str, int]]]
    submissions: Submissions
    subscriptions: Mapping[str, Subscription] = {}
    check_connector: store_actions.Check = store_actions.cannot_check
    order_backfills: Mapping[str, OrderBackfill] = {}
    receivers: ReceivedFiles | None = None


def actions(parts: ActionContext) -> dict[str, Action]:
    """Return every action by its name, such as `secrets/revoke`."""
    of_stores = {name: partial(act, parts) for name, act in STORE_ACTIONS.items()}
    return of_stores | user_actions(parts.store)


def user_actions(store: Store) -> dict[str, Action]:
    """Return the actions on users and tokens. Any member carries them out itself."""
    return {
        **accounts.user_actions(store.users, Passwords()),
        **tokens.token_actions(store.tokens),
    }


async def _preview(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    """Return the request that a resend of `command` would send; send nothing."""
    command = await parts.store.decisions.find(asked["command"])
    require_possible(command, "resend")
    is_count = command.kind == "target"
    return {
        "state": command.state,
        "method": "nothing: the count is calculated again" if is_count else "POST",
        "path": "" if is_count else requests.path(command),
        "body": _body(parts, command),
    }


async def _decide(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    """Apply the decision `verb` of `who` to `command`; return its new state.

    `shown` and `body` are the state and request that the operator saw before a resend.
    If either has changed since, the action raises BackhaulError and does nothing.
    """
    verb, reason = asked["verb"], asked["reason"].strip()
    if not reason and verb != "resolve":
        raise BackhaulError(f"the action {verb} needs a reason for the audit log")
    if len(reason) > LONGEST_REASON:
        raise BackhaulError(f"the reason must have 1 to {LONGEST_REASON} characters")
    shown = asked.get("shown")
    if verb == "resend":
        await _require_body(parts, asked)
    decision = Decision(asked["command"], verb, asked["who"], reason)
    moved = await parts.store.decisions.decide(
        decision, State(shown) if shown else None
    )
    parts.signals.operator_decided.emit()
    return {"command": moved.id, "state": moved.state}


async def _resolve_incident(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    """Close the incident `id` for `who`, with a `reason`."""
    reason = asked["reason"].strip()
    if not 0 < len(reason) <= LONGEST_REASON:
        raise BackhaulError(f"the reason must have 1 to {LONGEST_REASON} characters")
    done = await parts.store.incidents.resolve(asked["id"], asked["who"], reason)
    return {"id": done.id, "says": done.says}


async def _require_body(parts: ActionContext, asked: Mapping[str, Any]) -> None:
    command = await parts.store.decisions.find(asked["command"])
    if _body(parts, command) != asked["body"]:
        raise BackhaulError(
            f"the request of command {command.id[:8]} has changed since it was shown;"
            " check it and try again"
        )


def _body(parts: ActionContext, command: Command) -> str:
    dialect = parts.dialects.get(command.store)
    if dialect is None:
        raise BackhaulError(
            f"store {command.store} is no longer in the configuration; add"
            f" [stores.{command.store}] again"
        )
    if command.kind == "target":
        return ""  # the count is calculated again and plans a new adjustment
    return requests.body(command, dialect).decode()


async def _erase_customer(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    """Erase `customer` of `store` for `who`; `rewrite` even a large database file."""
    erasure = CustomerErasure(
        parts.store.erasure, parts.clock, receivers=parts.receivers
    )
    return await erasure.erase(
        asked["store"], asked["customer"], asked["who"], rewrite=asked["rewrite"]
    )


async def _reprocess(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    """Fold the events of a Selection again; return how many ended in each state."""
    selection = msgspec.convert(asked, Selection)
    await parts.store.users.record_action(
        AuditEntry(asked["who"], "events reprocess", selection.in_words())
    )
    return {**await parts.reprocessor.reprocess(selection)}


async def _move_received(parts: ActionContext, _: Mapping[str, Any]) -> Answer:
    """Move the webhooks that receiver processes answered by now into the database."""
    if parts.receivers is not None:
        await parts.receivers.move_all()
    return {}


async def _run_connector(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    """Ask the connector `name` for its records now."""
    name = asked["name"]
    await parts.store.users.record_action(
        AuditEntry(asked["who"], "connectors run", name)
    )
    return {"records": await parts.ask_connector(name)}


async def _resolve_delivery(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    """Apply the decision `verb` of `who` to `delivery`; return its new state."""
    delivery = asked["delivery"]
    state = await parts.store.deliveries.decide(
        delivery, asked["verb"], asked["who"], asked["reason"]
    )
    parts.signals.operator_decided.emit()
    return {"delivery": delivery, "state": state}


async def _submit_record(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    """Store the record of a program under its key; return where it stands."""
    return await parts.submissions.act(asked)


async def _rebuild_search(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    """Empty the index, and fill it again; `only_wake`: another daemon emptied it."""
    if not asked.get("only_wake"):
        await parts.store.search.rebuild()
    parts.signals.search_changed.emit()
    return {}


async def _pause_job(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    """Pause the job `name`, of `store` or else of each."""
    jobs = await parts.jobs.pause(asked["name"], asked["store"], asked["who"])
    return {"jobs": jobs}


async def _resume_job(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    jobs = await parts.jobs.resume(asked["name"], asked["store"], asked["who"])
    return {"jobs": jobs}


async def _run_job(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    return {"jobs": await parts.jobs.run(asked["name"], asked["store"], asked["who"])}


async def _resume_targets(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    """Apply the stock counts of `store` again; return why they were stopped."""
    store = asked["store"]
    reason = await parts.store.targets.stopped(store)
    before = f"they were stopped: {reason}" if reason else "they were not stopped"
    entry = AuditEntry(asked["who"], "stock resume", f"{store}: {before}")
    await parts.store.targets.stop(store, None, entry)
    parts.signals.operator_decided.emit()
    return {"was": reason}


async def _release_targets(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    """Release the held targets of a HeldFilter for `who`; return their number."""
    reason = asked["reason"].strip()
    if not 0 < len(reason) <= LONGEST_REASON:
        raise BackhaulError(f"the reason must have 1 to {LONGEST_REASON} characters")
    wanted = msgspec.convert(asked, HeldFilter)
    entry = AuditEntry(asked["who"], "stock release", reason)
    released = await parts.store.targets.release(wanted, entry)
    parts.signals.operator_decided.emit()
    return {"released": released}


async def _revoke_secret(parts: ActionContext, asked: Mapping[str, Any]) -> Answer:
    """Revoke the secret of `store` with `fingerprint`; with `force` even in use."""
    store, name = asked["store"], asked["fingerprint"]
    live = parts.signers.live().get(store)
    if live is None:
        raise BackhaulError(
            f"store {store} is not in the configuration, so it accepts no secret; add"
            f" [stores.{store}] first"
        )
    verb, forced = "accept" if asked["undo"] else "revoke", asked["force"]
    said = f"{name} of {store}" + (" by force" if forced else "")
    entry = AuditEntry(asked["who"], f"secrets {verb}", said)
    if asked["undo"]:
        await parts.signers.drop(store, name, entry, dropped=False)
    else:
        if name not in live:
            raise BackhaulError(
                f"store {store} accepts no secret with the fingerprint {name}; see:"
                " backhaul secrets list"
            )
        if len(live) == 1:
            raise BackhaulError(
                f"{name} is the only secret of store {store}. Without it, Backhaul"
                " would refuse every webhook; configure another secret first"
            )
        await parts.signers.save()
        last = await parts.store.webhook_secrets.last_used(store, name)
        if last and not forced:
            _require_idle(parts, name, last)
        await parts.signers.drop(store, name, entry)
    return {"store": store, "accepted": parts.signers.live()[store]}


def _require_idle(parts: ActionContext, name: str, last: str) -> None:
    if parts.clock.now() - from_text(last) < IN_USE:
        raise BackhaulError(
            f"the platform used secret {name} at {last}, less than a day ago. First"
            " enter the new secret at the platform, or use --force"
        )


STORE_ACTIONS: Mapping[
    str, Callable[[ActionContext, Mapping[str, Any]], Awaitable[Answer]]
] = {
    "commands/change": change_commands,
    "commands/decide": _decide,
    "commands/preview": _preview,
    "connectors/check": store_actions.check_connector,
    "connectors/run": _run_connector,
    "connectors/resolve": _resolve_delivery,
    "deliveries/change": change_deliveries,
    "customers/erase": _erase_customer,
    "events/reprocess": _reprocess,
    "incidents/resolve": _resolve_incident,
    "jobs/pause": _pause_job,
    "jobs/resume": _resume_job,
    "jobs/run": _run_job,
    "mappings/add": add_mappings,
    "mappings/remove": remove_mapping,
    "quarantine/change": quarantine_actions.change_rows,
    "quarantine/correct": quarantine_actions.correct_row,
    "quarantine/discard": quarantine_actions.discard_row,
    "quarantine/edit": quarantine_actions.edit_row,
    "quarantine/retry": quarantine_actions.retry_row,
    "receivers/move": _move_received,
    "records/submit": _submit_record,
    "search/rebuild": _rebuild_search,
    "secrets/revoke": _revoke_secret,
    "stock/release": _release_targets,
    "stores/backfill": store_actions.backfill_orders,
    "stores/orders": store_actions.count_orders,
    "stores/redeliver": store_actions.redeliver,
    "stores/test": store_actions.send_test,
    "stock/resume": _resume_targets,
}
"""The actions on stores, by name: the owner of the store carries them out."""


def parts_by_store(
    verb: str,
    asked: Mapping[str, Any],
    stores: Sequence[str],
    connectors: Mapping[str, str],
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what an action on several stores asks of the owner of each store.

    The list is empty for any other action. The owner of the whole database changes rows
    of a store that is not configured.
    """
    if verb == "stock/release":
        at = connectors.get(asked.get("instance") or "")
        names = stores if at is None else (at,)
        return [(name, {**asked, "store": name}) for name in names]
    if verb.endswith("/change"):
        return [
            (name if name in stores else DATABASE, {**asked, "store": name})
            for name in asked["expected"]
        ]
    return []


def combined(answers: Sequence[Answer]) -> Answer:
    """Return one answer for those of several owners: their lists and sums."""
    first, *others = answers
    result = dict(first)
    for answer in others:
        for name, value in answer.items():
            result[name] = result[name] + value if name in result else value
    return result


def store_of(
    verb: str, asked: Mapping[str, Any], connectors: Mapping[str, str], reader: Reader
) -> str | None:
    """Return the store that an action changes; None if it is all, or not known.

    `connectors` has the store of each connection.
    """
    group = verb.partition("/")[0]
    found: CommandDetail | QuarantineDetail | OpenIncident | None = None
    if store := asked.get("store"):
        return str(store)
    if group == "commands" and "command" in asked:
        found = reader.command(asked["command"])
    elif group == "quarantine" and "row" in asked:
        found = reader.quarantined(asked["row"])
    elif group == "incidents":
        known = {each.id: each for each in reader.incidents()}
        found = known.get(asked["id"])
    elif verb in {"connectors/run", "connectors/check"}:
        return connectors.get(asked["name"])
    elif verb == "connectors/resolve":
        return reader.store_of_delivery(asked["delivery"])
    return None if found is None else found.store


def at_host(asked: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return what was asked, so that the audit log also names the machine."""
    who = asked.get("who")
    return {**asked, "who": f"{who} on {host}"} if who else dict(asked)
