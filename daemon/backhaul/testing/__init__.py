"""For tests of programs that work with Backhaul: fixtures, and what they give.

pytest finds the fixtures by itself (`pytest --fixtures`): `reference_server`,
`reference_store`, `backhaul_daemon`, `settled` and `replay`. The two programs run as
processes of their own, on free ports of 127.0.0.1 and in temporary folders.
"""

from backhaul.testing.daemon import DaemonUnderTest, Mirror, sign, signed_headers
from backhaul.testing.processes import ReferenceServer, ReferenceStore

__all__ = [
    "DaemonUnderTest",
    "Mirror",
    "ReferenceServer",
    "ReferenceStore",
    "sign",
    "signed_headers",
]
