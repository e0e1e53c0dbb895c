"""For all tests and doctests: neither clock nor chance decides, and pictures need no screen."""

import os
import warnings

import hypothesis
import pytest

from ndis.errors import NotPrivateWarning

pytest.register_assert_rewrite("helpers")
os.environ["MPLBACKEND"] = "agg"
# the same examples in every run, and no time limit for one
hypothesis.settings.register_profile(
    "house", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("house")


class Ticks:
    """A clock that goes on by a millisecond whenever it is asked."""

    def __init__(self) -> None:
        self._asked = 0

    def monotonic(self) -> float:
        self._asked += 1
        return 1e-3 * self._asked


@pytest.fixture(scope="session", autouse=True)
def ticks():
    """The seconds of an audit's search are counted in its steps: a busy machine tries as much as an idle one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ndis.auditing.candidates.data_sets.time", Ticks())
        yield


@pytest.fixture
def seeded():
    """Seeds make results repeatable, and say that they are not private."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        yield
