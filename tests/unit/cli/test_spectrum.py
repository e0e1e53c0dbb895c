"""The command line: what it prints, and one line with the right exit status for everything that can be wrong."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest

import ndis
from helpers.command import fine, refused, run, values
from ndis.errors import PrecisionError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile


class TestDelta:
    def test_table(self):
        profile = PrivacyProfile(GaussianPair.from_ratios(2.0))
        header, *lines = fine("delta", "--ratio", 2, "--epsilon", "1,0.25", "--epsilon", 3).splitlines()
        assert header.split() == ["epsilon", "delta", "log_delta"]
        assert [[float(x) for x in line.split()] for line in lines] == [
            [e, math.exp(profile.log_delta(e)), profile.log_delta(e)] for e in (1.0, 0.25, 3.0)
        ]

    def test_json(self):
        found = json.loads(
            fine("delta", "--ratio", "1.5,0.8", "--shift", "0", "--shift", "0.7", "--epsilon", 1, "--json")
        )
        assert found["ndis_version"] == ndis.__version__
        assert found["order"] == "worst"
        assert found["sampling_rate"] == 1.0
        expected = PrivacyProfile(GaussianPair.from_ratios([1.5, 0.8], shift=[0.0, 0.7])).log_delta(1.0)
        assert found["values"] == [{"epsilon": 1.0, "delta": math.exp(expected), "log_delta": expected}]

    def test_orders(self):
        pair = GaussianPair.from_ratios(0.5, shift=0.3)
        for order, expected in (("p-q", pair.log_delta(0.2)), ("q-p", pair.reversed().log_delta(0.2))):
            (row,) = values("delta", "--ratio", 0.5, "--shift", 0.3, "--epsilon", 0.2, "--order", order)
            assert row["log_delta"] == expected
        (row,) = values("delta", "--ratio", 0.5, "--shift", 0.3, "--epsilon", 0.2)
        assert row["log_delta"] == max(pair.log_delta(0.2), pair.reversed().log_delta(0.2))

    def test_certified(self):
        (row,) = values("delta", "--shift", 1, "--copies", 4, "--epsilon", 1, "--certify")
        box = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=1.0, copies=4)).certify(1.0)
        assert (row["lower"], row["upper"]) == box

    def test_negative_epsilon_and_sampling(self):
        (row,) = values("delta", "--shift", 1, "--epsilon", -0.5, "--sampling-rate", 0.2)
        profile = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=1.0)).subsampled(0.2)
        assert row["log_delta"] == profile.log_delta(-0.5)

    def test_tiny_is_not_zero(self):
        """δ below the smallest float still shows in its logarithm; an exact zero is null there."""
        (row,) = values("delta", "--shift", 0.01, "--epsilon", 3)
        assert row["delta"] == 0.0
        assert row["log_delta"] < -40000
        (row,) = values("delta", "--ratio", 1, "--epsilon", 3)
        assert row == {"epsilon": 3.0, "delta": 0.0, "log_delta": None}


class TestEpsilon:
    def test_table(self):
        header, line = fine("epsilon", "--ratio", 1.02, "--copies", 100, "--delta", 1e-6).splitlines()
        assert header.split() == ["delta", "epsilon"]
        expected = PrivacyProfile(GaussianPair.from_ratios(1.02, copies=100)).epsilon(1e-6)
        assert [float(x) for x in line.split()] == [1e-6, expected]

    def test_certified(self):
        (row,) = values("epsilon", "--shift", 0.5, "--delta", 1e-6, "--certify")
        profile = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=0.5))
        assert profile.certify(row["epsilon"], relative_width=1e-13).upper <= 1e-6

    def test_infinite(self, tmp_path):
        file = tmp_path / "apart.json"
        file.write_text(json.dumps({"mean_p": 0, "var_p": 0, "mean_q": 1, "var_q": 1}))
        assert values("epsilon", file, "--delta", 0.1) == [{"delta": 0.1, "epsilon": None}]
        assert fine("epsilon", file, "--delta", 0.1).splitlines()[1].split() == ["0.1", "inf"]


class TestCurve:
    def test_table(self):
        rows = values("curve", "--ratio", "1.5,0.8", "--shift", "0,0.7", "--points", 5, "--range", "-1,7")
        pair = GaussianPair.from_ratios([1.5, 0.8], shift=[0.0, 0.7])
        assert [row["epsilon"] for row in rows] == [-1.0, 1.0, 3.0, 5.0, 7.0]
        for row in rows:
            assert row["p-q"] == pair.delta(row["epsilon"])
            assert row["q-p"] == pair.reversed().delta(row["epsilon"])
            assert row["worst"] == max(row["p-q"], row["q-p"])
        assert len(fine("curve", "--ratio", 2).splitlines()) == 22

    def test_certified(self):
        rows = values("curve", "--ratio", 2, "--points", 2, "--range", "0,1", "--certify")
        profile = PrivacyProfile(GaussianPair.from_ratios(2.0))
        assert [(row["lower"], row["upper"]) for row in rows] == [profile.certify(0.0), profile.certify(1.0)]

    @pytest.mark.parametrize(("name", "magic"), [("c.png", b"\x89PNG"), ("c.PDF", b"%PDF"), ("c.svg", b"<?xml")])
    def test_picture(self, tmp_path, name, magic):
        assert fine("curve", "--ratio", 2, "--points", 11, "--output", tmp_path / name) == ""
        assert (tmp_path / name).read_bytes().startswith(magic)
        assert [f.name for f in tmp_path.iterdir()] == [name]

    def test_picture_shows_the_curve(self, tmp_path, monkeypatch):
        drawn = []
        plot = ndis.plotting.plot_profile
        monkeypatch.setattr("ndis.plotting.plot_profile", lambda *a, **k: drawn.append(plot(*a, **k)) or drawn[0])
        fine("curve", "--ratio", 2, "--points", 11, "--range", "0,1", "--output", tmp_path / "c.png")
        lines = drawn[0].get_lines()
        assert [line.get_label() for line in lines] == ["worst of both", "p from q", "q from p"]
        assert lines[1].get_ydata() == pytest.approx(
            GaussianPair.from_ratios(2.0).delta(np.linspace(0, 1, 11)), rel=1e-13
        )

    def test_nothing_is_left_behind_when_writing_fails(self, tmp_path):
        (tmp_path / "c.png").mkdir()
        message = refused("curve", "--ratio", 2, "--points", 3, "--output", tmp_path / "c.png")
        assert message.startswith("--output must be a file that can be written; got ")
        assert [f.name for f in tmp_path.iterdir()] == ["c.png"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (("nonsense",), "No such command 'nonsense'; see 'ndis --help'"),
            (("delta", "--ratio", "2"), "Missing option '--epsilon'; see 'ndis delta --help'"),
            (("delta", "--ratio", "2", "--epsilon"), "Option '--epsilon' requires an argument"),
            (("delta", "--ratio", "2", "--eps", "1"), "No such option '--eps'; 'ndis delta' takes --epsilon; see "),
            (("risk", "--epsilon", "1"), "No such option '--epsilon'; 'ndis risk' takes [FILE], --delta, --noise-mult"),
            (("delta", "--epsilom", "1"), "No such option '--epsilom'; 'ndis delta' takes --epsilon; see "),
            (("--foo",), "No such option '--foo'; 'ndis' takes --version, --help; see 'ndis --help'"),
            (("ledger", "--epsilon", "1"), "No such option '--epsilon'; 'ndis ledger' takes --help; see "),
            (("delta", "--epsilon", "1"), "input must be either a file or --ratio, --shift, --copies; got neither"),
            (
                ("delta", "f.json", "--ratio", "2", "--epsilon", "1"),
                "input must be either a file or --ratio, --shift, --copies; got both",
            ),
            (
                ("delta", "--ratio", "two", "--epsilon", "1"),
                "--ratio must be a number, or several separated by commas; got 'two'",
            ),
            (
                ("delta", "--ratio", "1,,2", "--epsilon", "1"),
                "--ratio must be a number, or several separated by commas; got ''",
            ),
            (("delta", "--ratio", "0", "--epsilon", "1"), "--ratio must be positive; got "),
            (("delta", "--ratio", "-2", "--epsilon", "1"), "--ratio must be positive; got "),
            (("delta", "--ratio", "nan", "--epsilon", "1"), "--ratio must be finite; got "),
            (
                ("delta", "--ratio", "1,2", "--shift", "1,2,3", "--epsilon", "1"),
                "--ratio and --shift and copies must have the same",
            ),
            (
                ("delta", "--ratio", "2", "--copies", "1.5", "--epsilon", "1"),
                "--copies must be whole numbers of at least 1; got ",
            ),
            (("delta", "--ratio", "2", "--epsilon", "nan"), "--epsilon must be finite; got nan"),
            (("delta", "--ratio", "2", "--epsilon", "inf"), "--epsilon must be finite; got inf"),
            (("delta", "--ratio", "2", "--epsilon", "inf", "--certify"), "--epsilon must be finite; got inf"),
            (
                ("delta", "--ratio", "2", "--epsilon", "x"),
                "--epsilon must be a number, or several separated by commas; got 'x'",
            ),
            (("delta", "--ratio", "2", "--epsilon", "1", "--order", "both"), "Invalid value for '--order': "),
            (
                ("delta", "--ratio", "2", "--epsilon", "1", "--sampling-rate", "0"),
                "--sampling-rate must be above 0 and at most 1; got 0.0",
            ),
            (
                ("delta", "--ratio", "2", "--epsilon", "1", "--sampling-rate", "nan"),
                "--sampling-rate must be finite; got nan",
            ),
            (("epsilon", "--ratio", "2", "--delta", "0"), "--delta must lie strictly between 0 and 1; got "),
            (("epsilon", "--ratio", "2", "--delta", "1"), "--delta must lie strictly between 0 and 1; got "),
            (("epsilon", "--ratio", "2", "--delta", "nan"), "--delta must be finite; got nan"),
            (("epsilon", "--ratio", "2", "--delta", "nan", "--certify"), "--delta must be finite; got nan"),
            (("curve", "--ratio", "2", "--points", "1"), "--points must be a whole number of at least 2; got 1"),
            (
                ("curve", "--ratio", "2", "--points", "0", "-o", "c.png"),
                "--points must be a whole number of at least 2; got 0",
            ),
            (
                ("curve", "--ratio", "2", "--range", "1,0"),
                "--range must be two numbers, the smaller first; got ",
            ),
            (("curve", "--ratio", "2", "--range", "0,nan"), "--range must be finite; got "),
            (("curve", "--ratio", "2", "-o", "curve.docx"), "-o must end in .png, .svg or .pdf; got "),
            (("curve", "--ratio", "2", "-o", "curve"), "-o must end in .png, .svg or .pdf; got "),
            (
                ("curve", "--ratio", "2", "-o", "no/such/folder/curve.png"),
                "-o must lie in an existing folder; got ",
            ),
            (
                ("curve", "--ratio", "2", "-o", "curve.png", "--certify"),
                "-o must be left out with --certify or --json",
            ),
        ],
    )
    def test_bad_input_is_one_line_and_2(self, args, message, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert refused(*args).startswith(message)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("args", [(), ("delta",), ("curve",), ("calibrate",), ("calibrate", "gaussian")])
    def test_a_bare_command_prints_its_help(self, args):
        assert f"Usage: {' '.join(('ndis', *args))} " in fine(*args)

    @pytest.mark.parametrize("args", [(), ("delta",), ("sketch",), ("calibrate",), ("calibrate", "projection")])
    def test_flags_take_no_value(self, args):
        assert "bool" not in fine(*args, "--help").lower()

    def test_a_range_in_one_word(self):
        curve = ("curve", "--ratio", 2, "--points", 3)
        assert fine(*curve, "--range", "0,5") == fine(*curve, "--range=0,5")
        assert fine(*curve, "--range", "-1,5") == fine(*curve, "--range=-1.0,5")
        assert refused(*curve, "--range", "0,x").startswith("--range must be a number, or several separated by commas")
        assert refused(*curve, "--range", "0,1,2").startswith("--range must be two numbers, the smaller first")

    def test_calibrate_gaussian(self):
        found = json.loads(fine("calibrate", "gaussian", "--epsilon", 1, "--delta", 1e-5, "--json"))
        assert found["noise_std"] == ndis.GaussianMechanism.calibrated(epsilon=1, delta=1e-5, sensitivity=1).noise_std
        assert found["certified_delta"] <= 1e-5
        assert "noise_std" in fine("calibrate", "gaussian", "--epsilon", 1, "--delta", 1e-5, "--sensitivity", 2)
        bad = refused("calibrate", "gaussian", "--epsilon", 1, "--delta", 1e-5, "--sensitivity", -1)
        assert bad.startswith("--sensitivity must be")

    def test_out_of_reach_is_3(self, monkeypatch):
        def give_up(*args: object, **options: object):
            raise PrecisionError("the accuracy promised was\nnot reached", reached=0.1)

        monkeypatch.setattr(PrivacyProfile, "certify", give_up)
        assert (
            refused("delta", "--ratio", 2, "--epsilon", 1, "--certify", status=3)
            == "the accuracy promised was not reached"
        )

    def test_interrupt(self, monkeypatch):
        def interrupt(*args: object, **options: object):
            raise KeyboardInterrupt

        monkeypatch.setattr(PrivacyProfile, "log_delta", interrupt)
        result = run("delta", "--ratio", 2, "--epsilon", 1)
        assert result.exit_code == 130
        assert result.stdout == ""

    def test_without_matplotlib(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        message = refused("curve", "--ratio", 2, "-o", "c.png")
        assert message == "matplotlib must be installed; got none; pip install 'ndis[all]'"
