"""A replaced API key has another name in the platform's stock history."""

from __future__ import annotations

from scenes.pushing import Scene, applied_response, working
from scenes.scripted_platform import Connection, Request, message
from scenes.stock_history import HISTORY, history, move


async def test_a_key_that_was_replaced_proves_nothing_until_its_name_is_known(
    stage: Scene,
) -> None:
    """Without notes its rows look foreign, so nothing is sent again."""
    stage.platform.respond("/inventory/adjust", applied_by, message(500))
    first = await stage.plan("adjust", "prod_1")
    before = move(1, first, note=None, adjustmentId="adj_1", source=key_named("old"))
    stage.platform.respond(HISTORY, history(before))
    async with working(stage):
        await stage.await_state(first, "applied")
        stage.resolver._resend.client.transport.use_key("svc_live_replaced_0123456789")
        second = await stage.plan("adjust", "prod_1")
        effect = move(2, second, note=None, source=key_named("new"))
        stage.platform.respond(HISTORY, history(effect, before))
        stage.dispatcher.wake()
        await stage.await_parked(second)
    assert len(stage.server.commands) == 2
    assert "our key's name in it is not known" in stage.reason(second)


def key_named(name: str) -> dict[str, str]:
    return {"type": "API_KEY", "id": f"key_{name}"}


async def applied_by(request: Request, connection: Connection) -> None:
    await connection.send(applied_response(request))
