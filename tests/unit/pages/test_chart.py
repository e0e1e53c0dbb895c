"""The chart: its marks, its ticks, and a shaded region that lies below the curve."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

from helpers.pages import Page
from ndis.pages.html import chart
from ndis.pair import GaussianPair

LOUD = GaussianPair.from_ratios(1.0, shift=0.35)


def marks(picture: str, kind: str) -> list[list[tuple[float, float]]]:
    found = re.findall(rf'<poly\w+ points="([^"]*)" class="{kind}">', picture)
    return [[tuple(map(float, pair.split(","))) for pair in points.split()] for points in found]


class TestChart:
    def test_the_point_lies_on_its_side_of_the_curve(self):
        """In the picture, as in the numbers: below the curve if refuted, above it if not."""
        curve = [(x / 10, float(LOUD.delta(x / 10))) for x in range(21)]
        for delta, below in ((1e-6, True), (1e-2, False)):
            picture = chart(curve, [(1.0, delta)], refuted=(1.0, delta) if below else None, description="d")
            (line,) = marks(picture, "curve")
            (corners,) = marks(picture, "mark refuted" if below else "mark")
            x, y = (sum(c[i] for c in corners) / 4 for i in (0, 1))
            at_x = np.interp(x, [p[0] for p in line], [p[1] for p in line])
            assert (y > at_x + 3) == below  # y runs downwards
            assert (y < at_x - 3) == (not below)

    @pytest.mark.parametrize(
        ("curve", "claimed"),
        [
            ([(0.0, 0.3), (1.0, 0.01)], [(0.5, 1e-6)]),
            ([(0.0, 0.3), (100.0, 1e-300)], [(50.0, 1e-290)]),
            ([(0.0, 1.0), (1.0, 1.0)], [(1.0, 0.0)]),
            ([], [(0.0, 0.5)]),
            ([(0.0, 0.0)], [(1e-9, 1e-9)]),
            ([(0.0, 0.1), (1e6, 1e-5)], [(1e6, 1e-5), (2e6, 0.0)]),
        ],
    )
    def test_everything_is_inside_the_frame(self, curve, claimed):
        picture = chart(curve, claimed, refuted=claimed[0], description="d")
        Page(picture)
        for kind in ("curve", "false", "claimed", "mark", "mark refuted"):
            for points in marks(picture, kind):
                assert all(60 <= x <= 480 and 5 <= y <= 280 for x, y in points)
        for anchor, most in (("end", 9), ("middle", 11)):
            labels = re.findall(rf'<text[^>]*text-anchor="{anchor}"[^>]*>([^<]*)</text>', picture)
            assert 2 <= len(labels) <= most
            assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("ratio", [2.0, 20.0, [3.0, 0.01]])
def test_the_shaded_region_lies_below_the_curve(ratio):
    """Between the points too: the region is read back from the picture."""
    pair = GaussianPair.from_ratios(ratio)
    grid = np.linspace(0.0, 3.0, 9)
    picture = chart([(e, pair.certify(e).lower) for e in grid.tolist()], [(1.0, 1e-6)], refuted=None, description="d")
    (points,) = re.findall(r'<polygon points="([^"]*)" class="false">', picture)
    corners = np.array([[float(v) for v in pair.split(",")] for pair in points.split()])
    (line,) = re.findall(r'<polyline points="([^"]*)" class="curve">', picture)
    curve = np.array([[float(v) for v in pair.split(",")] for pair in line.split()])
    logs = np.log([pair.delta(e) for e in grid])
    for (x, y), (u, v) in itertools.pairwise(corners):
        if y == v and u > x:  # a step: its height is that of its right end
            at = 3.0 * ((x + u) / 2 - curve[0, 0]) / (curve[-1, 0] - curve[0, 0])
            height = logs[0] + (y - curve[0, 1]) / (curve[-1, 1] - curve[0, 1]) * (logs[-1] - logs[0])
            assert height <= math.log(pair.delta(at)) + 0.01  # the picture has two decimals
