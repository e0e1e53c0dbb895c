"""For all tests and doctests: neither clock nor chance decides, and pictures need no screen."""

import os
import warnings
import zlib
from types import SimpleNamespace

import hypothesis
import numpy as np
import pytest

from ndis.errors import NotPrivateWarning
from ndis.noise import bits

pytest.register_assert_rewrite("helpers")
os.environ["MPLBACKEND"] = "agg"
os.environ["DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT"] = "3600s"  # a busy machine is no fault
# the same examples in every run, and no time limit for one
hypothesis.settings.register_profile(
    "house", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("house")


# Draws without a seed take the bytes of the operating system. Here each fixture and each test has its own, the same in
# every run and in any order of the tests. Other processes take those of the system.
bits.os = SimpleNamespace(urandom=os.urandom)


def bytes_of(name: str) -> None:
    bits.os.urandom = np.random.default_rng(zlib.crc32(name.encode())).bytes


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    bytes_of(f"{request.node.nodeid} {fixturedef.argname}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    bytes_of(item.nodeid)


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
        patch.setattr("ndis.auditing.candidates.algorithm.time", Ticks())
        yield


@pytest.fixture
def seeded():
    """Seeds make results repeatable, and say that they are not private."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        yield
