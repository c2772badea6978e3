"""/storefront/orders/track/:token/payment: the buyer says that they paid."""

from typing import Annotated

from aiohttp import web
from pydantic import StringConstraints

from backhaul_reference.state import order_views, payment_reports
from backhaul_reference.state.payment_reports import Report
from backhaul_reference.state.writer import Tx
from backhaul_reference.web.bodies import Body, Printable
from backhaul_reference.web.endpoint import Answer, Call, Endpoint

Transaction = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100, strip_whitespace=True),
    Printable,
]
PayerName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, strip_whitespace=True),
    Printable,
]


class ReportPayment(Body):
    transaction_id: Transaction
    payer_name: PayerName | None = None


async def report_payment(call: Call) -> web.Response:
    token_hash = call.platform.tokens.hash_of(call.path("token"))
    sent = Report(call.body.transaction_id, call.body.payer_name)

    def report(tx: Tx) -> Answer:
        row = order_views.find_by_token(tx, call.store, token_hash)
        return Answer(payment_reports.report(tx, call.store, row, sent))

    return await call.mutate(report)


ENDPOINTS = (
    Endpoint(
        "POST",
        "/storefront/orders/track/{token}/payment",
        report_payment,
        body=ReportPayment,
    ),
)
