"""A program that prints nothing and never exits."""

from __future__ import annotations

import threading

threading.Event().wait()
