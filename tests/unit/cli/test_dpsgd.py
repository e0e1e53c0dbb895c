"""`ndis dpsgd`: what it prints, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from ndis import DPSGD, PrivacyProfile
from ndis.cli import app
from ndis.errors import PrecisionError

STEP = PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.01)
MNIST = DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=14062)


def close(a, b, rel=1e-9):
    return np.testing.assert_allclose(a, b, rtol=rel, atol=0)


class TestCommand:
    MNIST = ("--batch-size", "256", "--records", "60000", "--epochs", "60", "--delta", "1e-5")

    def run(self, *options):
        return CliRunner().invoke(app, ["dpsgd", *options])

    def test_epsilon(self):
        done = self.run("--noise-multiplier", "1.1", *self.MNIST)
        assert done.exit_code == 0
        assert "steps             14063" in done.stdout
        assert "Poisson sampling" in done.stdout

    def test_json_and_certificate(self):
        plain, certified = (
            json.loads(self.run("--noise-multiplier", "1.1", *self.MNIST, "--json", *more).stdout)
            for more in ((), ("--certify",))
        )
        run = DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=14063)
        assert plain["epsilon"] == run.epsilon(1e-5)
        assert certified["epsilon"] == run.certified_epsilon(1e-5)
        assert (plain["certified"], certified["certified"]) == (False, True)

    def test_calibration(self):
        found = json.loads(self.run("--epsilon", "2", *self.MNIST, "--json").stdout)
        run = DPSGD(noise_multiplier=found["noise_multiplier"], sampling_rate=found["sampling_rate"], steps=14063)
        assert (found["epsilon"], found["certified"]) == (2.0, True)
        assert run.profile().certify(2.0).upper <= 1e-5

    def test_picture(self, tmp_path):
        pytest.importorskip("matplotlib")
        file = tmp_path / "epochs.svg"
        options = ("--noise-multiplier", "1", "--sampling-rate", "0.2", "--steps", "20", "--delta", "1e-5")
        assert self.run(*options, "--output", str(file)).exit_code == 0
        assert file.read_bytes().startswith(b"<?xml")

    def test_no_noise_is_refused_by_the_name_of_the_option(self):
        done = self.run("--noise-multiplier", "0", "--sampling-rate", "0.01", "--steps", "100", "--delta", "1e-5")
        assert done.exit_code == 2
        assert "--noise-multiplier must be positive" in done.stderr
        assert "sigma" not in done.stderr

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--delta", "1e-5"), "input must be --sampling-rate, or --batch-size and --records; got neither"),
            (("--sampling-rate", "2", "--steps", "1", "--delta", "1e-5"), "--sampling-rate must be above 0"),
            (("--sampling-rate", "nan", "--steps", "1", "--delta", "1e-5"), "--sampling-rate must be above 0"),
            (("--sampling-rate", "0.1", "--delta", "1e-5"), "input must be one of --epochs and --steps; got neither"),
            (("--sampling-rate", "0.1", "--epochs", "-1", "--delta", "1e-5"), "--epochs must be positive"),
            (("--sampling-rate", "0.1", "--steps", "5", "--delta", "1e-5"), "input must be one of --noise-multiplier"),
            (("--batch-size", "9", "--records", "3", "--steps", "5", "--delta", "1e-5"), "--batch-size must be"),
        ],
    )
    def test_bad_input(self, options, message):
        done = self.run(*options)
        assert done.exit_code == 2
        assert message in done.stderr


class TestSamplers:
    PLAN = ("--batch-size", "20", "--records", "1000", "--epochs", "2", "--delta", "1e-5")

    def run(self, *options):
        return CliRunner().invoke(app, ["dpsgd", *options])

    @pytest.mark.parametrize(
        ("options", "numbers"),
        [
            (("--sampling", "allocation"), {"bins": 50, "epochs": 2}),
            (("--sampling", "fixed-size"), {"batch_size": 20, "records": 1000, "steps": 100}),
            (
                ("--sampling", "truncated", "--max-batch-size", "60"),
                {"sampling_rate": 0.02, "max_batch_size": 60, "records": 1000, "steps": 100},
            ),
            (("--examples-per-user", "3"), {"sampling_rate": 0.02, "steps": 100, "examples_per_user": 3}),
        ],
    )
    def test_every_sampler_and_users(self, options, numbers):
        sampling = options[1] if options[0] == "--sampling" else "poisson"
        done = json.loads(self.run("--noise-multiplier", "3", *options, *self.PLAN, "--json").stdout)
        run = DPSGD(noise_multiplier=3.0, sampling=sampling, **numbers)
        assert done["epsilon"] == run.epsilon(1e-5)
        assert done["sampling"] == run.loop
        assert done["steps"] == 100

    def test_allocation_by_bins(self):
        options = ("--sampling", "allocation", "--bins", "50", "--epochs", "2", "--delta", "1e-5")
        done = json.loads(self.run("--noise-multiplier", "3", *options, "--json").stdout)
        assert done["bins"] == 50

    def test_comparison(self, tmp_path):
        pytest.importorskip("matplotlib")
        file = tmp_path / "samplers.svg"
        options = ("--noise-multiplier", "3", "--compare", *self.PLAN)
        done = self.run(*options, "--output", str(file))
        assert done.exit_code == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0].split() == ["sampling", "steps", "epsilon", "at_least", "loop"]
        for line, name in zip(lines[1:], ("poisson", "allocation", "fixed-size", "truncated"), strict=True):
            assert line.startswith(f"{name} (replace-one)" if name == "fixed-size" else f"{name} (add-remove)")
        assert file.read_bytes().startswith(b"<?xml")
        rows = json.loads(self.run(*options, "--json").stdout)["values"]
        assert rows[0]["epsilon"] == DPSGD(noise_multiplier=3.0, sampling_rate=0.02, steps=100).epsilon(1e-5)

    def test_a_comparison_by_steps_is_that_by_epochs(self):
        plan = ("--noise-multiplier", "3", "--compare", *self.PLAN[:4], "--delta", "1e-5", "--json")
        done = self.run(*plan, "--steps", "125")
        assert done.exit_code == 0, done.stderr
        both = [json.loads(text)["values"] for text in (done.stdout, self.run(*plan, "--epochs", "2.5").stdout)]
        assert both[0] == both[1]
        assert both[0][2]["epsilon"] == DPSGD(
            noise_multiplier=3.0, sampling="fixed-size", batch_size=20, records=1000, steps=125
        ).epsilon(1e-5)

    def test_a_table_rounds_to_the_safe_side(self):
        """People read four digits, programs all of them."""
        plan = ("--noise-multiplier", "3", "--compare", *self.PLAN)
        rows = json.loads(self.run(*plan, "--json").stdout)["values"]
        for line, row in zip(self.run(*plan).stdout.splitlines()[1:], rows, strict=True):
            _, _, steps, epsilon, lower, *_ = line.split()
            assert steps == row["steps"]
            assert row["epsilon"] <= float(epsilon) <= 1.001 * row["epsilon"] + 1e-9
            assert lower == "the" if row["at_least"] == row["epsilon"] else float(lower) <= row["at_least"]

    def test_full_batches_are_compared(self):
        """A batch of all records is the Gaussian mechanism; a replaced record moves its sum twice as far."""
        plan = ("--batch-size", "250", "--records", "250", "--steps", "3", "--delta", "1e-5", "--noise-multiplier", "4")
        done = self.run(*plan, "--compare", "--json")
        assert done.exit_code == 0, done.stderr
        rows = {row["sampling"]: row for row in json.loads(done.stdout)["values"]}
        for name, noise in (("poisson (add-remove)", 4.0), ("fixed-size (replace-one)", 2.0)):
            gauss = PrivacyProfile.from_noise_multiplier(noise).repeat(3).epsilon(1e-5)
            close(rows[name]["epsilon"], gauss)
            assert rows[name]["at_least"] == rows[name]["epsilon"]
        assert len(rows) == 3

    def test_a_row_without_an_answer_says_why_and_the_others_stand(self, monkeypatch, tmp_path):
        bounds = PrivacyProfile.bounds

        def refuse(self, delta):
            if not self.attained and self.adjacency == "add-remove":
                raise PrecisionError("epsilon is out of reach")
            return bounds(self, delta)

        plan = ("--noise-multiplier", "3", "--compare", *self.PLAN)
        want = self.run(*plan).stdout.splitlines()
        monkeypatch.setattr(PrivacyProfile, "bounds", refuse)
        done = self.run(*plan)
        assert done.exit_code == 3
        lines = done.stdout.splitlines()
        assert [line.split() for line in lines[:4]] == [line.split() for line in want[:4]]
        assert " ".join(lines[4].split()) == "truncated (add-remove) 100 infinity 0 no answer: epsilon is out of reach"
        row = json.loads(self.run(*plan, "--json").stdout)["values"][3]
        assert row["epsilon"] is None
        assert row["at_least"] == 0.0

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--bins", "3"), "--bins must not be given for 'poisson'"),
            (("--max-batch-size", "3"), "--max-batch-size must not be given for 'poisson'"),
            (("--sampling", "shuffle"), "shuffle"),
            (("--sampling", "truncated"), "--max-batch-size must be given for 'truncated'"),
            (
                ("--sampling", "fixed-size", "--examples-per-user", "2"),
                "--examples-per-user must be 1 for 'fixed-size'",
            ),
            (
                ("--compare", "--bins", "3"),
                "--bins must not be given with --compare; got 3; it takes --noise-multiplier, ",
            ),
            (("--compare", "--examples-per-user", "2"), "--examples-per-user must not be given with --compare; got 2"),
            (("--compare", "--sampling", "allocation"), "--sampling must not be given with --compare; got allocation"),
            (("--compare", "--certify"), "--certify must not be given with --compare"),
            (("--compare", "--steps", "3"), "input must be one of --epochs and --steps; got both"),
        ],
    )
    def test_bad_input(self, options, message):
        done = self.run("--noise-multiplier", "3", *options, *self.PLAN)
        assert done.exit_code == 2
        assert message in done.stderr
