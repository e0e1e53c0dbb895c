"""The auditor against algorithms, files and numbers that mean it ill."""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import re
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import ndis
from ndis._exact import ExactArray
from ndis.auditing import (
    AddAdversarial,
    AddRandom,
    AddRows,
    AuditReport,
    Claim,
    PairBatch,
    RemoveEach,
    audit,
)
from ndis.auditing.chart import chart
from ndis.auditing.judge import screen
from ndis.auditing.laws import Law, certified_pair, confidence, screening_pair
from ndis.auditing.page import render
from ndis.cli import app
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

CLAIM = Claim(epsilon=1.0, delta=1e-6)
LOUD = GaussianPair.from_ratios(1.0, shift=1.0)
SINGULAR = GaussianPair.from_moments([0, 0], np.diag([1.0, 0.0]), [0, 0], np.diag([1.0, 1.0]))
ROWS = np.random.default_rng(0).standard_normal((8, 2))


def total(data):
    return data.sum(axis=0), np.full(data.shape[1], 8.0)


def edge_variance():
    noise = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0).noise_std
    return math.nextafter(noise**2, math.inf)


# ---------------------------------------------------------------------- the verdict


@pytest.mark.parametrize("scale", [1.0, 1e8, 1e16])
def test_units_of_a_coordinate_hide_nothing(scale):
    """What a low-rank screen leaves out counts in standard deviations, not in the units of the largest."""

    def law(data):
        return np.zeros(2), np.diag([scale, 1.0] if len(data) == 3 else [scale * (1 + 1e-6), 1.5])

    assert audit(Claim(1.0, 1e-3), algorithm=law, data=np.zeros((3, 2))).refuted


def test_the_screen_lies_above_the_certificate():
    """Ill-conditioned and badly scaled covariances that differ by rank one."""
    random = np.random.default_rng(1)
    for _ in range(25):
        d, condition = int(random.integers(2, 6)), 10 ** random.uniform(0, 12)
        basis = np.linalg.qr(random.normal(size=(d, d)))[0]
        scale = 10 ** random.uniform(-5, 5, size=d)
        cov = scale[:, None] * ((basis * np.geomspace(1, 1 / condition, d)) @ basis.T) * scale
        step = scale * random.normal(size=d) * 10 ** random.uniform(-5, 0)
        base, other = (Law(np.zeros(d), 0.5 * (c + c.T)) for c in (cov, cov + np.outer(step, step)))
        try:
            pair, room = screening_pair(other, base)
            exact = PrivacyProfile(certified_pair(other, base))
            for side in ("remove", "add"):
                value, slack = screen(PrivacyProfile(pair), side, 1.0, room(confidence(1.0, 1e-6)))
                lower = exact.certify(1.0, order=side, relative_width=1e-6).lower
                assert lower == 0.0 or slack == math.inf or math.log(lower) <= value + slack
        except ndis.PrecisionError:
            continue  # no covariance within floats


def test_a_report_cannot_contradict_its_numbers():
    report = audit(CLAIM, pairs=[LOUD])
    changed = json.loads(report.to_json()) | {"refuted": False}
    changed["verdict"] = "not refuted by the 1 pair tested; this is not a proof of privacy"
    with pytest.raises(ParameterError, match="refuted must be true"):
        AuditReport.from_json(json.dumps(changed))
    quiet = json.loads(audit(CLAIM, pairs=[GaussianPair.from_ratios(1.0, shift=0.01)]).to_json())
    with pytest.raises(ParameterError, match="refuted must be false"):
        AuditReport.from_json(json.dumps(quiet | {"refuted": True, "verdict": "refuted"}))


@pytest.mark.parametrize(
    "change",
    [
        {"refuted": "false"},
        {"verdict": "private"},
        {"epsilon_refuted": "abc"},
        {"epsilon_refuted": -1.0},
        {"delta_possible": None},
        {"delta_possible": 0.5},
        {"pairs_tried": -5},
        {"pairs_tried": "many"},
        {"how_chosen": "abc"},
        {"how_chosen": [1, 2]},
        {"notes": None},
        {"reproduce": 5},
        {"undecided": True},
        {"version": None},
        {"witness": None},
        {"witness.enclosure": [-5, 7]},
        {"witness.delta": 0.9},
        {"witness.epsilon": "1"},
        {"witness.event": 3},
        {"witness.fractions": [["1/0"]]},
        {"witness.fractions": [[], [], [], []]},
    ],
)
def test_every_field_of_a_stored_report_is_checked(change):
    found = json.loads(audit(CLAIM, pairs=[GaussianPair.from_diagonal([0.0], [1.0], [1.0], [1.0])]).to_json())
    for key, value in change.items():
        place, _, name = key.rpartition(".")
        (found[place] if place else found)[name] = value
    with pytest.raises(ParameterError):
        AuditReport.from_json(json.dumps(found))


