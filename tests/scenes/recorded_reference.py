"""Runs the reference server in its own process, and records its exchanges."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from backhaul_reference.__main__ import main
from scenes.recorded_exchanges import VARIABLE, recorder_to, recording

if __name__ == "__main__":
    sys.exit(main([recording(recorder_to(Path(os.environ[VARIABLE])))]))
