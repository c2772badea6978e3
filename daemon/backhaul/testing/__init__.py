"""Test fixtures for programs that work with Backhaul; terms: docs/glossary.md.

pytest finds the fixtures automatically (`pytest --fixtures`): `reference_server`,
`reference_store`, `backhaul_daemon`, `wait_until_idle` and `replay`. Both programs run
as separate processes, on free ports of 127.0.0.1 and in temporary folders.
"""

from backhaul.testing.daemon import DaemonUnderTest, Mirror, sign, signed_headers
from backhaul.testing.reference_server import ReferenceServer, ReferenceStore

__all__ = [
    "DaemonUnderTest",
    "Mirror",
    "ReferenceServer",
    "ReferenceStore",
    "sign",
    "signed_headers",
]
