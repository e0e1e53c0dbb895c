"""One line of a CSV file is one row at most, whatever bytes it holds and wherever it stands."""

from __future__ import annotations

import io
import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.cases import quick
from ndis.data.cells import number
from ndis.data.csv import LONGEST, line_blocks, line_cells
from ndis.errors import ParameterError
from ndis.gram import exact_gram

PIECES = [
    b'"', b'""', b",", b"\r", b"1", b"0.5", b"-", b"+", b".", b"e", b"E5", b"1e999", b"1e-400", b" ", b"\t", b"\x00",
    b"\xff", b"\xfc", b"nan", b"inf", b"1_0", b"0x1", b"9" * 45, b"x", b"5e-324", "١".encode(), b"\x0b", b"\x1c",
    b"\xef\xbb\xbf", b"\x1b[31m", b"7" * 300,
]  # fmt: skip
LINE = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join),
    st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")),
)
MARK = b"\xef\xbb\xbf"
PLAIN = [b"0.25,0.5,-0.125", b"0.1,0.2,0.3", b"1e-3,2,.5"]


def cells_of(line: bytes) -> list[bytes] | None:
    """Return the cells of a line without its end; None if its quotes do not pair."""
    cells, at = [], 0
    while True:
        if line[at : at + 1] == b'"':
            end = line.find(b'"', at + 1)
            while end >= 0 and line[end + 1 : end + 2] == b'"':
                end = line.find(b'"', end + 2)
            if end < 0 or line[end + 1 : end + 2] not in (b",", b""):
                return None
            cells.append(line[at + 1 : end].replace(b'""', b'"'))
            at = end + 1
        else:
            end = line.find(b",", at)
            cells.append(line[at:] if end < 0 else line[at:end])
            at = len(line) if end < 0 else end
        if at >= len(line):
            return cells
        at += 1


def rows_by_line(data: bytes, width: int, wanted: tuple[int, ...], *, longest: int = LONGEST) -> np.ndarray:
    """The definition: the wanted columns of whole lines, each of which ends at LF, one line at a time."""
    rows = []
    for ended in data.split(b"\n")[:-1]:
        line = ended.removesuffix(b"\r").removeprefix(MARK)
        if line:
            cells = cells_of(line) if len(ended) <= longest else None
            whole = cells is not None and len(cells) == width
            rows.append([number(cells[i]) if whole else math.nan for i in wanted])
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(wanted))


def rows_of(data, width, wanted, *, longest=LONGEST, most=1 << 16):
    """The same, as the compiled pass reads it."""
    blocks = line_cells(data, width, tuple((i, True) for i in wanted), longest=longest, most=most)
    return np.concatenate([np.empty((0, len(wanted))), *(np.column_stack(block) for block in blocks)])


def row_blocks(file, width, wanted, *, block, longest=LONGEST):
    """The records from here to the end of a file, in blocks."""
    for data in line_blocks(file, block=block, longest=longest):
        yield rows_of(data, width, wanted, longest=longest, most=2)


def bits(rows: np.ndarray) -> tuple[tuple[int, ...], bytes]:
    return rows.shape, np.where(np.isnan(rows), np.nan, rows).tobytes()


@settings(max_examples=400, deadline=None)
@given(st.lists(LINE, max_size=6), st.integers(1, 4), st.sampled_from([5, 20, 1000]), st.data())
def test_compiled_and_plain_reading_agree_to_the_bit(lines, width, longest, data):
    wanted = tuple(data.draw(st.permutations(range(width))))[: data.draw(st.integers(1, width))]
    content = b"".join(line + b"\n" for line in lines)
    expected = bits(rows_by_line(content, width, wanted, longest=longest))
    assert bits(rows_of(content, width, wanted, longest=longest)) == expected


@settings(max_examples=400, deadline=None)
@given(lines=st.lists(LINE, max_size=6), block=st.integers(1, 9), last=st.booleans(), mark=st.booleans())
def test_where_a_block_ends_changes_nothing(lines, block, last, mark):
    content = b"\n".join(lines) + (b"\n" if last else b"")
    blocks = row_blocks(io.BytesIO((b"\xef\xbb\xbf" if mark else b"") + content), 2, (1, 0), block=block, longest=12)
    body = (MARK if mark else b"") + content
    whole = body if body.endswith(b"\n") or not body else body + b"\n"
    found = np.concatenate([np.empty((0, 2)), *blocks])
    assert bits(found) == bits(rows_by_line(whole, 2, (1, 0), longest=12))


@settings(max_examples=400, deadline=None)
@given(line=LINE, place=st.integers(0, 3), block=st.integers(1, 40), end=st.sampled_from([b"\n", b"\r\n"]))
def test_a_hostile_line_changes_its_own_row_only(line, place, block, end):
    """Every other row keeps its bits, so the Gram matrix changes by one row at most."""
    without = rows_by_line(b"".join(x + b"\n" for x in PLAIN), 3, (0, 1, 2))
    content = end.join([*PLAIN[:place], line, *PLAIN[place:]]) + end
    found = np.concatenate([np.empty((0, 3)), *row_blocks(io.BytesIO(content), 3, (0, 1, 2), block=block)])
    empty = line.removesuffix(b"\r") == b"" or line.removesuffix(b"\r") == MARK
    if line == b"\r" and end == b"\r\n":
        empty = False  # one CR is left of two
    assert len(found) == len(PLAIN) + (not empty)
    others = found if empty else np.delete(found, place, axis=0)
    assert bits(others) == bits(without)


