"""Opening the mail room: which sink, which sender, and a courier that runs."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from backhaul_reference import tasks
from backhaul_reference.arguments import Options
from backhaul_reference.mail.courier import Courier, Office
from backhaul_reference.mail.sinks import FolderSink, Sink, SmtpSink


def sink_of(options: Options) -> Sink:
    if options.smtp is not None:
        return SmtpSink(*options.smtp)
    return FolderSink(Path(options.data) / "mails")


async def start_courier(office: Office, stack: AsyncExitStack) -> Courier:
    """A running courier; the stack ends it, and what is unsent waits in the outbox."""
    courier = Courier(office)
    task = tasks.start(courier.run())
    stack.push_async_callback(_end, task)
    return courier


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
