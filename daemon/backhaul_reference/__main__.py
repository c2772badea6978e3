"""`python -m backhaul_reference`."""

import asyncio
import logging
import os
import signal
import sys

import uvloop

from backhaul_reference import arguments
from backhaul_reference.access import FolderInUseError
from backhaul_reference.arguments import Options
from backhaul_reference.listening import PortInUseError
from backhaul_reference.server import start
from backhaul_reference.state.schema import NewerDatabaseError

EXIT_CORRUPT = 65
EXIT_UNAVAILABLE = 69
EXIT_TEMPORARY = 75
# SQLite lets go of the interpreter with each statement. The default of 5 ms is how long
# a busy loop then keeps the writer waiting, at each statement of each order.
SWITCH_SECONDS = 0.0001
REFUSALS: dict[type[Exception], tuple[int, str]] = {
    PortInUseError: (EXIT_UNAVAILABLE, "{}"),
    FolderInUseError: (EXIT_TEMPORARY, "another server uses {}"),
    NewerDatabaseError: (EXIT_CORRUPT, "{}"),
}


def main() -> int:
    options = arguments.parse()
    logging.basicConfig(
        stream=sys.stderr,
        level=options.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        uvloop.run(serve(options))
    except tuple(REFUSALS) as error:
        code, words = REFUSALS[type(error)]
        say(sys.stderr.fileno(), words.format(error))
        return code
    return 0


async def serve(options: Options) -> None:
    """Run until a signal asks to stop."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    running = await start(options)
    say(sys.stdout.fileno(), f"public {running.access.public_url}")
    say(sys.stdout.fileno(), f"control {running.access.control_url}")
    await asked.wait()
    await running.stop()


def say(descriptor: int, line: str) -> None:
    """One line for whoever started us; a closed pipe is no reason to stop."""
    try:
        os.write(descriptor, f"{line}\n".encode())
    except BrokenPipeError:
        return


if __name__ == "__main__":
    sys.exit(main())
