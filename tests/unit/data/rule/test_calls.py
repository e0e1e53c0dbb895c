"""Which calls may touch private cells, over the syntax tree of the data path, with a reason for each.

A new call of a library fails here until somebody has thought about it: can it raise, warn or log by value, can it
overflow, does it look at another cell, does it change the process?
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

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
# Files above that read cells too. Every function of theirs is checked but these, which know only public or released
# values; a new function is checked until somebody lists it here.
ABOVE = {
    "describing/release.py": (
        "of budget _first_pass _window _layout _edges reach bins_away column_shares long_rows labels squared_reach "
        "receipt"
    ),
    "learn/_score.py": "_number_scores _class_scores _table",
    "learn/_saved.py": "of load save",
    "learn/_labels.py": "stated_classes check_labels",
    "models/records.py": "",
    "data/schema/core.py": "from_receipt from_toml __init__ __repr__ with_target to_dict",
    "data/schema/preview.py": "quantiles",  # of public rows
}
PARTS = {  # functions that read cells in files that mostly work with released values
    "learn/_rows.py": "private_rows private_targets as_array _by_type weighted_rows _numbers",
    "learn/_estimator.py": "in_memory_only _fitted_rows _target_numbers",
    "mechanisms/rows.py": "encoded_rows clipped_count",
}
RELEASED = ("description", "statistics", "tables")  # of `describing`: they answer from what was released
MODULES = ("np", "pa", "pc", "pd", "pl", "pq", "t", "math", "warnings", "logging", "str", "bytes", "int", "float")
MODULES += ("list", "tuple")
CLASSES = ("date", "datetime", "re", "csv")

ALLOWED: dict[str, str] = {
    "elementwise in NumPy: one cell, one result, no overflow that raises (under np.errstate, which is of the thread)":
        "np.where np.isnan np.isfinite np.minimum np.maximum np.sqrt np.errstate np.equal np.rint np.trunc .astype "
        ".view",
    "a copy, a shape or a constant; it looks at no value":
        "np.append np.arange np.array np.asarray np.ascontiguousarray np.concatenate np.datetime_data np.dtype "
        "np.empty np.eye np.frombuffer np.full np.iinfo np.stack np.zeros .copy .ravel .reshape .tolist .item "
        "np.packbits np.ones np.fromiter np.asanyarray np.broadcast_to np.hstack np.ravel",
    "counts and places, as integers; a cell adds its own":
        "np.cumsum np.diff np.repeat .at np.flatnonzero np.bincount np.argsort np.searchsorted .any .all .sum .count "
        ".integers .merge .update .finish",
    "Arrow by type: binary with 64-bit offsets, so nothing overflows; safe=False or null for numbers":
        ".cast .fill_null .is_null .take .slice .column .select .buffers .from_buffers .from_batches .to_batches "
        ".to_numpy .to_pylist .to_arrow .__arrow_array__ .get_batch .iter_batches pa.array pa.table pa.py_buffer "
        "pa.float64 pa.int32 pa.int64 pa.large_binary pa.large_string pa.string pa.OSFile pq.ParquetFile "
        "pq.read_schema .open_file .IpcReadOptions",
    "rows and labels by their own type: lists and tuples, whose own code is not run":
        "list.__iter__ tuple.__iter__ bytes.__getitem__",
    "a release of exact sums, and what a mechanism knows of its noise":
        ".calibrated .release .release_count .release_matrix .count_noise .matrix_noise",
    "Arrow on bytes: a look-up, cell by cell, without a check of UTF-8":
        "pc.index_in",
    "types only, which are declared":
        "t.is_date32 t.is_date64 t.is_dictionary t.is_floating t.is_numeric t.base_type .is_decimal .base_type "
        ".newbyteorder .is_nested .is_integer .is_complex pl.Series .partition t.is_decimal t.is_string_view",
    "frames and tensors by type: columns, slices, conversions that put NaN or null where a cell does not fit":
        ".to_list .to_frame pd.Series .get_column .rechunk .tz_convert .cpu .detach .double .float "
        ".numpy .to_series .filter .compress .len_bytes .to_datetime64",
    "columns of one frame side by side, with equal indexes: pandas moves no cell, and joins no chunks":
        ".import_module .concat .set_axis",
    "Python on one cell by its own type; what it may raise is caught there":
        "float.__float__ int.__int__ str.__str__ str.__len__ str.strip bytes.decode date.toordinal .astimezone "
        ".__get__ datetime.fromisoformat .toordinal math.isfinite .fullmatch .sub .lower .bit_length .encode",
    "lines of CSV as bytes: no decoding but of the names in a public header":
        ".find .rfind .removeprefix .removesuffix .replace .read .readline .open .seek .tell .stat .decode .strip "
        "csv.reader",
    "public names, words and containers":
        ".add .append .pop .get .items .values .keys .index .setdefault .fromkeys .join .isprintable .isdecimal "
        ".lstrip .startswith .endswith .title .upper re.compile .__setattr__ .insert .split .dumps .isoformat .chain "
        ".product math.prod math.sqrt np.log",
    "dask: the tasks of others, whose errors become one message":
        ".compute .to_delayed .__dask_graph__ .addFilter .removeFilter .remove logging.Filter logging.getLogger",
}  # fmt: skip

# Where a sum over an axis, or a product of matrices, may meet records; all are exact integers unless it says so.
SUMS = {
    "accumulator": "integers of a tile as float64, exact in any order (`RowLayout.block_rows`)",
    "device": "the same on a device",
    "host": "the same in strips",
    "rows": "Σq² of integers, exact below 2⁵³, a comparison that rounding cannot turn (thm:integer-rows), and a float "
    "sum that only finds rows whose exact length is computed then (thm:weighted-rows)",
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


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    """The functions and methods of a module that stand in no other function."""
    tree = ast.parse(path.read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    nodes = [*tree.body, *(node for each in classes for node in each.body)]
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}


def above() -> dict[str, list[ast.FunctionDef]]:
    """The functions that read cells in the files above the data path."""
    found = {name: functions(SOURCE / name) for name in (*ABOVE, *PARTS)}
    for name, listed in (ABOVE | PARTS).items():
        assert set(listed.split()) <= set(found[name]), name
    kept = {name: [node for key, node in found[name].items() if key not in ABOVE[name].split()] for name in ABOVE}
    return kept | {name: [found[name][key] for key in PARTS[name].split()] for name in PARTS}


def own_names() -> set[str]:
    """Functions and fields of the data path itself."""
    found = set()
    for path in [*READING, SOURCE / "data" / "schema" / "core.py", *(SOURCE / name for name in ABOVE)]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                found.add("." + node.name)
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add("." + node.target.id)
    return found


def reductions(tree: ast.AST) -> Iterator[ast.AST]:
    """The sums and products over an axis."""
    names = {"sum", "mean", "std", "var", "prod", "dot", "matmul", "einsum", "norm", "inner", "tensordot", "bmm"}
    for node in ast.walk(tree):
        product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
        if product or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names):
            yield node


def test_every_call_on_the_data_path_is_allowed() -> None:
    allowed = {name for names in ALLOWED.values() for name in names.split()} | own_names()
    found = {(path.stem, name) for path in READING for name in calls(ast.parse(path.read_text()))}
    assert sorted((module, name) for module, name in found if name not in allowed) == []


def test_every_call_above_the_data_path_is_allowed() -> None:
    """What describes, scores, saves and labels records reads cells as well."""
    own = {f".{name}" for path in ("learn/_estimator.py",) for name in functions(SOURCE / path)}
    allowed = {name for names in ALLOWED.values() for name in names.split()} | own_names() | own
    found = {(name, node.name, call) for name, nodes in above().items() for node in nodes for call in calls(node)}
    assert sorted(each for each in found if each[2] not in allowed) == []
    files = {path.stem for path in (SOURCE / "describing").glob("*.py")} - {"__init__"}
    assert files == {"release", *RELEASED}


def test_what_describes_and_scores_reduces_integers_only() -> None:
    """A sum over an axis meets records only as integers on a grid, which are exact in any order."""
    exact = {
        "y.sum()", "(y * y).sum()", "e.sum()", "(e * e).sum()",  # of rint
        "math.prod(dim.values())",  # public sizes
    }  # fmt: skip
    files = [nodes for name, nodes in above().items() if not name.startswith("data/")]
    assert {ast.unparse(node) for nodes in files for each in nodes for node in reductions(each)} == exact


@pytest.mark.parametrize("path", [*READING, *SUMMING], ids=lambda path: path.stem)
def test_no_float_reduction_decides_about_a_record(path) -> None:  # type: ignore[no-untyped-def]
    """NumPy adds up one row in another order than many, so sums over an axis must be exact."""
    found = [ast.unparse(node) for node in reductions(ast.parse(path.read_text()))]
    if path.parent.name == "gram":
        assert not found or path.stem in SUMS, found
    else:  # booleans only
        assert all(each.startswith("_changed(") for each in found), found


def test_nothing_on_the_data_path_changes_the_process() -> None:
    """Filters of warnings and loggers belong to the process; only the quiet of dask's tasks touches them."""
    above = [path for name in ("describing", "learn", "mechanisms", "models") for path in (SOURCE / name).glob("*.py")]
    others = [path for path in above if path.stem != "_covariance"]  # which asks scikit-learn about public rows
    for path in [*sorted((SOURCE / "data").rglob("*.py")), *SUMMING, *others]:
        text = path.read_text()
        tree = ast.parse(text)
        names = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        touched = {
            n for n in names if n.startswith(("warnings.", "logging.", "np.seterr", "np.setbufsize", "os.environ"))
        }
        if path.stem == "dask":
            touched -= {"warnings.filters", "logging.Filter", "logging.getLogger", "logging.root"}
            touched -= {"logging.root.manager", "logging.root.manager.loggerDict"}
        assert touched == set(), path.stem
