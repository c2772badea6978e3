"""Posts each change to one URL, signed; the host decides when to try again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from backhaul_connectors.webhook_out.manifest import SPEC
from backhaul_connectors.webhook_out.signing import signatures
from backhaul_sdk import Connector, NotSent, Rejected, Uncertain
from backhaul_sdk.calls import Caller, NeverSent, NoAnswer, outcome_of
from backhaul_sdk.clock import seconds_since_1970

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul_connectors.webhook_out.settings import Settings
    from backhaul_sdk import Change, Pushed
    from backhaul_sdk.calls import Answer


class WebhookOut(Connector["Settings"]):
    """A receiver somewhere that takes news.

    `clock` returns the seconds since 1970, which a message is stamped with.
    """

    spec = SPEC

    def __init__(
        self,
        instance: str,
        settings: Settings,
        *,
        clock: Callable[[], float] = seconds_since_1970,
    ) -> None:
        super().__init__(instance, settings)
        self._clock = clock
        self._caller = Caller(settings.network, answer_seconds=settings.answer_seconds)

    async def check(self) -> None:
        self._caller.check(self.settings.url)

    async def open(self) -> None:
        await self.check()
        await self._caller.open()

    async def close(self) -> None:
        await self._caller.close()

    async def push(self, change: Change) -> Pushed:
        message_id, body = _message_id(change.id), _body(change)
        timestamp = int(self._clock())
        headers = {
            "Content-Type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures(
                self.settings.secrets, message_id, timestamp, body
            ),
        }
        try:
            answer = await self._caller.call(
                "POST", self.settings.url, headers=headers, body=body
            )
        except NeverSent as error:
            return NotSent(str(error))
        except NoAnswer as error:
            return Uncertain(str(error))
        return _outcome(answer)


def _outcome(answer: Answer) -> Pushed:
    if answer.status == 410:
        return Rejected("the receiver wants no more messages (410)")
    return outcome_of(answer)


def _message_id(change_id: str) -> str:
    # A point separates the parts of what is signed.
    return change_id.replace(".", ":")


def _body(change: Change) -> bytes:
    message = {
        "type": change.topic,
        "timestamp": change.occurred_at,
        "data": change.document,
        "store": change.store,
    }
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
