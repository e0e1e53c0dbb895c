"""Attack the border with hostile tables: python -m benchmarks.border_attack --cases 3000 --releases 300 --seed 0.

A case has random columns in a random source, with cells that libraries trip over. The encoded rows of n records, and
the number of rows that the schema changes, must be those of each record alone, in every order. Errors, warnings and
output must be the same for n records, each of them alone, and none; so must those of whole releases. It prints how many
comparisons were made and which cases differ; then its exit status is 1.
"""

import argparse
import contextlib
import datetime as dt
import fractions
import io
import tempfile
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse

import ndis
from ndis.data import csv, files, open_table, sparse, table
from ndis.data.cells import objects
from ndis.data.schema.changed import changed_rows


def trap(*_, **__):
    """Warn, print and raise, whatever a cell is asked."""
    warnings.warn("secret", stacklevel=1)
    raise RuntimeError(print("secret"))


ASKED = "eq ne lt hash bool float int index complex str repr len iter getitem array array_ufunc fspath format round"
TRAPS = {f"__{name}__": trap for name in ASKED.split()} | dict.fromkeys(("utcoffset", "dst", "tzname"), trap)
BASES = {str: "N", int: 1, float: 0.5, bytes: b"7", Decimal: "1.5", list: [1], tuple: [1], np.float64: 0.5}
HOSTILE = [type("Hostile", (base,), TRAPS)(given) for base, given in BASES.items()]
ZONE = type("Zone", (dt.tzinfo,), TRAPS)()
TEXTS = ["", " ", "N", "S ", "7", "7.0", "-0", "nan", "NA", "True", "yes", "1_000", "١٢", "0x10", "1e400", "inf", "+5"]
TEXTS += ["2021-05-03", "2021/05/03", "0001-01-01T00:00+14:00", "N\0", "\x1b]0;x\x07", "a,b", '"', '"N"', "N\r", "x\ny"]
TEXTS += ["\ufeffN", "😀", "é", "x" * 70_000, "1" * 400, ".", "1.", ".5e-3", str(2**53 + 1)]
INTS = [0, 1, -1, 7, 127, 255, 65535, 2**31, 2**53 + 1, 2**53, 2**63 - 1, -(2**63), 2**64 - 1]
FLOATS = [0.0, -0.0, 0.5, 7.0, 5e-324, -1e-200, 1e308, -1e308, 2.0**53, np.nan, np.inf, -np.inf, 65504.0]
DAYS = [dt.datetime(2021, 5, 3, 12, 30), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]
ODD = [None, pd.NA, pd.NaT, np.ma.masked, 2j, 7 + 0j, True, 10**400, fractions.Fraction(1, 2), b"\xff", [7], ["N"], {}]
ODD += [*map(Decimal, ("sNaN", "1e999999", "0.1", "7")), np.longdouble("1e4000"), np.void(b"N")]
ODD += [np.datetime64(7, "Y"), np.timedelta64(7, "D"), np.array(7), np.array([7.0]), np.array("N"), "\ud800", float]
ODD += [pd.Timestamp("2021-05-03", tz="Asia/Tokyo"), dt.date(2021, 5, 3), dt.datetime(2021, 5, 3, tzinfo=ZONE)]
ANY = [*ODD, *HOSTILE, *TEXTS, *INTS, *FLOATS, *DAYS]
BITS = [np.random.default_rng(i).bytes(8) for i in range(60)] + [x.to_bytes(8, "little") for x in INTS if x >= 0]


def arrow(kind, cells):
    """Make an Arrow column; null where it cannot hold a cell."""
    if pa.types.is_dictionary(kind):
        codes = [None if cell is None else i + len(cells) * (i % 2) for i, cell in enumerate(cells)]
        values = pa.array([cell or "" for cell in cells] * 2, kind.value_type)
        return pa.DictionaryArray.from_arrays(pa.array(codes, kind.index_type), values)
    parts = [pa.array([], kind), *(pa.nulls(1, kind) for _ in cells)]
    for i, cell in enumerate(cells):
        with contextlib.suppress(pa.ArrowException, OverflowError, TypeError, ValueError):
            parts[i + 1] = pa.array([None if cell != cell else cell], kind)
    return pa.concat_arrays(parts)


