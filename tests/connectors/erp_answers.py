"""A small server that answers as Tryton does, and fails as a test says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from backhaul_connectors.tryton import Tryton
from connectors.serving import Site
from connectors.test_tryton import settings_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul_sdk import Connector


class AnsweringErp(Site):
    """Keeps sales; `answers` holds what is answered to a method instead.

    `results` holds what further methods return, `asked` each method that was called,
    `headers` what each answer shows besides.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, Callable[[], web.Response]] = {}
        self.asked: list[str] = []
        self.headers: dict[str, str] = {}
        self.sales: list[dict[str, Any]] = []
        self.results: dict[str, Callable[..., Any]] = {
            "common.db.login": lambda *_: [1, "key", None],
            "model.res.user.get_preferences": lambda *_: {},
            "model.party.party.search_read": lambda *_: [{"id": 1, "addresses": [2]}],
            "model.currency.currency.search": lambda *_: [1],
            "model.product.product.search_read": lambda *_: [
                {"id": 1, "code": "LS-S", "default_uom": 1}
            ],
            "model.sale.sale.search_read": lambda *_: self.sales,
            "model.sale.sale.create": self._create,
            "model.sale.sale.quote": self._quote,
        }
        self.app.router.add_post("/erp/rpc/", self._answer)

    def connector(self, **options: Any) -> Connector[Any]:
        """Return a new connector, as after a restart."""
        return self.made(Tryton("erp", settings_of(self.port, **options)))

    async def _answer(self, request: web.Request) -> web.Response:
        called = await request.json()
        method = called["method"]
        self.asked.append(method)
        if method in self.answers:
            return self.answers[method]()
        result = self.results[method](*called["params"])
        document = {"id": called["id"], "result": result}
        return web.json_response(document, headers=self.headers)

    def _create(self, values: list[dict[str, Any]], _: object) -> list[int]:
        for _each in values:
            id_ = len(self.sales) + 1
            self.sales.append({"id": id_, "number": str(id_), "state": "draft"})
        return [sale["id"] for sale in self.sales[-len(values) :]]

    def _quote(self, ids: list[int], _: object) -> None:
        for sale in self.sales:
            if sale["id"] in ids:
                sale["state"] = "quotation"
