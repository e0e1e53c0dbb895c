"""Files that hold pairs: JSON and NPZ, and archives that lie about their size."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

from helpers.command import fine, refused, run, values
from ndis.cli.files import npz_arrays
from ndis.data.npy import npy_header
from ndis.dpsgd import DPSGD
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

DENSE = {
    "mean_p": [0.1, 0.0],
    "cov_p": [[2.0, 0.3], [0.3, 1.0]],
    "mean_q": [0.0, 0.0],
    "cov_q": [[1.0, 0.0], [0.0, 1.5]],
}


class TestFiles:
    def expected(self) -> float:
        return PrivacyProfile(GaussianPair.from_moments(**DENSE)).log_delta(1.0)

    def test_json(self, tmp_path):
        file = tmp_path / "pair.json"
        file.write_text(json.dumps(DENSE))
        assert values("delta", file, "--epsilon", 1)[0]["log_delta"] == self.expected()

    def test_npz(self, tmp_path):
        file = tmp_path / "pair.npz"
        np.savez_compressed(file, **DENSE)
        assert values("delta", file, "--epsilon", 1)[0]["log_delta"] == self.expected()

    def test_every_command_that_takes_a_guarantee_takes_every_file_of_one(self, tmp_path):
        run = DPSGD(noise_multiplier=1.0, sampling_rate=0.01, steps=100)
        (tmp_path / "run.json").write_text(run.to_json())
        (tmp_path / "profile.json").write_text(run.profile().to_json())
        (tmp_path / "pair.json").write_text(json.dumps(DENSE))
        np.savez(tmp_path / "pair.npz", **DENSE)
        for one, same in (("run.json", "profile.json"), ("pair.json", "pair.npz")):
            for words in (("epsilon", "--delta", 1e-5), ("risk", "--delta", 1e-5), ("curve", "--points", 3)):
                command, *more = words
                assert fine(command, tmp_path / one, *more) == fine(command, tmp_path / same, *more)

    @pytest.mark.parametrize(
        ("content", "pair"),
        [
            ({"variance_ratio": 2, "shift": [0.5]}, GaussianPair.from_ratios(2.0, shift=0.5)),
            ({"variance_ratio": [2, 1.5], "copies": [3, 1]}, GaussianPair.from_ratios([2.0, 1.5], copies=[3, 1])),
            ({"mean_p": 1, "cov_p": 2, "mean_q": 0, "cov_q": 1}, GaussianPair.from_moments(1.0, 2.0, 0.0, 1.0)),
            ({"mean_p": 1, "var_p": 2, "mean_q": 0, "var_q": 1}, GaussianPair.from_diagonal(1.0, 2.0, 0.0, 1.0)),
            (
                {"mean_p": [0, 1], "mean_q": [0, 0], "cov_q": [[1, 0], [0, 1]], "factor": [0.5, 0.1], "sign": -1},
                GaussianPair.from_low_rank([0, 1], [0, 0], np.eye(2), [0.5, 0.1], sign=-1),
            ),
        ],
    )
    def test_every_way_to_give_a_pair(self, tmp_path, content, pair):
        (tmp_path / "pair.json").write_text(json.dumps(content))
        np.savez(tmp_path / "pair.npz", **content)
        for name in ("pair.json", "pair.npz"):
            assert values("delta", tmp_path / name, "--epsilon", 1)[0]["log_delta"] == PrivacyProfile(pair).log_delta(
                1.0
            )

    def test_saved_profile(self, tmp_path):
        profile = PrivacyProfile(GaussianPair.from_ratios(1.5)).subsampled(0.1)
        (tmp_path / "profile.json").write_text(profile.to_json())
        found = json.loads(fine("delta", tmp_path / "profile.json", "--epsilon", 0.3, "--json"))
        assert found["values"][0]["log_delta"] == profile.log_delta(0.3)
        assert found["sampling_rate"] == 0.1

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "file must be valid JSON; got "),
            (b"{", "file must be valid JSON; got "),
            (b"\xff\xfe\x00\x01", "file must be valid JSON; got "),
            (b"\x93NUMPY", "file must be valid JSON; got "),
            (b"[1, 2]", "file must hold a JSON object; got a list"),
            (b"{}", "keys of the file must be variance_ratio [shift] [copies] or "),
            (b'{"variance_ratio": NaN}', "file must be valid JSON; got the constant NaN"),
            (b'{"variance_ratio": 1, "variance_ratio": 2}', "file must be valid JSON; got a key that appears twice"),
            (b'{"variance_ratio": 1e999}', "variance_ratio must be finite; got "),
            (b'{"variance_ratio": 0}', "variance_ratio must be positive; got "),
            (b'{"variance_ratio": "2"}', "variance_ratio must be real numbers; got "),
            (b'{"variance_ratio": null}', "variance_ratio must be real numbers; got "),
            (b'{"variance_ratio": []}', "variance_ratio must "),
            (b'{"variance_ratio": [1, [2]]}', "variance_ratio must "),
            (b'{"variance_ratio": 2, "shifts": 1}', "keys of the file must be "),
            (b'{"mean_p": 0, "cov_p": 1, "mean_q": 0}', "keys of the file must be "),
            (
                b'{"mean_p": [0, 0], "cov_p": [[1, 2], [0, 1]], "mean_q": [0, 0], "cov_q": [[1, 0], [0, 1]]}',
                "cov_p must be symmetric; got ",
            ),
            (
                b'{"mean_p": [0, 0], "cov_p": [[1, 2], [2, 1]], "mean_q": [0, 0], "cov_q": [[1, 0], [0, 1]]}',
                "cov_p must be positive semi",
            ),
            (b'{"mean_p": 0, "mean_q": 0, "cov_q": 1, "factor": 1, "sign": [1, 1]}', "factor must "),
            (b'{"format": "ndis.PrivacyProfile"}', "format_version of the profile must be 1 or 2 or 3; got None"),
            (b'{"format": 3}', "format of the profile must be 'ndis.PrivacyProfile'; got 3"),
        ],
    )
    def test_bad_content(self, tmp_path, content, message):
        (tmp_path / "bad").write_bytes(content)
        assert refused("delta", tmp_path / "bad", "--epsilon", 1).startswith(message)

    def test_missing_or_unreadable(self, tmp_path):
        message = refused("delta", tmp_path / "none.json", "--epsilon", 1)
        assert message == f"file must be readable; got '{tmp_path / 'none.json'}': No such file or directory"
        assert refused("delta", tmp_path, "--epsilon", 1).endswith(": Is a directory")

    def test_npz_never_unpickles(self, tmp_path):
        class Trap:
            def __reduce__(self):
                return (pytest.fail, ("unpickled",))

        np.savez(tmp_path / "trap.npz", variance_ratio=np.array([Trap()], dtype=object))
        assert refused("delta", tmp_path / "trap.npz", "--epsilon", 1).startswith(
            "file must be an NPZ archive of plain"
        )

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"variance_ratio": np.array([np.nan])}, "variance_ratio must be finite; got "),
            ({"variance_ratio": np.array([1 + 2j])}, "variance_ratio must be real numbers; got "),
            ({"variance_ratio": np.array(["a"])}, "variance_ratio must be real numbers; got "),
            ({"other": np.ones(1)}, "keys of the file must be "),
        ],
    )
    def test_npz_content(self, tmp_path, arrays, message):
        np.savez(tmp_path / "bad.npz", **arrays)
        assert refused("delta", tmp_path / "bad.npz", "--epsilon", 1).startswith(message)

    def test_damaged_npz(self, tmp_path):
        """Cut off or with any byte changed: an answer from intact arrays or one line, never a traceback."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, variance_ratio=np.array([2.0, 1.5]), shift=np.zeros(2))
        whole = buffer.getvalue()
        rng = np.random.default_rng(0)
        for i in range(150):
            content = bytearray(whole)
            if i % 3 == 0:
                content = content[: rng.integers(len(whole))]
            else:
                content[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
            (tmp_path / "x.npz").write_bytes(content)
            result = run("delta", tmp_path / "x.npz", "--epsilon", 1)
            assert result.exit_code in (0, 2), result.exception
            assert result.exception is None or isinstance(result.exception, SystemExit)
            assert result.stderr.count("\n") == (result.exit_code == 2)

    def test_zip_of_something_else(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
            archive.writestr("notes.txt", "no array")
        assert refused("delta", tmp_path / "x.zip", "--epsilon", 1).startswith("keys of the file must be ")


def bomb(shape: tuple[int, ...], *, version: bytes = b"\x01\x00") -> bytes:
    """An archive whose header promises far more than it holds."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".encode().ljust(117) + b"\n"
    length = len(header).to_bytes(2 if version[0] == 1 else 4, "little")
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cov_p.npy", b"\x93NUMPY" + version + length + header + b"\0" * 64)
    return made.getvalue()


@pytest.mark.parametrize("shape", [(2**40,), (2**20, 2**20), (2**62, 2**62), (-1, 5)])
@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00"])
def test_archives_are_refused_by_their_headers(
    shape: tuple[int, ...], version: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("unpacked"))
    with pytest.raises(ParameterError, match=r"arrays of at most 1024 MiB|plain numeric arrays"):
        npz_arrays(bomb(shape, version=version))


def test_a_member_that_unpacks_to_more_than_its_header_says_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("unpacked"))
    monkeypatch.setattr("ndis.cli.files._MOST_BYTES", 1 << 20)
    made, array = io.BytesIO(), io.BytesIO()
    np.save(array, np.zeros(3))
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mean_p.npy", array.getvalue() + b"\0" * (4 << 20))
    with pytest.raises(ParameterError, match="arrays of at most 1 MiB"):
        npz_arrays(made.getvalue())
    with pytest.raises(ValueError, match="array header"):
        npy_header(io.BytesIO(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 100))
