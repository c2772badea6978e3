"""Mails: what the platform wrote to buyers and to the merchant."""

from aiohttp import web

from backhaul_reference.context import TrackingTokens
from backhaul_reference.dashboard.visit import STORE, Route, Visit
from backhaul_reference.mail.letters import Desk
from backhaul_reference.problems import not_found
from backhaul_reference.state import mails
from backhaul_reference.state.database import Row, Rows
from backhaul_reference.state.paging import Listing

NOWHERE = Desk(TrackingTokens(b""), "", "")
"""Writes letters without buyers' links: its tokens open nothing."""
MAILS = """SELECT m.*, s.subdomain FROM mail m JOIN store s ON s.id = m.store_id
WHERE m.store_id = ?"""


async def show_mails(visit: Visit) -> web.Response:
    window, store_id = visit.window(), visit.store.id

    def find(rows: Rows) -> Listing:
        total = rows.value("SELECT COUNT(*) FROM mail WHERE store_id = ?", (store_id,))
        sql = MAILS + " ORDER BY m.seq DESC LIMIT ? OFFSET ?"
        found = rows.all(sql, (store_id, window.limit, window.offset))
        shown = [
            {**mails.view(row), "letter": NOWHERE.write(rows, row)} for row in found
        ]
        return Listing(shown, total)

    return visit.render("mails.html", listing=visit.read(find), window=window)


async def show_mail(visit: Visit) -> web.Response:
    def find(rows: Rows) -> Row:
        row = rows.one(MAILS + " AND m.id = ?", (visit.store.id, visit.path("id")))
        if row is None:
            raise not_found("MAIL")
        return row

    row = visit.read(find)
    letter = visit.read(lambda rows: NOWHERE.write(rows, row))
    return visit.render("mails_one.html", mail=mails.view(row), letter=letter)


ROUTES = (
    Route("GET", STORE + "/mails", show_mails),
    Route("GET", STORE + "/mails/{id}", show_mail),
)