# ---------------------------------------------------------------------- what an algorithm may do


def test_an_algorithm_may_write_to_its_data():
    def centred(data):
        data -= data.mean(axis=0)
        np.clip(data, -1, 1, out=data)
        return data.sum(axis=0), np.full(2, 8.0)

    before = ROWS.copy()
    given = [ROWS[1:].copy()]
    for neighbours in (None, given):
        wild = audit(CLAIM, algorithm=centred, data=ROWS, neighbours=neighbours)
        tame = audit(CLAIM, algorithm=lambda d: centred(d.copy()), data=ROWS, neighbours=neighbours)
        assert wild.witness.enclosure == tame.witness.enclosure
    assert np.array_equal(ROWS, before)
    assert np.array_equal(given[0], before[1:])


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
        audit(CLAIM, algorithm=moody, data=ROWS)


@pytest.mark.parametrize("count", [2000, 100_000])
def test_rounding_of_a_sum_convicts_nobody(count):
    """Calibrated to the last digit; the sum of many rows is rounded."""
    variance = edge_variance()
    data = np.random.default_rng(count).uniform(0, 1, size=(count, 1))

    def noisy_sum(rows):
        return rows.sum(axis=0), np.array([variance])

    for seed in range(3):
        moved = data + seed
        report = audit(CLAIM, algorithm=noisy_sum, data=moved, neighbours=AddRows([[1.0]]))
        assert not report.refuted
        assert any("relative error of" in note for note in report.notes)


def test_the_accuracy_of_the_numbers_decides():
    """A millionth of a millionth too little noise: refuted where the numbers are exact, undecided where they need not
    be."""
    variance = edge_variance() * (1 - 1e-12)
    algorithm = lambda d: (np.array([float(len(d))]), np.array([variance]))  # noqa: E731
    exact = audit(CLAIM, algorithm=algorithm, data=np.zeros((1, 1)), law_accuracy=0)
    assert exact.refuted
    assert "the numbers returned by the algorithm are taken as exact" in exact.notes
    open_ = audit(CLAIM, algorithm=algorithm, data=np.zeros((1, 1)))
    assert not open_.refuted
    assert open_.undecided
    assert 0.999 * CLAIM.delta < open_.witness.enclosure.lower < CLAIM.delta
    assert any("within the accuracy of the algorithm's numbers" in note for note in open_.notes)
    assert AuditReport.from_json(open_.to_json()).undecided
    clear = lambda d: (np.array([float(len(d))]), np.array([0.99999 * variance]))  # noqa: E731
    assert audit(CLAIM, algorithm=clear, data=np.zeros((1, 1))).refuted
    for bad in (-1e-3, 1.0, math.nan):
        with pytest.raises(ParameterError, match="law_accuracy"):
            audit(CLAIM, algorithm=clear, data=np.zeros((1, 1)), law_accuracy=bad)


def test_a_fixed_output_that_moves_by_rounding_is_undecided():
    moved = lambda d: (np.array([1.0 + 2.0**-50 * len(d)]), np.zeros(1))  # noqa: E731
    assert audit(CLAIM, algorithm=moved, data=np.zeros((3, 1))).undecided
    told = lambda d: (np.array([float(len(d))]), np.zeros(1))  # noqa: E731
    report = audit(CLAIM, algorithm=told, data=np.zeros((3, 1)))
    assert report.refuted
    assert report.epsilon_refuted == math.inf


def test_exact_laws_keep_their_fractions():
    """A claim between the truth and the pair rounded to floats: what is stored says what was judged."""
    for k in (3, 11, 29):

        def exact(data, k=k):
            return ExactArray(np.array([len(data)], dtype=object), k), ExactArray(np.array([[1]], dtype=object), 7)

        lower = audit(Claim(0.5, 1e-3), algorithm=exact, data=np.zeros((3, 1))).witness.enclosure.lower
        report = audit(Claim(0.5, lower), algorithm=exact, data=np.zeros((3, 1)))
        again = AuditReport.from_json(report.to_json())
        assert again.to_json() == report.to_json()
        assert again.witness.recheck() == report.witness.recheck()
        assert not (report.refuted and again.witness.recheck().upper <= lower)
        assert not any("relative error" in note for note in report.notes)


