"""For all tests: assertions in the shared helpers say what they compared, and pictures need no screen."""

import os
import warnings

import pytest

from ndis.errors import NotPrivateWarning

pytest.register_assert_rewrite("helpers")
os.environ["MPLBACKEND"] = "agg"


@pytest.fixture
def seeded():
    """Seeds make results repeatable, and say that they are not private."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        yield
