"""Mails that the platform sent to buyers and to the merchant."""

from aiohttp import web

from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.mail.texts import MailRenderer
from backhaul_reference.platform.context import TrackingTokens
from backhaul_reference.platform.problems import not_found
from backhaul_reference.platform.state import mail_outbox
from backhaul_reference.platform.state.database import Row, Rows
from backhaul_reference.platform.state.pagination import Listing

RENDERER = MailRenderer(TrackingTokens(b""), "", "")
"""Renders mails without working tracking links: its tokens are fake."""
MAILS = """SELECT m.*, s.subdomain FROM mail m JOIN store s ON s.id = m.store_id
WHERE m.store_id = ?"""


async def show_mails(context: PageContext) -> web.Response:
    window, store_id = context.window(), context.store.id

    def find(rows: Rows) -> Listing:
        total = rows.value("SELECT COUNT(*) FROM mail WHERE store_id = ?", (store_id,))
        sql = MAILS + " ORDER BY m.seq DESC LIMIT ? OFFSET ?"
        found = rows.all(sql, (store_id, window.limit, window.offset))
        shown = [
            {**mail_outbox.view(row), "text": RENDERER.write(rows, row)}
            for row in found
        ]
        return Listing(shown, total)

    return context.render("mails.html", listing=context.read(find), window=window)


async def show_mail(context: PageContext) -> web.Response:
    def find(rows: Rows) -> Row:
        row = rows.one(MAILS + " AND m.id = ?", (context.store.id, context.path("id")))
        if row is None:
            raise not_found("MAIL")
        return row

    row = context.read(find)
    text = context.read(lambda rows: RENDERER.write(rows, row))
    return context.render("mails_one.html", mail=mail_outbox.view(row), text=text)


ROUTES = (
    Route("GET", STORE + "/mails", show_mails),
    Route("GET", STORE + "/mails/{id}", show_mail),
)
