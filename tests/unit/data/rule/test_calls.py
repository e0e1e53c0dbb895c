"""Which calls may touch private cells, over the syntax tree of the data path, with a reason for each.

A new call of a library fails here until somebody has thought about it: can it raise, warn or log by value, can it
overflow, does it look at another cell, does it change the process?
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from helpers.places import ROOT

SOURCE = ROOT / "src" / "ndis"
OTHERS = ("__init__", "footer", "npy", "opening", "paths")  # they open files, know types, and read no cell
READING = [
    *(p for p in sorted((SOURCE / "data").glob("*.py")) if p.stem not in OTHERS),
    SOURCE / "data" / "schema" / "changed.py",
    SOURCE / "data" / "schema" / "columns.py",
]
SUMMING = sorted((SOURCE / "gram").glob("*.py"))
MODULES = ("np", "pa", "pc", "pd", "pl", "pq", "t", "math", "warnings", "logging", "str", "bytes", "int", "float")
CLASSES = ("date", "datetime", "re", "csv")

ALLOWED: dict[str, str] = {
    "elementwise in NumPy: one cell, one result, no overflow that raises (under np.errstate, which is of the thread)":
        "np.where np.isnan np.isfinite np.minimum np.maximum np.sqrt np.errstate .astype .view",
    "a copy, a shape or a constant; it looks at no value":
        "np.append np.arange np.array np.asarray np.ascontiguousarray np.concatenate np.datetime_data np.dtype "
        "np.empty np.eye np.frombuffer np.full np.iinfo np.stack np.zeros .copy .ravel .reshape .tolist .item "
        "np.packbits",
    "counts and places, as integers; a cell adds its own":
        "np.cumsum np.flatnonzero np.bincount np.argsort .any .sum .count",
    "Arrow by type: binary with 64-bit offsets, so nothing overflows; safe=False or null for numbers":
        ".cast .fill_null .is_null .take .slice .column .select .buffers .from_buffers .from_batches .to_batches "
        ".to_numpy .to_pylist .to_arrow .__arrow_array__ .get_batch .iter_batches pa.array pa.table pa.py_buffer "
        "pa.float64 pa.int32 pa.int64 pa.large_binary pa.large_string pa.string pa.OSFile pq.ParquetFile "
        "pq.read_schema .open_file .IpcReadOptions",
    "Arrow on bytes: compares, cuts and looks up, cell by cell, without a check of UTF-8":
        "pc.ascii_lower pc.ascii_rtrim pc.ascii_trim pc.ends_with pc.index_in pc.replace_substring",
    "types only, which are declared":
        "t.is_date32 t.is_date64 t.is_dictionary t.is_floating t.is_numeric t.base_type .is_decimal .base_type "
        ".newbyteorder .is_nested .is_integer .is_complex pl.Series .partition",
    "frames and tensors by type: columns, slices, conversions that put NaN or null where a cell does not fit":
        ".to_list .to_frame pd.Series .tocoo .get_column .rechunk .tz_convert .toarray .cpu .detach .double .float "
        ".numpy",
    "Python on one cell by its own type; what it may raise is caught there":
        "float.__float__ int.__int__ str.__str__ str.strip bytes.decode date.toordinal datetime.astimezone "
        "datetime.fromisoformat datetime.toordinal math.isfinite .fullmatch .sub .lower .bit_length .encode",
    "lines of CSV as bytes: no decoding but of the names in a public header":
        ".find .rfind .removeprefix .removesuffix .replace .read .readline .open .seek .tell .stat .decode .strip "
        "csv.reader",
    "public names, words and containers":
        ".add .append .pop .get .items .values .keys .index .setdefault .fromkeys .join .isprintable .isdecimal "
        ".lstrip .startswith .title .upper re.compile .__setattr__ .insert .split .dumps .isoformat",
    "dask: the tasks of others, whose errors become one message":
        ".compute .to_delayed",
}  # fmt: skip

# Where a sum over an axis, or a product of matrices, may meet records; all are exact integers unless it says so.
SUMS = {
    "accumulator": "integers of a tile as float64, exact in any order (`RowLayout.block_rows`)",
    "device": "the same on a device",
    "fused": "the same in one kernel",
    "host": "the same in strips",
    "rows": "Σq² of integers, exact below 2⁵³, and a comparison that rounding cannot turn (thm:integer-rows)",
    "terms": "integers times integers (the weights are rounded), and norms added output by output",
    "weighted": "integers times integers",
    "sums": "integers",
    "maps": "integers times integers, each sum at most 2⁵³ (thm:centred-rows)",
    "counts": "squares of integers, exact below 2⁵³, and numbers of records",
    "layout": "public bounds, as fractions",
    "leverage": "floats, for the auditor only: no release depends on them",
}


def calls(tree: ast.AST) -> Iterator[str]:
    """The attributes that are called, those of modules and types with their names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            named = isinstance(owner, ast.Name) and owner.id in MODULES + CLASSES
            yield f"{owner.id}.{node.func.attr}" if named else f".{node.func.attr}"  # type: ignore[attr-defined]


def own_names() -> set[str]:
    """Functions and fields of the data path itself."""
    found = set()
    for path in [*READING, SOURCE / "data" / "schema" / "core.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                found.add("." + node.name)
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add("." + node.target.id)
    return found


def test_every_call_on_the_data_path_is_allowed() -> None:
    allowed = {name for names in ALLOWED.values() for name in names.split()} | own_names()
    found = {(path.stem, name) for path in READING for name in calls(ast.parse(path.read_text()))}
    assert sorted((module, name) for module, name in found if name not in allowed) == []


@pytest.mark.parametrize("path", [*READING, *SUMMING], ids=lambda path: path.stem)
def test_no_float_reduction_decides_about_a_record(path) -> None:  # type: ignore[no-untyped-def]
    """NumPy adds up one row in another order than many, so sums over an axis must be exact."""
    reductions = {"sum", "mean", "std", "var", "prod", "dot", "matmul", "einsum", "norm", "inner", "tensordot", "bmm"}
    found = [
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult))
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in reductions)
    ]
    if path.parent.name == "gram":
        assert not found or path.stem in SUMS, found
    else:  # booleans only
        assert all(each.startswith("_changed(") for each in found), found


def test_nothing_on_the_data_path_changes_the_process() -> None:
    """Filters of warnings and loggers belong to the process; only the quiet of dask's tasks touches them."""
    for path in [*sorted((SOURCE / "data").rglob("*.py")), *SUMMING]:
        text = path.read_text()
        tree = ast.parse(text)
        names = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        touched = {
            n for n in names if n.startswith(("warnings.", "logging.", "np.seterr", "np.setbufsize", "os.environ"))
        }
        if path.stem == "dask":
            touched -= {"warnings.filters", "logging.Logger", "logging.getLogger", "logging.root"}
            touched -= {"logging.root.manager", "logging.root.manager.loggerDict"}
        if path.stem == "device":
            touched -= {"warnings.warn"}  # that triton is missing, whatever the data
        assert touched == set(), path.stem
