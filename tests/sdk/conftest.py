"""Lets failures in the shared contract tests show the values that differ."""

import pytest

pytest.register_assert_rewrite("backhaul_sdk.testing")
