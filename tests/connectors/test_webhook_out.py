"""What webhook_out sends and signs, and how it handles each response."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from backhaul_connectors.webhook_out import WebhookOut
from backhaul_connectors.webhook_out.connector import Settings
from backhaul_sdk import Applied, CheckFailed, NotSent, Rejected, Uncertain
from backhaul_sdk.testing import sample_change
from connectors.receiving import NEWER_SECRET, SECRET, Receiver
from connectors.serving import Site

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    await receiver.plug_in()
    yield receiver
    await receiver.close()


async def test_a_message_is_verified_by_the_standards_library(
    receiver: Receiver,
) -> None:
    connector = receiver.connector()
    change = sample_change(7, "order.updated")
    assert await connector.push(change) == Applied()
    assert receiver.taken == {
        "sample:order:updated:7": {
            "type": "order.updated",
            "timestamp": change.occurred_at,
            "data": change.document,
            "store": "main",
        }
    }


@pytest.mark.parametrize(
    ("secrets", "said"),
    [
        ([SECRET, NEWER_SECRET], Applied),
        ([NEWER_SECRET, SECRET], Applied),
        ([NEWER_SECRET], NotSent),
    ],
)
async def test_while_secrets_are_replaced_either_is_enough(
    receiver: Receiver, secrets: list[str], said: type
) -> None:
    connector = receiver.connector(secrets)
    assert isinstance(await connector.push(sample_change(1)), said)
    (headers,) = receiver.headers
    assert len(headers["webhook-signature"].split()) == len(secrets)


async def test_a_message_sent_again_has_its_id_and_a_new_time(
    receiver: Receiver,
) -> None:
    connector = receiver.connector()
    for _ in range(2):
        await connector.push(sample_change(1))
    assert len({headers["webhook-id"] for headers in receiver.headers}) == 1
    assert len(receiver.taken) == 1


@pytest.mark.parametrize("traceparent", [f"00-{'1' * 32}-{'2' * 16}-01", None])
async def test_a_message_names_the_trace_of_its_change(
    receiver: Receiver, traceparent: str | None
) -> None:
    change = replace(sample_change(1), traceparent=traceparent)
    assert await receiver.connector().push(change) == Applied()
    (headers,) = receiver.headers
    assert headers.get("traceparent") == traceparent


ANSWERS: list[tuple[int, dict[str, str], type, float | None]] = [
    (200, {}, Applied, None),
    (204, {}, Applied, None),
    (301, {"Location": "/elsewhere"}, NotSent, None),
    (307, {"Location": "/elsewhere"}, NotSent, None),
    (400, {}, Rejected, None),
    (401, {}, NotSent, None),
    (403, {}, NotSent, None),
    (404, {}, NotSent, None),
    (408, {}, Uncertain, None),
    (410, {}, Rejected, None),
    (413, {}, Rejected, None),
    (422, {}, Rejected, None),
    (429, {"Retry-After": "7"}, NotSent, 7.0),
    (429, {"Retry-After": "soon"}, NotSent, None),
    (429, {"Retry-After": "9" * 9}, NotSent, 60.0),
    (500, {}, Uncertain, None),
    (503, {"Retry-After": "30"}, NotSent, 30.0),
    (
        429,
        {
            "Date": "Sun, 06 Nov 2005 08:49:37 GMT",
            "Retry-After": "Sun, 06 Nov 2005 08:50:37 GMT",
        },
        NotSent,
        60.0,
    ),
]


@pytest.mark.parametrize(("status", "headers", "said", "wait"), ANSWERS)
async def test_each_answer_has_its_class(
    status: int, headers: dict[str, str], said: type, wait: float | None
) -> None:
    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=status, headers=headers)

    seen: list[str] = []
    site = Site()
    site.app.router.add_post("/{tail:.*}", answer)
    await site.plug_in()
    connector = Receiver.connector(site)  # type: ignore[arg-type]  # any site will do
    outcome = await connector.push(sample_change(1))
    await site.close()
    assert type(outcome) is said, outcome
    assert getattr(outcome, "retry_after_seconds", None) == wait
    assert seen == ["/news"], "a redirect was followed, or it was tried again"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"secrets": ["whsec_c2hvcnQ="]}, "24 to 64"),
        ({"secrets": ["whsec_" + "!" * 40]}, "Base64"),
        ({"secrets": []}, "at least 1"),
        ({"url": "http://example.com/"}, "use https://"),
        ({"url": "https://192.168.1.4/"}, "network.allow"),
        ({"url": "https://user:canary@example.com/"}, "separate settings"),
    ],
)
def test_a_mistake_is_named_and_no_secret_shows(
    options: dict[str, Any], said: str
) -> None:
    told = {"url": "https://example.com/", "secrets": [SECRET], "network": {}}
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(told | options)
    assert said in str(caught.value)
    for secret in (SECRET, "canary"):
        assert secret not in f"{caught.value} {caught.value!r}"


def test_secrets_may_come_as_lines() -> None:
    lines = f"{SECRET}\n{NEWER_SECRET}\n"
    told = {"url": "https://example.com/", "secrets": lines}
    assert len(Settings.model_validate(told).secrets) == 2


async def test_a_name_that_leads_into_the_house_is_not_called(
    receiver: Receiver,
) -> None:
    network = {"ports": [receiver.port], "allow_http": True}
    url = f"http://localhost:{receiver.port}/news"
    connector = receiver.connector(url=url, network=network)
    said = await connector.push(sample_change(1))
    assert isinstance(said, NotSent)
    assert "loopback" in said.reason
    assert receiver.headers == []


async def test_check_names_each_problem() -> None:
    settings = Settings.model_validate(
        {"url": "https://example.com/", "secrets": [SECRET]}
    )
    await WebhookOut("partner", settings).check()
    other = settings.model_copy(update={"url": "https://10.0.0.1/"})
    with pytest.raises(CheckFailed, match=r"network\.allow"):
        await WebhookOut("partner", other).check()
