"""Mails the platform wrote to buyers and to the merchant."""

from aiohttp import web

from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.mail.texts import Desk
from backhaul_reference.platform.context import TrackingTokens
from backhaul_reference.platform.problems import not_found
from backhaul_reference.platform.state import mail_outbox
from backhaul_reference.platform.state.database import Row, Rows
from backhaul_reference.platform.state.pagination import Listing

NOWHERE = Desk(TrackingTokens(b""), "", "")
"""Writes letters without buyers' links: its tokens open nothing."""
MAILS = """SELECT m.*, s.subdomain FROM mail m JOIN store s ON s.id = m.store_id
WHERE m.store_id = ?"""


async def show_mails(visit: PageContext) -> web.Response:
    window, store_id = visit.window(), visit.store.id

    def find(rows: Rows) -> Listing:
        total = rows.value("SELECT COUNT(*) FROM mail WHERE store_id = ?", (store_id,))
        sql = MAILS + " ORDER BY m.seq DESC LIMIT ? OFFSET ?"
        found = rows.all(sql, (store_id, window.limit, window.offset))
        shown = [
            {**mail_outbox.view(row), "letter": NOWHERE.write(rows, row)}
            for row in found
        ]
        return Listing(shown, total)

    return visit.render("mails.html", listing=visit.read(find), window=window)


async def show_mail(visit: PageContext) -> web.Response:
    def find(rows: Rows) -> Row:
        row = rows.one(MAILS + " AND m.id = ?", (visit.store.id, visit.path("id")))
        if row is None:
            raise not_found("MAIL")
        return row

    row = visit.read(find)
    letter = visit.read(lambda rows: NOWHERE.write(rows, row))
    return visit.render("mails_one.html", mail=mail_outbox.view(row), letter=letter)


ROUTES = (
    Route("GET", STORE + "/mails", show_mails),
    Route("GET", STORE + "/mails/{id}", show_mail),
)