def test_many_equal_rows_are_certified_once(monkeypatch):
    import ndis.auditing.judge as judge

    calls = []
    monkeypatch.setattr(judge, "_answer", lambda *a, f=judge._answer: calls.append(1) or f(*a))
    variance = edge_variance()
    data = np.zeros((40, 3))
    data[:, 0] = 1.0
    assert not audit(CLAIM, algorithm=lambda d: (d.sum(axis=0), np.full(3, variance)), data=data).refuted
    assert len(calls) <= 4


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


# ---------------------------------------------------------------------- journals


def test_a_changed_function_is_not_taken_for_the_old_one(tmp_path):
    def first(data):
        return np.zeros(1), np.array([100.0])

    def second(data):
        return np.zeros(1), np.array([100.0 if len(data) == 8 else 1.0])

    second.__qualname__ = first.__qualname__
    audit(CLAIM, algorithm=first, data=ROWS, journal=tmp_path / "j")
    with pytest.raises(ParameterError, match="journal must belong"):
        audit(CLAIM, algorithm=second, data=ROWS, journal=tmp_path / "j")

    def third(data, weight):
        return np.zeros(1), np.array([100.0 + weight * (8 - len(data))])

    one, other = (functools.partial(third, weight=w) for w in (0.0, -99.0))
    audit(CLAIM, algorithm=one, data=ROWS, journal=tmp_path / "k")
    audit(CLAIM, algorithm=functools.partial(third, weight=0.0), data=ROWS, journal=tmp_path / "k")
    with pytest.raises(ParameterError, match="journal must belong"):
        audit(CLAIM, algorithm=other, data=ROWS, journal=tmp_path / "k")


def test_neighbours_are_run_again_on_resuming(tmp_path):
    """A change of a value that the function reads is seen too."""
    settings = {"noise": 100.0}
    globals()["_SETTINGS"] = settings
    audit(CLAIM, algorithm=_depends_on_a_global, data=ROWS, journal=tmp_path / "j")
    settings["noise"] = 1.0
    with pytest.raises(ParameterError, match="scores that do not come out again"):
        audit(CLAIM, algorithm=_depends_on_a_global, data=ROWS, journal=tmp_path / "j")


def _depends_on_a_global(data):
    return data.sum(axis=0), np.full(2, 100.0 if len(data) == 8 else _SETTINGS["noise"])  # noqa: F821


@pytest.mark.parametrize("content", [b"precious material without a newline", b"a,b\n1,2\n3,4", b"[1]\n", b"\x00\xff\n"])
def test_other_files_are_left_as_they_are(tmp_path, content):
    path = tmp_path / "precious.csv"
    path.write_bytes(content)
    with pytest.raises(ParameterError, match="journal of an audit"):
        audit(CLAIM, algorithm=total, data=ROWS, journal=path)
    assert path.read_bytes() == content


def test_a_header_cut_short_is_begun_again(tmp_path):
    path = tmp_path / "j"
    audit(CLAIM, algorithm=total, data=ROWS, journal=path)
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    audit(CLAIM, algorithm=total, data=ROWS, journal=path)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "scores", [None, 3, [[1]], [["a", "b"], [1, 2]], [[math.nan, 1.0], [1.0, 1.0]], [[1.0, 1.0]], [[True, 1], [1, 1]]]
)
def test_damaged_scores_are_refused_by_line(tmp_path, scores):
    path = tmp_path / "j"
    audit(CLAIM, algorithm=total, data=ROWS, journal=path)
    lines = path.read_text().splitlines()
    third = {**json.loads(lines[2]), "scores": scores}
    path.write_text("\n".join([*lines[:2], json.dumps(third), *lines[3:]]) + "\n")
    with pytest.raises(ParameterError, match="line 3 of the journal"):
        audit(CLAIM, algorithm=total, data=ROWS, journal=path)


def test_a_journal_in_use_is_refused(tmp_path):
    pytest.importorskip("fcntl")
    path = tmp_path / "j"
    inner = []

    def nested(data):
        if len(data) == 7 and not inner:
            inner.append(1)
            with pytest.raises(ParameterError, match="another audit holds"):
                audit(CLAIM, algorithm=total, data=ROWS, journal=path)
        return total(data)

    audit(CLAIM, algorithm=nested, data=ROWS, journal=path)
    assert inner


