"""Listening sockets, bound before anything else starts."""

import logging
import os
import socket
from dataclasses import dataclass

from aiohttp import web

from backhaul_reference.web.access_log import DiscreetLogger, TemplateAccessLogger

BACKLOG = 512
KEEP_ALIVE_SECONDS = 75.0
SHUTDOWN_SECONDS = 0.7


class PortInUseError(Exception):
    """The address cannot be listened on."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket."""

    socket: socket.socket

    def close(self) -> None:
        self.socket.close()


def bind(host: str, port: int) -> Listener:
    try:
        return Listener(_bound(host, port))
    except OSError as error:
        reason = error.strerror or "not available"
        raise PortInUseError(f"cannot listen on {host}:{port}: {reason}") from error


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        # Listening now makes a second server fail here and not later.
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def url_of(listener: Listener) -> str:
    host, port = listener.socket.getsockname()[:2]
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  - compared, not bound
    shown = f"[{reachable}]" if ":" in reachable else reachable
    return f"http://{shown}:{port}"


def runner(app: web.Application) -> web.AppRunner:
    return web.AppRunner(
        app,
        handle_signals=False,
        access_log_class=TemplateAccessLogger,
        access_log=logging.getLogger("backhaul_reference.access"),
        logger=DiscreetLogger(logging.getLogger("backhaul_reference.http")),
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
        auto_decompress=False,
    )


def close_descriptor(descriptor: int) -> None:
    os.close(descriptor)
