"""Opening the mail room: which sink, which sender, and a courier that runs."""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path

from backhaul_reference import tasks
from backhaul_reference.arguments import Options, is_loopback
from backhaul_reference.mail.courier import Courier, Office
from backhaul_reference.mail.letters import Tokens
from backhaul_reference.mail.printing import NoTokens, PrintingSink
from backhaul_reference.mail.sinks import FolderSink, Sink, SmtpSink
from backhaul_reference.mail_login import Login, MailLoginError, Tls, login_of


def sink_of(options: Options) -> Sink:
    if options.mails == "stdout":
        return PrintingSink()
    if options.smtp is None:
        return FolderSink(Path(options.data) / "mails")
    host, port = options.smtp
    login = login_of(options.smtp_login, os.environ)
    return SmtpSink(host, port, _tls_for(host, options.smtp_tls, login), login)


def tokens_of(options: Options, tokens: Tokens) -> Tokens:
    """A buyer's link is for the buyer: it is in mails, and nowhere else."""
    return NoTokens() if options.mails == "stdout" else tokens


def _tls_for(host: str, wanted: Tls, login: Login | None) -> Tls:
    """A password never leaves the machine in the clear."""
    if login is None:
        return wanted
    if wanted == "off" and not is_loopback(host):
        raise MailLoginError("--smtp-tls off: a login needs TLS to another machine")
    return "starttls" if wanted == "auto" else wanted


async def start_courier(office: Office, stack: AsyncExitStack) -> Courier:
    """A running courier; the stack ends it, and what is unsent waits in the outbox."""
    courier = Courier(office)
    task = tasks.start(courier.run())
    stack.push_async_callback(_end, task)
    return courier


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
