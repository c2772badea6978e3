"""`python -m backhaul_reference`."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence

import uvloop
from aiohttp.typedefs import Middleware

from backhaul_reference import arguments
from backhaul_reference.arguments import Options
from backhaul_reference.data_folder import ACCESS_FILE, FolderInUseError
from backhaul_reference.mail.transports import MailLoginError
from backhaul_reference.platform.state.schema import NewerDatabaseError
from backhaul_reference.server import PortInUseError, start

EXIT_CORRUPT = 65
EXIT_UNAVAILABLE = 69
EXIT_TEMPORARY = 75
EXIT_CONFIGURATION = 78
# SQLite lets go of the interpreter with each statement. The default of 5 ms is how long
# a busy loop then keeps the writer waiting, at each statement of each order.
SWITCH_SECONDS = 0.0001
REFUSALS: dict[type[Exception], tuple[int, str]] = {
    PortInUseError: (EXIT_UNAVAILABLE, "{}"),
    FolderInUseError: (EXIT_TEMPORARY, "another server uses {}"),
    NewerDatabaseError: (EXIT_CORRUPT, "{}"),
    MailLoginError: (EXIT_CONFIGURATION, "{}"),
}


def main(around: Sequence[Middleware] = ()) -> int:
    options = arguments.parse()
    logging.basicConfig(
        stream=sys.stderr,
        level=options.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        uvloop.run(serve(options, around))
    except tuple(REFUSALS) as error:
        code, words = REFUSALS[type(error)]
        print_line(sys.stderr.fileno(), words.format(error))
        return code
    return 0


async def serve(options: Options, around: Sequence[Middleware]) -> None:
    """Run until a signal asks to stop."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    running = await start(options, around=around)
    _freeze_loaded_objects()
    print_line(sys.stdout.fileno(), f"public {running.access.public_url}")
    print_line(sys.stdout.fileno(), f"control {running.access.control_url}")
    keys = options.data / ACCESS_FILE
    print_line(sys.stdout.fileno(), f"API keys and control token: {keys}")
    await asked.wait()
    await running.stop()


def _freeze_loaded_objects() -> None:
    """Exclude modules and routes, which live as long as the process, from collection.

    A full collection would visit them all while every request waits.
    """
    gc.collect()
    gc.freeze()


def print_line(descriptor: int, line: str) -> None:
    """Print a line to stdout; a closed pipe does not stop the server."""
    try:
        os.write(descriptor, f"{line}\n".encode())
    except BrokenPipeError:
        return


if __name__ == "__main__":
    sys.exit(main())
