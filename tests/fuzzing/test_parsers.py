"""Every parser of outside input raises only its own errors.

Nearly valid input is tried at length in `faults/test_fuzzed_parsers.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuzzing.inputs import WORDS, swapped
from fuzzing.of_connectors import CONNECTORS
from fuzzing.of_the_daemon import DAEMON

if TYPE_CHECKING:
    from fuzzing.targets import Target

TARGETS = (*DAEMON, *CONNECTORS)


@pytest.mark.parametrize("target", TARGETS, ids=lambda each: each.name)
def test_known_malformed_inputs_are_understood_or_refused_in_words(
    target: Target,
) -> None:
    """Each seed as it is, and with each of its members or lines exchanged."""
    for word in WORDS:
        target.take(word)
    for seed in target.seeds:
        target.take(seed)
        for other in swapped(seed):
            target.take(other)
