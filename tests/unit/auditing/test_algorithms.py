"""What an audited algorithm may do, and what is said of what it returns."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from helpers.audits import CLAIM, ROWS, total
from ndis.auditing import Search, audit
from ndis.errors import ParameterError


def test_an_algorithm_may_write_to_its_data():
    def centred(data):
        data -= data.mean(axis=0)
        np.clip(data, -1, 1, out=data)
        return data.sum(axis=0), np.full(2, 8.0)

    before = ROWS.copy()
    wild = audit(CLAIM, algorithm=centred, data=ROWS)
    tame = audit(CLAIM, algorithm=lambda d: centred(d.copy()), data=ROWS)
    assert wild.witness.enclosure == tame.witness.enclosure
    assert np.array_equal(ROWS, before)


def test_a_result_that_is_written_over_later():
    store = np.zeros(2)

    def reused(data):
        store[:] = data.sum(axis=0)
        return store, np.full(2, 8.0)

    assert audit(CLAIM, algorithm=reused, data=ROWS).witness.enclosure == (
        audit(CLAIM, algorithm=total, data=ROWS).witness.enclosure
    )


def test_an_algorithm_that_draws_is_refused():
    random = np.random.default_rng(0)
    with pytest.raises(ParameterError, match="return the same law for the same data"):
        audit(CLAIM, algorithm=lambda d: (random.normal(size=1), np.ones(1)), data=ROWS)


def test_a_conviction_is_run_again():
    """The third law of a neighbour differs: that of the screen, that of the certificate, and the one that confirms."""
    runs = []

    def moody(data):
        runs.append(len(data))
        late = len(data) == 7 and runs.count(7) > 8 + 1
        return data.sum(axis=0) * (3.0 if late else 1.0), np.full(2, 0.1)

    with pytest.raises(ParameterError, match="return the same law for the same data"):
        audit(CLAIM, algorithm=moody, data=ROWS, search=Search(seconds=0))


def test_a_law_that_fails_on_a_neighbour_says_so():
    full = len(ROWS)
    law = lambda d: (np.zeros(2) if len(d) == full else np.full(2, math.nan), np.ones(2))  # noqa: E731
    with pytest.raises(ParameterError, match=r"^mean returned by algorithm on a neighbour must be finite; got "):
        audit(CLAIM, algorithm=law, data=ROWS)


def test_messages_do_not_quote_what_was_returned():
    for law in (
        lambda d: ([math.nan, 0.123456], [1.0, 1.0]),
        lambda d: ([0.0, 0.0], [[0.123456, 0.654321], [0.111111, 1.0]]),
        lambda d: ([0.0, 0.0], [[-0.123456, 0.0], [0.0, 1.0]]),
        lambda d: (["0.123456"], [1.0]),
        lambda d: ([len(d) * 0.123456e308], [1e-308]),
        lambda d: ([[0.123456]], [1.0]),
        lambda d: ([0.0, 0.0], [[1.0, 2.0 + len(d)], [2.0 + len(d), 0.123456]]),
    ):
        with pytest.raises(ParameterError) as caught:
            audit(CLAIM, algorithm=law, data=ROWS)
        assert not re.search(r"123456|654321|1\.23|\d\.\d{3}", str(caught.value))


def test_masked_data_are_refused():
    with pytest.raises(ParameterError, match="masks"):
        audit(CLAIM, algorithm=total, data=np.ma.masked_array(ROWS, mask=ROWS > 0))
