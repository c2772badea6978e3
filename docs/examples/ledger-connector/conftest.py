"""Shows the values that differ where the contract fails."""

import pytest

pytest.register_assert_rewrite("backhaul_sdk.testing")