# ---------------------------------------------------------------------- bad arguments


@pytest.mark.parametrize("neighbours", [(ROWS[:3], ROWS[:3, 0]), [None], "abc", [[1.0, 2.0]], [ROWS], iter([ROWS])])
def test_given_data_sets_must_be_like_the_data(neighbours):
    data = (ROWS, ROWS[:, 0])
    algorithm = lambda d: (d[0].sum(axis=0), np.full(2, 8.0))  # noqa: E731
    with pytest.raises(ParameterError, match="neighbours"):
        audit(CLAIM, algorithm=algorithm, data=data, neighbours=neighbours)
    assert audit(CLAIM, algorithm=algorithm, data=data, neighbours=[(ROWS[1:], ROWS[1:, 0])]).pairs_tried == 1


def test_a_bad_pair_of_a_batch_is_named():
    for batch, words in (
        (PairBatch([1.0, 1.0, math.nan]), "variance_ratio of pair 2"),
        (PairBatch([1.0, -1.0]), "variance_ratio of pair 1"),
        (PairBatch([1.0, 1.0], shift=[0.0, math.inf]), "shift of pair 1"),
        (PairBatch(np.ones((2, 2)), copies=[[1, 1], [1, 1.5]]), "copies of pair 1"),
    ):
        with pytest.raises(ParameterError, match=words):
            audit(CLAIM, pairs=batch)


