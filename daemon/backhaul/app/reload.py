"""Reloads the configuration while the daemon runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loguru import logger
from pydantic import BaseModel

from backhaul.app.wiring import webhook_secrets
from backhaul.core.identity import fingerprint
from backhaul.errors import ConfigurationError
from backhaul.settings import Scheduled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from backhaul.app.jobs import Jobs
    from backhaul.app.systemd import ServiceManager
    from backhaul.app.wiring import Shop
    from backhaul.ingest.webhook_secrets import SecretRegistry
    from backhaul.maintenance.database_jobs import BackupWorker
    from backhaul.settings import Settings

LIVE_TABLES = ("log", "jobs")
LIVE_STORE_KEYS = ("api_key", "webhook_secrets", "jobs")
"""The settings of a store that a reload applies."""


class Reloader:
    """Applies a changed configuration; `read` loads and checks the present file."""

    def __init__(
        self,
        settings: Settings,
        read: Callable[[], Settings],
        shops: Mapping[str, Shop],
        signers: SecretRegistry,
        jobs: Jobs,
        backer: BackupWorker,
        supervisor: ServiceManager,
    ) -> None:
        self._running = settings
        self._read = read
        self._shops = shops
        self._signers = signers
        self._jobs = jobs
        self._backer = backer
        self._supervisor = supervisor

    async def run(self) -> None:
        """Reload once, and report it to the service manager. May raise Busy."""
        self._supervisor.reloading()
        try:
            await self.reload()
        finally:
            self._supervisor.reloaded()

    async def reload(self) -> None:
        """Apply the settings that can change, and log the result. May raise Busy.

        A configuration with a mistake changes nothing.
        """
        try:
            found = self._read()
        except ConfigurationError as error:
            wrong = "; ".join(map(str, error.findings))
            logger.bind(action="reload.refused").error(
                "the configuration has mistakes, so the previous one stays in force:"
                " {}",
                wrong,
            )
            return
        wanted = taken_over(self._running, found)
        changed = [key for key, *_ in differences(self._running, wanted)]
        left = [key for key, *_ in differences(wanted, found)]
        await self._take_over(wanted)
        self._running = wanted
        _log_result(changed, left)

    async def _take_over(self, wanted: Settings) -> None:
        await self._signers.load(webhook_secrets(wanted))
        await self._jobs.replan(wanted)
        self._backer.keep_in(wanted.backup_folder, wanted.jobs.backup.keep)
        for name, shop in self._shops.items():
            key = wanted.stores[name].api_key.get_secret_value()
            if fingerprint(key) != shop.client.transport.key_fingerprint:
                shop.client.transport.use_key(key)


def taken_over(running: Settings, found: Settings) -> Settings:
    """Return the running settings with those of `found` that a reload can apply."""
    stores = {
        name: _merged(store, found.stores[name], LIVE_STORE_KEYS)
        if name in found.stores
        else store
        for name, store in running.stores.items()
    }
    live: dict[str, Any] = {name: getattr(found, name) for name in LIVE_TABLES}
    return running.model_copy(update={**live, "stores": stores})


def _merged(old: BaseModel, new: BaseModel, keys: tuple[str, ...]) -> BaseModel:
    return old.model_copy(update={key: getattr(new, key) for key in keys})


def differences(
    old: BaseModel, new: BaseModel, place: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield each setting that differs, as `stores.main.api_key`, with its values."""
    yield from _differing(dict(old), dict(new), place)


def _differing(
    old: Mapping[str, Any], new: Mapping[str, Any], place: str
) -> Iterator[tuple[str, Any, Any]]:
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key), new.get(key)
        inner = f"{place}.{key}".lstrip(".")
        if before == after and _schedule_differs(before, after):
            yield inner, before, after
        elif isinstance(before, BaseModel) and isinstance(after, BaseModel):
            yield from differences(before, after, inner)
        elif isinstance(before, dict) and isinstance(after, dict):
            yield from _differing(before, after, inner)
        elif before != after:
            yield inner, before, after


def _schedule_differs(before: object, after: object) -> bool:
    """Return whether equal times were written in only one of the two."""
    if isinstance(before, Scheduled) and isinstance(after, Scheduled):
        return before.is_written != after.is_written
    return False


def _log_result(changed: list[str], left: list[str]) -> None:
    """Log the names of the settings, never their values: some are secrets."""
    said = f"in force now: {', '.join(changed)}" if changed else "nothing to apply"
    if left:
        logger.bind(action="reload.done").warning(
            "configuration reloaded; {}; needs a restart: {}", said, ", ".join(left)
        )
    else:
        logger.bind(action="reload.done").info("configuration reloaded; {}", said)
