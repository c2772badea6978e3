"""For tests of programs that work with Backhaul: fixtures, and what they give.

pytest finds the fixtures by itself (`pytest --fixtures`): `reference_server`,
`reference_store`, `backhaul_daemon`, `settled` and `replay`. The two programs run as
processes of their own, on free ports of 127.0.0.1 and in temporary folders.
"""

from backhaul.testing.daemon import DaemonUnderTest
from backhaul.testing.mirrors import Mirror
from backhaul.testing.reference import ReferenceServer, ReferenceStore
from backhaul.testing.signatures import sign, signed_headers

__all__ = [
    "DaemonUnderTest",
    "Mirror",
    "ReferenceServer",
    "ReferenceStore",
    "sign",
    "signed_headers",
]
