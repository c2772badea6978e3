"""Looks for what needs a person, and tells it once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loguru import logger

from backhaul.alerting import ways
from backhaul.alerting.message import compose
from backhaul.alerting.ways import NotTold
from backhaul.core.clock import to_text
from backhaul.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.settings.alerts import Alerts as Wanted
    from backhaul.store.alerting import Alert, Alerts, News


class Watch:
    """Tells of each cause once when it begins, and once when it is over.

    Each way tells by itself: what does not get through is sent again by that way alone,
    at the next look, with the id it had.
    """

    def __init__(
        self,
        wanted: Wanted,
        alerts: Alerts,
        look: Callable[[], Awaitable[Mapping[str, Alert]]],
        clock: Clock,
        host: str,
    ) -> None:
        self._wanted = wanted
        self._alerts = alerts
        self._look = look
        self._clock = clock
        self._ways = ways.of(wanted)
        self._host = host
        self._mute: set[str] = set()
        self._broken = False

    async def run(self) -> None:
        """Look for ever. Cancel to stop."""
        while self._wanted.wanted:
            await self._clock.sleep(self._wanted.every)
            try:
                await self.tell()
            except Busy as error:
                logger.bind(action="alert.busy").warning("{}", error)
            except Exception as error:  # noqa: BLE001 - it must not end what others do
                self._looked_in_vain(error)
            else:
                self._broken = False

    async def tell(self) -> None:
        """Look once, and tell what is news. May raise Busy."""
        found = await self._alerts.compare(await self._look(), self._ways)
        for way, news in found.items():
            if news:
                await self._tell(way, news)

    async def _tell(self, way: str, news: News) -> None:
        message = compose(news, self._host, to_text(self._clock.now()))
        try:
            await self._ways[way](self._wanted, message)
        except NotTold as error:
            self._told_in_vain(way, error)
            return
        await self._alerts.told(way, news)
        self._mute.discard(way)
        _log(way, news)

    def _looked_in_vain(self, error: Exception) -> None:
        if not self._broken:
            logger.bind(action="alert.broken").opt(exception=error).error(
                "a look for what needs a person met what nobody foresaw: {}", error
            )
        self._broken = True

    def _told_in_vain(self, way: str, error: NotTold) -> None:
        if way not in self._mute:
            logger.bind(action="alert.failed", way=way).error(
                "nobody could be told of what needs a person: {}", error
            )
        self._mute.add(way)


def _log(way: str, news: News) -> None:
    for one in news.begun:
        logger.bind(action="alert.told", alert=one.key, way=way).info("{}", one.says)
    for one in news.over:
        logger.bind(action="alert.over", alert=one.key, way=way).info("{}", one.says)
