"""A killed server leaves no process behind, whatever it forks in that moment."""

from __future__ import annotations

import os
import subprocess
import sys

from scenes.processes import kill_family

FORKER = """
import os, time
while True:
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    os.write(1, b".")
    time.sleep(0.001)
"""


def test_no_process_outlives_a_server_that_goes_on_forking() -> None:
    output, theirs = os.pipe()
    with subprocess.Popen([sys.executable, "-c", FORKER], stdout=theirs) as server:
        os.close(theirs)
        for _ in range(20):
            assert os.read(output, 1) == b"."
        kill_family(server.pid)
    os.set_blocking(output, False)
    while os.read(output, 65_536):  # raises BlockingIOError while a process has it
        pass
    os.close(output)
