"""The guard that fails a browser test if its page misbehaves."""

from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import expect

from scenes.browser import Visit, open_visit
from scenes.reference_shop import Receiver, Shop

pytestmark = pytest.mark.programs

Act = Callable[[Visit, str], Awaitable[object]]


async def complain(visit: Visit, elsewhere: str) -> None:
    await visit.page.evaluate("console.error('it is broken')")


async def break_down(visit: Visit, elsewhere: str) -> None:
    script = "setTimeout(() => { throw new Error('it is broken'); })"
    async with visit.page.context.expect_event("weberror"):
        await visit.page.evaluate(script)


async def look_elsewhere(visit: Visit, elsewhere: str) -> None:
    other = await visit.another()
    await other.page.goto(elsewhere)


async def break_the_policy(visit: Visit, elsewhere: str) -> None:
    script = (
        "url => { const one = new Image(); one.src = url; document.body.append(one); }"
    )
    await visit.page.evaluate(script, elsewhere)


async def be_refused(visit: Visit, elsewhere: str) -> None:
    await visit.page.goto(f"{visit.page.url}#/orders/nonsense")
    await expect(visit.page.get_by_role("alert")).to_be_visible()


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (complain, "it is broken"),
        (break_down, "it is broken"),
        (look_elsewhere, "asked http"),
        (break_the_policy, "Content Security Policy"),
        (be_refused, "404"),
    ],
)
async def test_a_page_that_misbehaves_fails_its_test(
    shop: Shop, receiver: Receiver, act: Act, told: str
) -> None:
    with pytest.raises(pytest.fail.Exception, match=told):
        await visit_and(act, shop.running.access.public_url, receiver.url)


async def visit_and(act: Act, origin: str, elsewhere: str) -> None:
    async with open_visit(origin) as visit:
        await visit.page.goto(f"{origin}/shop/demo")
        await act(visit, elsewhere)


async def test_a_refusal_that_was_meant_does_not(visit: Visit, shop: Shop) -> None:
    visit.watch.refusals.add(404)
    await visit.page.goto(f"{shop.running.access.public_url}/shop/demo")
    await be_refused(visit, "")
    assert visit.watch.complaints == []
