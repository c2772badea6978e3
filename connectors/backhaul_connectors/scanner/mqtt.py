"""Receives scans over MQTT; acknowledges each after the host has stored it."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiomqtt

from backhaul_connectors.scanner.intake import DeviceAnswer, DeviceReply, reply_to
from backhaul_sdk import CheckFailed

if TYPE_CHECKING:
    from backhaul_connectors.scanner.intake import ScanIntake
    from backhaul_connectors.scanner.settings import Settings

MOST_AT_ONCE = 500
FIRST_REST_SECONDS = 0.2
LONGEST_REST_SECONDS = 5.0
STORE_AGAIN_SECONDS = 1.0
CONNECT_SECONDS = 10.0
LEAVE_SECONDS = 2.0


class _Acknowledging(aiomqtt.Client):
    """Acknowledges messages when we say so; the base class does at once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._client.manual_ack_set(True)

    def acknowledge(self, message: aiomqtt.Message) -> None:
        self._client.ack(message.mid, message.qos)

    def answer(self, topic: str, reply: bytes) -> None:
        """Send without waiting: a wait would not notice a lost broker."""
        self._client.publish(topic, reply)


class MqttListener:
    """Keeps a session at the broker, which stores scans while we are down."""

    def __init__(self, instance: str, settings: Settings, intake: ScanIntake) -> None:
        self._settings = settings
        self._intake = intake
        self._name = settings.mqtt_client_id or f"backhaul-{instance}"
        self._task: asyncio.Task[None] | None = None
        self.problem = ""
        self.connected = asyncio.Event()
        self._decided = asyncio.Event()

    def __repr__(self) -> str:
        return f"Broker({self._settings.mqtt_host})"

    async def check(self) -> None:
        """Connect once, with a temporary session. Raises CheckFailed."""
        context = await asyncio.to_thread(self._tls)
        try:
            async with self._client(context, f"{self._name}-check", lasting=False):
                pass
        except aiomqtt.MqttError as error:
            raise CheckFailed(self._words(error)) from None

    async def open(self) -> None:
        """Start to receive; an unreachable broker is retried forever."""
        if self._task is not None:
            return
        context = await asyncio.to_thread(self._tls)
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(context))

    async def close(self) -> None:
        """Disconnect; the broker stores new scans. Safe to call twice."""
        if self._task is None:
            return
        try:
            # The library breaks if it is cancelled while it connects.
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._decided.wait()
        finally:
            self._task.cancel()
        await asyncio.wait([self._task])
        self._task = None

    async def _run(self, context: ssl.SSLContext | None) -> None:
        rest = FIRST_REST_SECONDS
        while True:
            self._decided.clear()
            try:
                async with self._client(context, self._name, lasting=True) as client:
                    self._decided.set()
                    await client.subscribe(self._settings.mqtt_topic, qos=1)
                    self.problem, rest = "", FIRST_REST_SECONDS
                    self.connected.set()
                    await self._take_all(client)
            except aiomqtt.MqttError as error:
                self.problem = self._words(error)
            except Exception as error:  # noqa: BLE001 - the end of a task is not awaited
                self.problem = f"MQTT failed: {type(error).__name__}"
            self.connected.clear()
            self._decided.set()
            await asyncio.sleep(rest)
            rest = min(rest * 2, LONGEST_REST_SECONDS)

    def _words(self, error: aiomqtt.MqttError) -> str:
        where = f"{self._settings.mqtt_host} port {self._settings.mqtt_port}"
        return f"the broker at {where} cannot be used: {error}"

    async def _take_all(self, client: _Acknowledging) -> None:
        messages = client.messages
        while True:
            group = [await anext(messages)]
            while len(messages) and len(group) < MOST_AT_ONCE:
                group.append(await anext(messages))
            replies = await asyncio.gather(*map(self._take, group))
            for message in group:
                client.acknowledge(message)
            for message, reply in zip(group, replies, strict=True):
                topic = f"{message.topic.value.rpartition('/')[0]}/reply"
                client.answer(topic, reply)

    async def _take(self, message: aiomqtt.Message) -> bytes:
        """Return the reply, once the scan is stored or refused for good."""
        line = bytes(message.payload or b"")
        reply = await self._reply_to(message, line)
        while reply.answer.status == 503:
            await asyncio.sleep(STORE_AGAIN_SECONDS)
            reply = await self._reply_to(message, line)
        return reply.formed_for(line)

    async def _reply_to(self, message: aiomqtt.Message, line: bytes) -> DeviceReply:
        device = self._device_of(message.topic.value)
        if device not in self._settings.mqtt_devices:
            what = "unknown device: add it to mqtt_devices"
            return DeviceReply(DeviceAnswer(401, what))
        if message.retain:
            what = "a scan must not be a retained message: it would come again"
            return DeviceReply(DeviceAnswer(422, what))
        return await reply_to(line, device, self._intake)

    def _device_of(self, topic: str) -> str:
        place = self._settings.mqtt_topic.split("/").index("+")
        return topic.split("/")[place]

    def _client(
        self, context: ssl.SSLContext | None, name: str, *, lasting: bool
    ) -> _Acknowledging:
        settings = self._settings
        return _Acknowledging(
            settings.mqtt_host,
            settings.mqtt_port,
            identifier=name,
            username=settings.mqtt_username or None,
            password=settings.mqtt_password.get_secret_value() or None,
            tls_context=context,
            clean_session=not lasting,
            timeout=CONNECT_SECONDS,
            keepalive=30,
        )

    def _tls(self) -> ssl.SSLContext | None:
        if not self._settings.mqtt_tls:
            return None
        file = self._settings.mqtt_ca_file
        try:
            return ssl.create_default_context(cafile=file)
        except OSError as error:  # ssl.SSLError is one
            problem = f"{file} holds no usable certificates: {error.strerror or error}"
            raise CheckFailed(problem) from None
