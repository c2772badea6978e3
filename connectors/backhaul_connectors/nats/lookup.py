"""Finds out whether a stream has a message with a certain id."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    RetentionPolicy,
)
from nats.js.errors import NotFoundError

from backhaul_connectors.nats.streams import require_stream
from backhaul_sdk import clock
from backhaul_sdk.contract import Absent, Found, Unknown

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from nats.js.api import StreamInfo

    from backhaul_connectors.nats.link import Link
    from backhaul_sdk.contract import Change, LookedUp

MESSAGE_ID = "Nats-Msg-Id"
AHEAD = timedelta(minutes=5)
"""How far the server's clock may be behind ours."""
RESEND = timedelta(seconds=30)
"""How long the host may take until it sends the message again."""
READ_AT_ONCE = 500
READ_SECONDS = 2.0
DEFAULT_WINDOW_SECONDS = 120.0


async def find_message(
    link: Link, jetstream: JetStreamContext, stream: str, subject: str, change: Change
) -> LookedUp:
    """Return whether the stream has the message of a change. Raises BrokerFailed.

    A message that is still on its way is no danger: the stream ignores the id of the
    second one.
    """
    occurred = datetime.fromisoformat(change.occurred_at)
    began = occurred - AHEAD
    info = await require_stream(link, jetstream, stream, [])
    found = await _last(link, jetstream, stream, subject, change.id)
    # Another consumer would take messages of a work queue away.
    if not found and _is_kept(info):
        found = await _search(link, jetstream, stream, subject, change.id, began)
    if found:
        return Found(f"{stream}:{found}")
    if _ignores_repeats_since(info, occurred) or await _keeps_all_since(
        link, jetstream, info, began
    ):
        return Absent()
    return Unknown(
        f"the stream {stream} does not have the message {change.id}, but it deletes"
        " messages, and may have had it"
    )


async def _last(
    link: Link, jetstream: JetStreamContext, stream: str, subject: str, wanted: str
) -> int:
    """Return the sequence of the last message of a subject, if it is the wanted one."""
    try:
        last = await link.ask(
            jetstream.get_last_msg(stream, subject), f"the last message of {subject}"
        )
    except NotFoundError:
        return 0
    is_wanted = (last.headers or {}).get(MESSAGE_ID) == wanted
    return (last.seq or 0) if is_wanted else 0


async def _search(
    link: Link,
    jetstream: JetStreamContext,
    stream: str,
    subject: str,
    wanted: str,
    began: datetime,
) -> int:
    """Return the sequence of the message among all of a subject since a time."""
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_TIME,
        opt_start_time=began,
        filter_subject=subject,
        ack_policy=AckPolicy.NONE,
        headers_only=True,
        mem_storage=True,
        inactive_threshold=30.0,
    )
    reading = await link.ask(
        jetstream.pull_subscribe(subject, stream=stream, config=config),
        f"a read of the stream {stream}",
    )
    pending = (await link.ask(reading.consumer_info(), "a count")).num_pending or 0
    while pending > 0:
        messages = await link.ask(
            reading.fetch(min(max(pending, 2), READ_AT_ONCE), timeout=READ_SECONDS),
            f"a read of the stream {stream}",
        )
        for message in messages:
            if (message.headers or {}).get(MESSAGE_ID) == wanted:
                return message.metadata.sequence.stream
        pending = messages[-1].metadata.num_pending
    return 0


def _is_kept(info: StreamInfo) -> bool:
    """Return whether messages stay in the stream after they were consumed."""
    return info.config.retention in (None, RetentionPolicy.LIMITS)


def _ignores_repeats_since(info: StreamInfo, occurred: datetime) -> bool:
    """Return whether the stream still ignores every id of a message since then."""
    window = info.config.duplicate_window or DEFAULT_WINDOW_SECONDS
    return clock.now() - occurred < timedelta(seconds=window) - RESEND


async def _keeps_all_since(
    link: Link, jetstream: JetStreamContext, info: StreamInfo, began: datetime
) -> bool:
    """Return whether the stream still has every message since a time."""
    config = info.config
    if not _is_kept(info) or (config.max_msgs_per_subject or 0) > 0:
        return False
    if info.state.num_deleted:
        return False
    if info.state.first_seq <= 1:
        return True
    try:
        first = await link.ask(
            jetstream.get_msg(config.name or "", info.state.first_seq),
            "the first message of the stream",
        )
    except NotFoundError:
        return False
    return first.time is not None and first.time < began
