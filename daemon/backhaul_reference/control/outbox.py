"""The outbox of mails: what was owed to whom, and how it went."""

from aiohttp import web

from backhaul_reference.control.admission import check_token
from backhaul_reference.state import mails
from backhaul_reference.state.paging import Listing
from backhaul_reference.web import queries
from backhaul_reference.web.answers import page_answer


async def list_mails(request: web.Request) -> web.Response:
    """Mails of all stores, newest first; their text is in the mails alone."""
    platform = check_token(request)
    window = queries.window(request.query)
    found = platform.reader.read(lambda rows: mails.page(rows, window))
    shown = Listing([mails.view(row) for row in found.rows], found.total)
    return page_answer(request, shown, window)
