"""An event loop on which time leaps to the next timer, and whose programs can die.

Nothing waits and nothing runs in a thread: what is ready runs in its order, then time
goes on to the next timer. Each program has a life, a number in its context; when a life
ends, nothing of it runs again, as after a SIGKILL.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine

LIFE: contextvars.ContextVar[int] = contextvars.ContextVar("life", default=0)
"""Whose work this is: 0 is the world's, which does not die."""
GRAVEYARD: list[asyncio.Task[Any]] = []
"""What has died, kept until the process ends: the dead run no `finally`."""


class Stuck(Exception):
    """Nothing is ready and no timer is set: the simulation would wait for ever."""


class NumberedTask(asyncio.Task[Any]):
    """A task that sets hold in the order of its making, not of its address."""

    made = 0

    def __init__(self, *given: Any, **named: Any) -> None:
        NumberedTask.made += 1
        self._number = NumberedTask.made
        super().__init__(*given, **named)

    def __hash__(self) -> int:
        return self._number


class OwnedFuture(asyncio.Future[Any]):
    """Knows whose it is, even before anybody waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.life = LIFE.get()


class Served:
    """What listens on a socket, in the context of the program that serves it.

    It has no sockets that a loop would watch: each request is brought to it.
    """

    sockets = ()

    def __init__(
        self, accept: Callable[[], asyncio.Protocol], sock: socket.socket
    ) -> None:
        self.accept = accept
        self.sock = sock
        self.context = contextvars.copy_context()
        self.open = True

    def close(self) -> None:
        self.open = False

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop of one simulation."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.served: dict[str, Served] = {}
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_made = 0
        self._dead: set[int] = set()
        self._tasks: defaultdict[int, list[NumberedTask]] = defaultdict(list)
        NumberedTask.made = 0
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]

    def time(self) -> float:
        return self.seconds

    def is_dead(self, life: int) -> bool:
        return life in self._dead

    def end(self, life: int) -> None:
        """Let nothing of this life run again."""
        self._dead.add(life)
        timers = (timer for _, _, timer in self._timers)
        for handle in (*self._ready, *timers):  # type: ignore[attr-defined]
            if self._gone(handle):
                _drop(handle)
        for served in self.served.values():
            if served.context.get(LIFE, 0) == life:
                served.open = False
                served.sock.close()
        for task in self._tasks.pop(life, []):
            _bury(task)

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        context = contextvars.copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        if self._dead and context.get(LIFE, 0) in self._dead:
            _drop(handle)
        else:
            self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        context = contextvars.copy_context() if context is None else context
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if self._dead and context.get(LIFE, 0) in self._dead:
            timer.cancel()
            return timer
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._timers_made, timer))
        return timer

    def _run_once(self) -> None:
        """Run what is ready; where nothing is, let the time pass to the next timer."""
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not ready:
            if not timers:
                raise Stuck
            self.seconds = max(self.seconds, timers[0][0])
        while timers and timers[0][0] <= self.seconds:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It stays where it is until its time has come."""

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Do at once what would be done in a thread, and tell of it a turn later."""
        future = self.create_future()
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - passed to the waiting callers
            self.call_soon(_settle, future, None, error)
        else:
            self.call_soon(_settle, future, result, None)
        return future

    async def create_server(  # type: ignore[override]
        self, accept: Callable[[], asyncio.Protocol], *, sock: Any, **_: Any
    ) -> Served:
        served = Served(accept, sock)
        self.served[str(sock.getsockname())] = served
        return served

    def create_future(self) -> asyncio.Future[Any]:
        return OwnedFuture(self)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Tell of an error, but for one that the dead would have asked for later."""
        if not self.is_dead(getattr(context.get("future"), "life", 0)):
            super().call_exception_handler(context)

    def _gone(self, handle: asyncio.Handle) -> bool:
        context: contextvars.Context = handle._context  # type: ignore[attr-defined]
        return context.get(LIFE, 0) in self._dead

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, Any],
        context: contextvars.Context | None = None,
    ) -> NumberedTask:
        task = NumberedTask(work, loop=loop, context=context)
        life = LIFE.get() if context is None else context.get(LIFE, 0)
        if life:
            self._tasks[life].append(task)
        return task

    def _write_to_self(self) -> None:
        """Nobody sleeps that would have to be woken."""


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _drop(handle: asyncio.Handle) -> None:
    """Never run it; nobody is left to miss an error that it was to bring somebody."""
    for given in handle._args or ():
        if isinstance(given, asyncio.Future) and given.done() and not given.cancelled():
            given.exception()
    handle.cancel()


def _bury(task: NumberedTask) -> None:
    """Keep a dead task as it is: taken apart, it would clean up behind itself."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    GRAVEYARD.append(task)
