"""One connection to NATS. It is never repaired: its user opens a new one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from nats.aio.client import Client, RawCredentials
from nats.aio.transport import TcpTransport
from nats.errors import Error, NoServersError
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from backhaul_sdk.messages import BrokerFailed
from backhaul_sdk.messages.tasks import ConnectionLostError, close_soon, unless_lost

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine

    from nats.js import JetStreamContext

    from backhaul_connectors.nats.settings import Settings

T = TypeVar("T")
CONNECT_SECONDS = 5
PING_SECONDS = 15


class _Client(Client):
    """Refuses to continue without TLS; the library would send the password.

    It also gives up what the server does not read; the library would keep the socket.
    """

    must_encrypt = False

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            used = self._transport
            if isinstance(used, TcpTransport) and used._io_writer is not None:
                used._io_writer.transport.abort()

    async def _process_info(
        self, info: dict[str, Any], initial_connection: bool = False
    ) -> None:
        if self.must_encrypt and not info.get("tls_required"):
            raise Error("the server does not offer TLS, and servers requires it")
        await super()._process_info(info, initial_connection)


class Link:
    """A connection. `lost` resolves when it has ended."""

    def __init__(self, settings: Settings, purpose: str) -> None:
        self._settings = settings
        self._purpose = purpose
        self._client = _Client()
        self._client.must_encrypt = settings.is_encrypted
        self._said = ""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.denied = ""
        """The last action for which the server denied permission."""

    @property
    def where(self) -> str:
        return ", ".join(self._settings.servers)

    async def connect(self, tls: ssl.SSLContext | None) -> JetStreamContext:
        """Connect; return the JetStream interface. Raises BrokerFailed."""
        try:
            await self.within(self._client.connect(**self._options(tls)))
        except Exception as error:  # noqa: BLE001 - also those of the library of keys
            await self.close()
            raise BrokerFailed(self._unreachable(error)) from None
        except BaseException:
            await self.close()
            raise
        seconds = self._settings.answer_seconds
        if self._settings.domain:
            return self._client.jetstream(domain=self._settings.domain, timeout=seconds)
        return self._client.jetstream(timeout=seconds)

    async def within(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of work. Raises BrokerFailed if the connection ends first.

        Passes the library's errors on.
        """
        try:
            return await unless_lost(work, self.lost)
        except ConnectionLostError:
            raise BrokerFailed(self._ended()) from None

    async def ask(self, work: Coroutine[Any, Any, T], what: str) -> T:
        """Return the answer of the JetStream API. Raises BrokerFailed.

        Passes NotFoundError on. `what` names the request in messages.
        """
        self.denied = ""
        try:
            return await self.within(work)
        except NotFoundError:
            raise
        except ServiceUnavailableError:
            raise BrokerFailed(
                f"the NATS server at {self.where} offers no JetStream to this account;"
                " enable JetStream for it, or correct domain"
            ) from None
        except APIError as error:
            raise BrokerFailed(
                f"NATS refused {what}: {error.description or error.code}"
            ) from None
        except (Error, OSError, TimeoutError) as error:
            raise BrokerFailed(self._unanswered(what, error)) from None

    async def send(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a message that needs no answer. Raises BrokerFailed."""
        try:
            return await self.within(work)
        except (Error, OSError):
            raise BrokerFailed(self._ended()) from None

    async def close(self) -> None:
        """Send what is waiting, and close the connection."""
        await close_soon(self._client.close)
        await self._on_closed()

    def _options(self, tls: ssl.SSLContext | None) -> dict[str, Any]:
        settings = self._settings
        options: dict[str, Any] = {
            "servers": list(settings.servers),
            "name": f"backhaul {self._purpose}",
            "allow_reconnect": False,
            # Each server is tried twice, without a wait.
            "max_reconnect_attempts": 1,
            "reconnect_time_wait": 0,
            "connect_timeout": CONNECT_SECONDS,
            "ping_interval": PING_SECONDS,
            "error_cb": self._on_error,
            "closed_cb": self._on_closed,
        }
        if tls is not None:
            options["tls"] = tls
        if settings.user:
            options["user"] = settings.user
            options["password"] = settings.password.get_secret_value()
        if token := settings.token.get_secret_value():
            options["token"] = token
        if seed := settings.nkey_seed.get_secret_value():
            options["nkeys_seed_str"] = seed.strip()
        if credentials := settings.credentials.get_secret_value():
            options["user_credentials"] = RawCredentials(credentials)
        return options

    async def _on_error(self, error: Exception) -> None:
        self._said = str(error) or type(error).__name__
        if "permissions violation" in self._said.lower():
            self.denied = self._said.removeprefix("nats: ")

    async def _on_closed(self) -> None:
        if not self.lost.done():
            self.lost.set_result(None)

    def _unreachable(self, error: Exception) -> str:
        said = self._said if isinstance(error, NoServersError) else str(error)
        if "authorization violation" in said.lower():
            return (
                f"the NATS server at {self.where} refused the login; check user and"
                " password, token, nkey_seed or credentials"
            )
        if not isinstance(error, Error | OSError | TimeoutError | BrokerFailed):
            # The text of other errors may contain the key.
            return (
                f"the login at the NATS server at {self.where} cannot be prepared"
                f" ({type(error).__name__}); check nkey_seed or credentials"
            )
        why = said.removeprefix("nats: ") or type(error).__name__
        return f"no NATS server at {self.where} can be used: {why}"

    def _unanswered(self, what: str, error: Exception) -> str:
        if self.denied:
            return f"NATS denied {what}: {self.denied}; grant the user this permission"
        if isinstance(error, TimeoutError):
            seconds = self._settings.answer_seconds
            return f"NATS did not answer {what} within {seconds:g} s"
        return f"{what} failed: {error}"

    def _ended(self) -> str:
        why = f": {self._said}" if self._said else ""
        return f"the connection to the NATS server at {self.where} ended{why}"
