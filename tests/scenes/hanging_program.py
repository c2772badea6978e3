"""A program that never says anything and never ends by itself."""

from __future__ import annotations

import threading

threading.Event().wait()
