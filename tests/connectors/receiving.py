"""A receiver of webhooks that checks signatures with the standard's own library."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from backhaul_connectors.webhook_out import WebhookOut
from backhaul_connectors.webhook_out.connector import Settings
from connectors.serving import Site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul_sdk import Connector

SECRET = "whsec_" + base64.b64encode(b"first-key-of-this-receiver").decode()
NEWER_SECRET = "whsec_" + base64.b64encode(b"second-key-of-this-receiver").decode()
TODAY = 1_760_000_000.0


class Receiver(Site):
    """Takes each message once, by its id, when its signature is right."""

    def __init__(self, secret: str = SECRET) -> None:
        super().__init__()
        self.taken: dict[str, Any] = {}
        self.headers: list[dict[str, str]] = []
        self._webhook = Webhook(secret)
        self.app.router.add_post("/news", self._take)

    async def _take(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.headers.append(headers)
        try:
            message = self._webhook.verify(await request.read(), headers)
        except WebhookVerificationError:
            return web.Response(status=401)
        self.taken.setdefault(headers["webhook-id"], message)
        return web.Response(status=204)

    def connector(
        self, secrets: Sequence[str] = (SECRET,), **options: Any
    ) -> Connector[Any]:
        """Return a new connector, as after a restart."""
        told = {
            "url": f"{self.url}/news",
            "secrets": list(secrets),
            "network": self.network,
            **options,
        }
        return self.made(WebhookOut("partner", Settings.model_validate(told)))