@pytest.mark.parametrize(
    "wrong",
    [
        {"generations": 0},
        {"offspring": 0},
        {"starts": True},
        {"row_norm_bound": math.inf},
        {"row_norm_bound": 1e-320},
        {"row_norm_bound": 1e308},
        {"target_values": "ab"},
        {"target_values": {"a": 1}},
        {"target_values": True},
        {"target_values": [math.nan]},
    ],
)
def test_bad_rules(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        AddAdversarial(**{"row_norm_bound": 1.0, **wrong})
    with pytest.raises(ParameterError, match="count"):
        AddRandom(row_norm_bound=1.0, count=-1)


def test_what_only_an_algorithm_needs_is_refused_with_pairs(tmp_path):
    for more in ({"journal": tmp_path / "j"}, {"workers": 2}):
        with pytest.raises(ParameterError, match="left out with pairs"):
            audit(CLAIM, pairs=[LOUD], **more)
    assert not (tmp_path / "j").exists()


def test_masked_data_are_refused():
    with pytest.raises(ParameterError, match="masks"):
        audit(CLAIM, algorithm=total, data=np.ma.masked_array(ROWS, mask=ROWS > 0))


# ---------------------------------------------------------------------- words and pictures


def test_a_sample_of_a_singular_pair():
    profile = PrivacyProfile(SINGULAR).subsampled(0.1)
    report = audit(Claim(0.5, 0.01), pairs=[profile])
    assert report.refuted
    assert report.epsilon_refuted == math.inf
    assert "probability 0.1 under p and 0 under q" in report.witness.event
    assert audit(Claim(0.5, 0.1), pairs=[profile]).epsilon_refuted != math.inf
    backwards = PrivacyProfile(LOUD, SINGULAR.reversed()).subsampled(0.1)
    event = audit(Claim(0.01, 0.05), pairs=[backwards]).witness
    assert event.side == "add"
    assert "probability 1 under p and 0.9 under q" in event.event


def test_words_of_profiles_under_replace_one():
    claim = Claim(1.0, 1e-6, "replace-one")
    assert "record" not in audit(claim, pairs=[PrivacyProfile(LOUD)]).witness.order
    with pytest.raises(ParameterError, match="Poisson"):
        audit(claim, pairs=[PrivacyProfile(LOUD).subsampled(0.1)])


def test_a_probability_below_all_floats_is_not_zero():
    event = audit(Claim(800.0, 1e-6), pairs=[GaussianPair.from_ratios(1.0, shift=0.1)]).witness.event
    assert "less than 10⁻³⁰⁰ under q" in event
    assert "probability 0 " not in event


@pytest.mark.parametrize("ratio", [2.0, 20.0, [3.0, 0.01]])
def test_the_shaded_region_lies_below_the_curve(ratio):
    """Between the points too: the region is read back from the picture."""
    pair = GaussianPair.from_ratios(ratio)
    grid = np.linspace(0.0, 3.0, 9)
    picture = chart([(e, pair.certify(e).lower) for e in grid.tolist()], [(1.0, 1e-6)], false=None, description="d")
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


def test_a_page_without_a_curve_says_so():
    page = render(audit(CLAIM, pairs=[GaussianPair.from_ratios(1.0)]))
    assert "There is no curve to draw" in page
    assert "false claims" not in page
    assert 'class="mark"' in page
    zero = render(audit(Claim(1.0, 0.0), pairs=[LOUD]))
    assert ">claim, δ = 0</text>" in zero


def test_how_to_reproduce_names_the_function_and_the_data():
    text = audit(CLAIM, algorithm=total, data=ROWS, neighbours=RemoveEach()).reproduce
    assert "total" in text
    assert re.search(r"digest of data is [0-9a-f]{16}", text)


# ---------------------------------------------------------------------- the command


MODULE = """
import numpy as np
def fine(d):
    return d.sum(axis=0), np.full(d.shape[1], 200.0)
class Odd:
    def __array__(self, *a, **k):
        raise KeyError("secret 42")
def odd(d):
    return Odd(), np.eye(2)
def gone(d):
    raise GeneratorExit
"""


def run(*args):
    return CliRunner().invoke(app, ["audit", *(str(a) for a in args)], prog_name="ndis")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "hardmodule.py").write_text(MODULE)
    np.save(tmp_path / "beside" / "rows.npy", ROWS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path / "beside"
    sys.modules.pop("hardmodule", None)


OPTIONS = ("--epsilon", 1, "--delta", 1e-6)


def test_the_module_may_lie_beside_the_file(folder):
    result = run(folder / "rows.npy", "--algorithm", "hardmodule:fine", *OPTIONS)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", ["odd", "gone"])
def test_whatever_the_function_raises_is_no_verdict(folder, name):
    result = run(folder / "rows.npy", "--algorithm", f"hardmodule:{name}", *OPTIONS)
    assert result.exit_code == 2
    assert "42" not in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_internal_error_is_no_verdict(folder, monkeypatch):
    def fail(*_):
        raise RuntimeError("secret 42")

    monkeypatch.setattr("ndis.auditing.judge.enclose", fail)
    (folder / "pair.json").write_text('{"variance_ratio": 2}')
    result = run(folder / "pair.json", *OPTIONS)
    assert result.exit_code == 70
    assert result.stderr.startswith("ndis: internal error, RuntimeError in ")
    assert "42" not in result.stderr


def test_bad_target_values_and_options_with_pairs(folder):
    request = {"claim": {"epsilon": 1, "delta": 1e-6}, "algorithm": "hardmodule:fine", "data": [[1, 2], [3, 4]]}
    for values in (True, {"a": 1}, "ab"):
        more = {"targets": [1], "row_norm_bound": 1.0, "target_values": values}
        (folder / "bad.json").write_text(json.dumps({**request, **more}))
        result = run(folder / "bad.json")
        assert result.exit_code == 2, result.output
        assert "target_values" in result.stderr
    (folder / "pair.json").write_text('{"variance_ratio": 2}')
    for option in (("--journal", "j"), ("--workers", 2), ("--law-accuracy", 0)):
        result = run(folder / "pair.json", *OPTIONS, *option)
        assert result.exit_code == 2
        assert f"{option[0]} must be left out" in result.stderr


def test_npz_files(folder):
    keys = {"epsilon": 1.0, "delta": 1e-6, "algorithm": "hardmodule:fine", "row_norm_bound": 1.0}
    np.savez(folder / "all.npz", data=ROWS, **keys)
    assert run(folder / "all.npz").exit_code == 0
    whole = (folder / "all.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[: len(whole) // 2])
    result = run(folder / "cut.npz", *OPTIONS)
    assert result.exit_code == 2
    assert "cut short" in result.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_seen_first(folder):
    folder.chmod(0o500)
    try:
        result = run(folder / "rows.npy", "--algorithm", "hardmodule:fine", *OPTIONS, "--report", folder / "r.html")
    finally:
        folder.chmod(0o700)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_a_report_name_that_is_too_long_is_seen_first(folder):
    result = run(folder / "rows.npy", "--algorithm", "hardmodule:fine", *OPTIONS, "--report", "r" * 251 + ".html")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "--report" in result.stderr