TYPES = {pa.int8(): INTS, pa.uint64(): INTS, pa.float16(): FLOATS, pa.float64(): FLOATS, pa.bool_(): [True, False]}
TYPES |= {pa.decimal128(38, 9): [Decimal("0.1"), 7], pa.null(): [None], pa.list_(pa.int8()): [[7]], pa.date32(): DAYS}
TYPES |= dict.fromkeys((pa.string(), pa.string_view(), pa.dictionary(pa.int16(), pa.string())), TEXTS)
TYPES |= dict.fromkeys((pa.timestamp("us"), pa.timestamp("s", "UTC"), pa.date64()), DAYS)
ARROW = {str(kind): ([None, *pool], lambda cells, kind=kind: arrow(kind, cells)) for kind, pool in TYPES.items()}
PLAINS = ("f2", "f4", "f8", ">f8", "i1", ">i4", "i8", "u8", "?", "M8[s]", ">M8[D]", "M8[ns]", "M8[W]", "c8")
NUMPY = {k: (BITS, lambda c, k=k: np.frombuffer(b"".join(x[: np.dtype(k).itemsize] for x in c), k)) for k in PLAINS}
NUMPY |= {"U": (TEXTS[:17], lambda c: np.array([*c, ""], "U9")[:-1]), "O": (ANY, objects)}
PANDAS = {k: (NUMPY[k][0], lambda c, k=k: pd.Series(NUMPY[k][1](c), dtype=k)) for k in ("f4", "f8", "i8", "?", "O")}
OWN = {"Int64": INTS[:-1], "boolean": [True], "str": TEXTS, pd.CategoricalDtype(TEXTS): TEXTS, "Sparse[float]": FLOATS}
PANDAS |= {str(k): ([p[0], *p], lambda c, k=k: pd.Series(c, dtype=k)) for k, p in OWN.items()}
PLAIN = [str(x).encode() for x in [*TEXTS, *INTS, *FLOATS] if x != "x\ny"] + [b"\xff", b'"N', b"\xef\xbb\xbf7", b"7,7"]
LINES = {"bytes": (PLAIN + [b'"' + c.replace(b'"', b'""') + b'"' for c in PLAIN], list)}


def to_csv(columns, place, way):
    lines = [b",".join(cells) or b'""' for cells in zip(*columns.values(), strict=True)]
    lines = [",".join(columns).encode()] * (way % 2) + lines
    (place / "t.csv").write_bytes(b"".join(line + b"\r\n"[len(line) % 2 :] for line in lines))
    return place / "t.csv", {"header": True} if way % 2 else {"columns": list(columns)}


def to_arrow(columns, place, way):
    given = pa.table(columns)
    if way < 3:
        how = {"use_dictionary": way == 1, "store_schema": way != 2, "row_group_size": 1 + way}
        return pq.write_table(given, place / "t.parquet", **how) or place / "t.parquet", {}
    if any(pa.types.is_dictionary(kind) or pa.types.is_decimal(kind) for kind in given.schema.types):
        return given, {}
    return pl.from_arrow(given) if way == 3 else given.to_pandas(types_mapper=pd.ArrowDtype), {}


def to_matrix(columns, place, way):
    x = np.stack(list(columns.values()), axis=1)
    if way == 0 and x.dtype.kind in "fiu":
        return np.save(place / "t.npy", np.asfortranarray(x)) or place / "t.npy", {}
    if way == 1 and x.dtype in (float, np.int64):
        ends, places = np.arange(len(x) + 1) * x.shape[1], np.tile(np.arange(x.shape[1]), len(x))
        return scipy.sparse.csr_array((x.ravel(), places, ends), x.shape), {}
    return (np.repeat(x, 2, axis=0)[::2] if way % 2 else np.asfortranarray(x)), {}