@pytest.mark.parametrize("column", quick(range(3), [1]))
def test_every_byte_in_every_place(column: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    names = ["a", "b", "c"]
    path.write_bytes(b"\n".join(PLAIN))
    clean = exact_gram(path, row_norm_bound=3.0, columns=names, progress=False).integers
    bounds = {"row_norm_bound": 3.0, "columns": names, "progress": False}
    for byte in (bytes([b]) for b in range(256) if b != 10):
        cells = [b"J", b"0.3", b"0.4"]
        for line in (b",".join([*cells[:column], byte + cells[column], *cells[column + 1 :]]), byte * 3, byte):
            path.write_bytes(b"\n".join([PLAIN[0], line, *PLAIN[1:]]))
            found = exact_gram(path, **bounds).integers
            alone = rows_by_line(line + b"\n", 3, (0, 1, 2))
            assert np.array_equal(found - clean, exact_gram(alone, row_norm_bound=3.0).integers), (byte, line)


def test_a_long_line_takes_no_memory_and_no_neighbour(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'0.5\n"' + b"8" * (20 << 20) + b"\n0.25\n")
    expected = exact_gram(np.array([[0.5], [0.25]]), row_norm_bound=1.0)
    found = exact_gram(path, row_norm_bound=1.0, columns="a", progress=False)
    assert np.array_equal(found.integers, expected.integers)


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["{!r}", "{:.17e}", "{:+.3f}", "{:.40g}"]))
def test_text_means_the_nearest_float(value, form):
    text = form.format(value)
    (found,) = rows_of(text.encode() + b"\n", 1, (0,))
    assert found[0] == number(text) == float(text)


def test_the_same_text_rule_in_lists_and_files() -> None:
    random.seed(0)
    for _ in range(3000):
        text = b"".join(random.choices([p for p in PIECES if b'"' not in p and p != b","], k=random.randint(1, 4)))
        (found,) = rows_by_line(b"0," + text.removesuffix(b"\r") + b"\n", 2, (1,))
        assert bits(found) == bits(np.array([number(text)]))


HEADERS = [
    b"0.5,b", b",b", b"a,a", b"a,\x1b[31mb", b"a,\xff", b'a,"b', b"nan,b", b"a,1e3", b"a,inf", b" ,b", b"a,b\rc", b"",
]  # fmt: skip


@pytest.mark.parametrize("line", HEADERS)
def test_a_first_line_that_may_be_a_record_is_refused_and_not_quoted(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(line + b"\n0.5,0.5\n")
    with pytest.raises(ParameterError, match="begin with a line of different printable column names") as caught:
        exact_gram(path, row_norm_bound=1.0, header=True)
    assert str(caught.value).isprintable()
    assert "0.5" not in str(caught.value)


def test_no_message_quotes_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("jane,smith\n0.5,0.5\n")
    for options in ({}, {"columns": []}, {"columns": [0, 1]}, {"header": True, "columns": ["z"]}, {"columns": ["1"]}):
        with pytest.raises(ParameterError) as caught:
            exact_gram(path, row_norm_bound=1.0, **options)
        assert "jane" not in str(caught.value)
    (tmp_path / "more.csv").write_text("john,smith\n")
    with pytest.raises(ParameterError, match="same columns in every file") as caught:
        exact_gram(tmp_path, row_norm_bound=1.0, header=True)
    assert "jane" not in str(caught.value)
    assert "john" not in str(caught.value)


def test_columns_name_every_column_of_a_file_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,0.5,0.25,1\ny,0.125,0.5,0.5\n")
    gram = exact_gram(
        path, columns=[None, "a", "b", "t"], targets="t", row_norm_bound=1.0, target_bound=1.0, progress=False
    )
    assert gram.layout.names == ("a", "b", "t")
    rows = np.array([[0.5, 0.25, 1.0], [0.125, 0.5, 0.5]])
    expected = exact_gram(rows, targets=[2], row_norm_bound=1.0, target_bound=1.0)
    assert np.array_equal(gram.integers, expected.integers)
    with pytest.raises(ParameterError, match="without a name"):
        exact_gram(path, columns=[None, "a", "b", "t"], targets=0, row_norm_bound=1.0, target_bound=1.0)
    with pytest.raises(ParameterError, match="header must be left out"):
        exact_gram(rows, header=True, row_norm_bound=1.0)


def test_csv_headers_and_cells(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "rows.csv"
    path.write_bytes("é,b\n0.5,0.5\n".encode("latin-1"))
    with pytest.raises(ParameterError, match="column names in UTF-8"):
        exact_gram(path, row_norm_bound=1.0, header=True)
    path.write_bytes(b"a,b\n0.5,x\n1_0,0.25\n0.25,0.5\n")
    alone = exact_gram(np.array([[0.25, 0.5]]), row_norm_bound=1.0)
    assert np.array_equal(exact_gram(path, row_norm_bound=1.0, header=True).integers, alone.integers)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends(tmp_path, end):
    path = tmp_path / "rows.csv"
    for lines, rows in ((["a,b", "0.5,0.25", "0.25,0.5", ""], [[0.5, 0.25], [0.25, 0.5]]), (["a,b", ""], [])):
        path.write_bytes(end.join(lines).encode())
        expected = exact_gram(np.reshape(rows, (-1, 2)), row_norm_bound=1.0)
        assert np.array_equal(exact_gram(path, row_norm_bound=1.0, header=True).integers, expected.integers)


def test_a_record_beyond_one_block_is_no_row(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n1,2\n" + b"7" * (1 << 25) + b",4\n")
    alone = exact_gram(np.array([[1.0, 2.0]]), row_norm_bound=1.0)
    assert np.array_equal(exact_gram(path, row_norm_bound=1.0, header=True).integers, alone.integers)
