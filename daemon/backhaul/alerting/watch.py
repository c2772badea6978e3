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

    A message that does not get through by every way is sent again at the next look, by
    every way: twice is better than not at all.
    """

    def __init__(
        self,
        wanted: Wanted,
        alerts: Alerts,
        look: Callable[[], Awaitable[Mapping[str, Alert]]],
        clock: Clock,
        chance: Callable[[], float],
        host: str,
    ) -> None:
        self._wanted = wanted
        self._alerts = alerts
        self._look = look
        self._clock = clock
        self._chance = chance
        self._host = host
        self._mute = False

    async def run(self) -> None:
        """Look for ever. Cancel to stop."""
        while self._wanted.wanted:
            await self._clock.sleep(self._wanted.every)
            try:
                await self.tell()
            except Busy as error:
                logger.bind(action="alert.busy").warning("{}", error)

    async def tell(self) -> None:
        """Look once, and tell what is news. May raise Busy."""
        news = await self._alerts.compare(await self._look())
        if not news:
            return
        try:
            await self._send(news)
        except NotTold as error:
            self._told_in_vain(error)
            return
        await self._alerts.told(news)
        self._mute = False
        for alert in news.begun:
            logger.bind(action="alert.told", alert=alert.key).info("{}", alert.says)
        for alert in news.over:
            logger.bind(action="alert.over", alert=alert.key).info("{}", alert.says)

    async def _send(self, news: News) -> None:
        at = to_text(self._clock.now())
        id_ = f"alert-{at}-{int(self._chance() * 2**48):012x}"
        message = compose(news, self._host, at, id_)
        if self._wanted.mail_to:
            await ways.mail(self._wanted, message)
        if self._wanted.webhook_url:
            await ways.post(self._wanted, message)

    def _told_in_vain(self, error: NotTold) -> None:
        if not self._mute:
            logger.bind(action="alert.failed").error(
                "nobody could be told of what needs a person: {}", error
            )
        self._mute = True