EVERY = {"list": (ANY, list)} | NUMPY | PANDAS | ARROW
SOURCES = [(EVERY, lambda c, *_: (c, {})), (PANDAS, lambda c, *_: (pd.DataFrame(c), {})), (LINES, to_csv)]
SOURCES += [(ARROW, to_arrow), (NUMPY, to_matrix)]
WAYS = [(0, 10), ndis.data.schema.Number(-1e36, 1e35, degree=2, indicator=True), ["N", "S", "7", "\udcff"], bool]
WAYS += [["7", 2**53 + 1, "nan"], (dt.date(1, 1, 2), dt.date(2030, 1, 1))]
ONE, learn, MODEL = {"epsilon": 1.0, "delta": 1e-6}, ndis.learn, ndis.learn.LinearModel
GRAM = ndis.GramMechanism.calibrated(**ONE, row_norm_bound=1.0)
LINEAR = learn.PrivateLinearRegression(row_norm_bound=1.0, target_bound=1.0, weight_bound=1.0)
RELEASES = {  # and what anybody may see of them, but for numbers with noise
    "gram": lambda s, d, how: GRAM.release(d, **how).values.shape,
    "schema": lambda s, d, how: GRAM.release(d, schema=s, **how).receipt.parameters,
    "count": lambda s, d, how: s.clipped_count(d, **ONE, **how).receipt.parameters,
    "describe": lambda s, d, how: sorted(ndis.describe(d, schema=s, **ONE, **how).values),
    "score": lambda s, d, how: learn.score_privately(MODEL({s.feature_names[0]: 7}, 1, s, {}), d, **ONE, **how).index,
    "linear": lambda s, d, how: sorted(vars(learn.PrivateLinearRegression(schema=s).fit_data(d, **how))),
    "weights": lambda s, d, _: LINEAR.fit(d, d["t"], d["t"]).n_features_in_,
    "labels": lambda s, d, _: learn.PrivateLogisticRegression(row_norm_bound=1, classes=(0, 7)).fit(d, d["t"]).classes_,
    "split": lambda s, d, _: [type(part) for part in learn.split_records(d)],
}


def encoded(schema, data, how):
    (rows,) = open_table(data, **how).encoded(schema).matrix().arrays()
    return [row.tobytes() for row in rows]


def outcome(call, *given):
    """Return the result, and what was said: an error, output, changes of the process, and warnings."""
    said, before = io.StringIO(), (list(warnings.filters), np.geterr())
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said), warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        try:
            result, error = call(*given), ""
        except Exception as raised:  # noqa: BLE001 -- any error is an outcome
            result, error = None, f"{type(raised).__name__}: {raised}"
    return result, [error, said.getvalue(), (warnings.filters, np.geterr()) == before, *(str(one.message) for one in w)]


def differences(seed, place, *, whole):
    """Yield for every comparison of one case whether it differs."""
    rng = np.random.default_rng(seed)
    types, make = SOURCES[rng.integers(len(SOURCES))]
    kinds = [types[name] for name in rng.choice(list(types), rng.integers(1 + whole, 4))]
    kinds, names = kinds[:1] * len(kinds) if make is to_matrix else kinds, ["t", "a", "b"][: len(kinds)]
    columns = {name: WAYS[rng.integers(len(WAYS))] for name in names}
    own = {"target": (columns.pop("t"), ("t", 0, 9))[1]} if whole else {}
    schema = ndis.Schema(columns, **own)
    records = [[pool[rng.integers(len(pool))] for pool, _ in kinds] for _ in range(rng.integers(2, 7))]
    way, step, every = int(rng.integers(5)), int(rng.choice([1, 2, 1000])), list(range(len(records)))
    files.rows_per_read = sparse.rows_per_read = table.rows_per_read = lambda width: step
    files.line_blocks = lambda file: csv.line_blocks(file, block=5 * step)

    def told(call, which):
        cells = [[records[i][j] for i in which] for j in range(len(kinds))]
        data, how = make({n: kind[1](c) for n, c, kind in zip(names, cells, kinds, strict=True)}, place, way)
        return outcome(call, schema, data, {**how, "progress": False})

    for name in rng.choice(list(RELEASES), 3 * whole):
        first, *others = (told(RELEASES[name], each) for each in (every, every[1:], [*every, 0], every[:1], []))
        yield from (repr(first) != repr(other) or "secret" in repr(first) for other in others)
    for call in () if whole else (encoded, lambda s, d, how: changed_rows(s, d, **how)):
        alone, none = [told(call, [i]) for i in every], told(call, [])
        for order in (every, rng.permutation(every).tolist(), rng.choice(every, 9).tolist()):
            rows, said = told(call, order)
            yield from (said != one[1] for one in [none, *(alone[i] for i in order)])
            yield rows is not None and rows != sum((alone[i][0] or none[0] for i in order), none[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, default in (("--cases", 1000), ("--releases", 100), ("--seed", 0)):
        parser.add_argument(name, type=int, default=default)
    given, count, bad = parser.parse_args(), 0, []
    with tempfile.TemporaryDirectory() as place:
        for i in range(given.cases + given.releases):
            found = list(differences(given.seed + i, Path(place), whole=i >= given.cases))
            count, bad = count + len(found), bad + [given.seed + i] * any(found)
    print(f"{count} comparisons, {len(bad) or 'none'} of {given.cases + given.releases} cases differ: {bad[:20]}")
    raise SystemExit(bool(bad))
