"""Run `ndis audit`, which compares a claim of differential privacy with neighbours, and `ndis report`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from ndis._files import only_keys, read_object
from ndis.cli.files import read_pair, read_schema, table_options
from ndis.cli.options import HEADER, JSON, SCHEMA, argument, choice, command, keep_apart, listed, option, reports
from ndis.cli.output import place_of
from ndis.errors import ParameterError

REFUTED, NOT_DECIDED = 1, 3  # exit statuses
_CLAIM = ("epsilon", "delta", "adjacency")
_TABLE = ("data", "columns", "targets", "header", "schema", "candidates")
_BOUNDS = ("row_norm_bound", "low", "high", "target_bound", "target_values", "features")
_SIZES = ("min_rows", "max_rows", "seconds")
_NAMES = ("title", "data_name")
_KEYS = ("claim", "pairs", "algorithm", "mechanism", *_TABLE, *_BOUNDS, *_SIZES, *_NAMES)
_REQUIRE = choice("--require", "What status 0 stands for (not-refuted unless given).", "not-refuted proved")
_NO_CLAIM = (".py", ".csv", ".parquet", ".arrow", ".npy")  # endings of programs and tables


@command(
    argument("file", "FILE", required=False),
    option("--epsilon", "Claimed ε."),
    option("--delta", "Claimed δ."),
    choice("--adjacency", "Which data sets are neighbours (add-remove unless given).", "add-remove replace-one"),
    option("--algorithm", "A function from data to (mean, covariance). It is run.", str, metavar="FILE.py:FUNCTION"),
    option("--mechanism", "A mechanism of ndis, or a function that makes one. It is run.", str, metavar="FILE.py:NAME"),
    option("--data", "Rows: a CSV, Parquet, Arrow or NPY file.", Path),
    listed("--columns", "Feature columns (all but the targets)."),
    listed("--targets", "Columns that are targets; the algorithm then gets (X, y)."),
    HEADER,
    SCHEMA,
    option("--row-norm-bound", "Rows lie within this norm: make up other data there, and search for the worst row."),
    option("--low", "With --high: every feature lies between them, in place of --row-norm-bound."),
    option("--high", "See --low."),
    option("--target-bound", "The bound of targets of made-up rows."),
    option("--features", "The number of features, if there are no data.", int),
    option("--min-rows", "Public: no data set has fewer rows (0 unless given).", int),
    option("--max-rows", "Public: no data set has more rows.", int),
    option("--seconds", "Time for other data sets; 0 tries none (60 unless given)."),
    option("--title", "Name of the audited system, for the report.", str),
    option("--data-name", "Name of the data, for the report.", str),
    reports("--report -o"),
    option("--workers", "How many runs of the algorithm at a time.", int, default=1),
    _REQUIRE,
    JSON,
)
def audit(file: Path | None, report: list[Path], workers: int, require: str, as_json: bool, **options: Any) -> None:
    """Try to refute a claim of (ε, δ)-differential privacy. A refutation is a proof.

    FILE is a claim file, TOML or JSON, with claim = {epsilon, delta, adjacency}, and one of pairs, algorithm and
    mechanism; an algorithm comes with data, or with the bounds of rows. Options take the place of its values, or of the
    whole file. FILE is trusted as a program is: the function that it names is run.

    Exit status: 0 as required, 1 refuted and nothing else, 2 bad input, 3 not decided. Not refuted is not a proof of
    privacy; with --require proved it is status 3.

    Example: ndis audit claim.toml --report audit.html
    """
    import ndis

    given = {key: value for key, value in options.items() if value is not None and value is not False and value != ()}
    request = _read_claim_file(file, given, report)
    claim = _claim(request)
    verdict = ndis.audit(claim, **_arguments(request, claim), workers=workers)
    pages = [str(path) for path in report if path.suffix.lower() == ".html"]
    _show(replace(verdict, command=_command(file, given, (*pages, "audit.html")[0])), report, require, as_json)


@command(argument("file", "FILE"), reports("--output -o"), _REQUIRE, JSON)
def report(file: Path, output: list[Path], require: str, as_json: bool) -> None:
    """Check a saved report of an audit, a page or JSON. Then show it, or write it again.

    The witness is certified again: other numbers than those in the report end with status 2. A proof in the report is
    not checked again. Exit status: as for 'ndis audit'.

    Example: ndis report audit.html --output audit.json
    """
    from ndis.auditing import AuditReport
    from ndis.auditing.judge import exceeds

    saved = AuditReport.load(file)
    witness = saved.witness
    if witness is not None:
        again = witness.recheck()
        agrees = again.upper >= witness.enclosure.lower and again.lower <= witness.enclosure.upper
        if saved.refuted and agrees:
            agrees = exceeds(witness.profile, witness.side, witness.epsilon, witness.delta) is True
        if not agrees:
            raise ParameterError("report", "agree with its own witness", "other numbers")
    if saved.proved:
        click.echo("ndis: this command does not check the proof in the report again", err=True)
    _show(saved, output, require, as_json)


def _show(verdict: Any, paths: list[Path], require: str, as_json: bool) -> None:
    """Print the verdict, write the reports, and leave with the status of the verdict."""
    click.echo(verdict.to_json() if as_json else str(verdict))
    for path in paths:
        verdict.save(path)
    if verdict.refuted:
        raise click.exceptions.Exit(REFUTED)
    if not verdict.proved and (verdict.undecided or require == "proved"):
        raise click.exceptions.Exit(NOT_DECIDED)


def _read_claim_file(file: Path | None, given: dict[str, Any], report: list[Path]) -> dict[str, Any]:
    """Return the values of a claim file; options take their place. Relative paths in the file start at its folder.

    A report must not take the place of a file that the claim file names.
    """
    if file is not None and file.suffix.lower() in _NO_CLAIM:
        remedy = "name a function with --algorithm FILE.py:FUNCTION, and rows with --data"
        raise ParameterError("file", "be a claim file, TOML or JSON", repr(file.name), remedy)
    stated = {} if file is None else only_keys("file", read_object("file", file), (), _KEYS)
    folder = Path() if file is None else file.parent
    for key, kind in (("title", str), ("data_name", str), ("schema", str), ("header", bool)):
        if not isinstance(stated.get(key, kind()), kind):
            raise ParameterError(key, "be text" if kind is str else "be true or false", type(stated[key]).__name__)
    for key in ("data", "schema", "candidates"):
        if isinstance(stated.get(key), str):
            stated[key] = folder / stated[key]
    for key in ("algorithm", "mechanism"):
        if key in stated:
            stated[key] = (stated[key], folder)
    if "pairs" in stated:
        stated["pairs"], files = _pairs(stated["pairs"], folder)
        keep_apart("report", report, files)
    claim = only_keys("claim", stated.get("claim", {}), (), _CLAIM)
    claim |= {key: given[key] for key in _CLAIM if key in given}
    named = {key: (given[key], Path()) for key in ("algorithm", "mechanism") if key in given}
    return stated | {key: value for key, value in given.items() if key not in _CLAIM} | named | {"claim": claim}


def _claim(request: dict[str, Any]) -> Any:
    """Return the claim; lists of ε and δ are a claim at many points."""
    from ndis.auditing import Claim

    claim = request["claim"]
    missing = [key for key in ("epsilon", "delta") if key not in claim]
    if missing:
        remedy = "give --epsilon and --delta or a claim in the file"
        raise ParameterError("claim", "have epsilon and delta", f"none called {' or '.join(missing)}", remedy)
    if isinstance(claim["epsilon"], list):
        return Claim.curve(claim.pop("epsilon"), claim.pop("delta"), **claim)
    return Claim(**claim)


def _arguments(request: dict[str, Any], claim: Any) -> dict[str, Any]:
    """Return the arguments of `ndis.audit`."""
    from ndis.auditing import DataSet

    arguments = {key: request[key] for key in ("pairs", *_NAMES) if key in request}
    if "algorithm" in request:
        name, folder = request["algorithm"]
        arguments["algorithm"] = NamedAlgorithm(name, folder.absolute())  # workers may start elsewhere
        _ = arguments["algorithm"].func  # an unknown name fails before anything runs
    if "mechanism" in request:
        arguments["mechanism"] = load("mechanism", *request["mechanism"])
    how: dict[str, Any] = {key: request[key] for key in ("columns", "targets", "header", "schema") if key in request}
    rows = _rows("data", request["data"]) if "data" in request else None
    targets = how.get("targets", ())
    table = table_options(rows, how, targets=targets, note=False) if rows is not None else {}
    table |= {"schema": read_schema(how["schema"])} if rows is None and "schema" in how else {}
    domain = _domain(request, table.get("schema"))
    alone = "algorithm" in request and not arguments.keys() & {"pairs", "mechanism"}
    if rows is None and (how.keys() - {"schema"} or (not alone and (how or domain is not None))):
        raise ParameterError(" and ".join(how) or "a domain", "come with data", "none")
    if rows is not None or alone:
        sizes: dict[str, Any] = {key: request.get(key) for key in ("min_rows", "max_rows")}
        arguments["data"] = DataSet(rows, **table, domain=domain, **sizes)
        arguments["search"] = _search(request, claim, table, domain)
    return arguments


def _domain(request: dict[str, Any], schema: Any) -> Any:
    """Return the set in which rows lie, if it is stated; a schema has its own."""
    from ndis.auditing import Domain

    bounds = {key: request[key] for key in _BOUNDS if request.get(key) is not None}
    if schema is None or not bounds:
        return (Domain(**bounds) if bounds else None) if schema is None else Domain.of_schema(schema)
    if schema.target is not None and not bounds.keys() & {"target_bound", "target_values"}:
        bounds |= {"target_values": tuple(range(len(schema.classes)))} if schema.classes else {"target_bound": 1.0}
    return Domain(**bounds)


def _search(request: dict[str, Any], claim: Any, table: dict[str, Any], domain: Any) -> Any:
    """Return how neighbours are chosen: rows left out in turn, candidates, and the worst row of the domain."""
    from ndis.auditing import AddAdversarial, AddRows, DataSet, RemoveEach, ReplaceAdversarial, ReplaceEach, Search

    seconds = {"seconds": request["seconds"]} if request.get("seconds") is not None else {}
    if request.get("candidates") is None:
        return Search(**seconds)
    rows = DataSet(_rows("candidates", request["candidates"]), **table).rows()
    replaced = claim.adjacency == "replace-one"
    rules: list[Any] = [ReplaceEach(rows)] if replaced else [RemoveEach(), AddRows(rows)]
    if domain is not None:
        rules.append((ReplaceAdversarial if replaced else AddAdversarial)(domain))
    return Search(neighbours=rules, **seconds)


def _rows(name: str, value: Any) -> Any:
    """Return the path of a file, or the rows that a claim file holds itself."""
    from ndis.auditing.candidates.edits import matrix_of

    return value if isinstance(value, Path) else matrix_of(name, value)


def _pairs(values: Any, folder: Path) -> tuple[list[Any], list[Path]]:
    """Return the pairs of a claim file: each is an object with the arguments of a constructor, or one of the files."""
    from ndis._groups import pair_from_arrays

    if not isinstance(values, list) or not values:
        kind = "an empty list" if values == [] else f"a {type(values).__name__}"
        raise ParameterError("pairs", "be a list of at least one pair", kind)
    pairs: list[Any] = []
    for number, item in enumerate(values):
        if isinstance(item, str):
            pairs.append(read_pair(folder / item))
        elif isinstance(item, dict):
            pairs.append(pair_from_arrays(f"pair {number}", item))
        else:
            raise ParameterError(f"pair {number}", "be an object or the name of a file", f"a {type(item).__name__}")
    return pairs, [folder / item for item in values if isinstance(item, str)]


def _command(file: Path | None, given: dict[str, Any], page: str) -> str:
    """Return the command that makes the same page again."""
    words = ["ndis", "audit", *([] if file is None else [str(file)])]
    for key, value in given.items():
        name = f"--{key.replace('_', '-')}"
        for one in value if isinstance(value, tuple) else [value]:
            words += [name] if one is True else [name, str(one)]
    return shlex.join([*words, "--report", page])


# ---------------------------------------------------------------------- what an audit runs

# A function or a mechanism of a Python file, named path/to/file.py:name. The file may import modules of its own folder.
# Python looks there last, so a statistics.py in that folder does not take the place of Python's own.


@dataclass(frozen=True)
class NamedAlgorithm:
    """A function `data → (mean, covariance)` has a name by which other processes load it too."""

    name: str  # path/to/file.py:function, as the user wrote it
    folder: Path  # a relative path starts here

    @property
    def func(self) -> Any:
        """Return the function itself."""
        function = load("algorithm", self.name, self.folder)
        if not callable(function):
            raise ParameterError("algorithm", "be a function of its file", repr(self.name))
        return function

    def __call__(self, data: Any) -> Any:
        function = self.func
        with _guarded(f"algorithm {self.name}", "return (mean, covariance)", self.folder / self.name):
            law = function(data)
            if isinstance(law, tuple | list):  # what turns into an array runs the user's code too
                return tuple(item.__array__() if hasattr(item, "__array__") else item for item in law)
            return law


def load(kind: str, name: Any, folder: Path) -> Any:
    """Return the value that ``path/to/file.py:name`` names, or none if its file has no such value.

    A function that is named as a mechanism is called: it makes one.
    """
    path, _, inside = name.rpartition(":") if isinstance(name, str) else ("", "", "")
    if not (path.endswith(".py") and all(word.isidentifier() for word in inside.split("."))):
        raise ParameterError(kind, "be written path/to/file.py:name", repr(name))
    file = (folder / path).absolute()
    if not file.is_file():
        raise ParameterError(kind, "be in a file that exists", repr(path))
    with _guarded(kind, "be in a file that Python can run", file):
        value: Any = _module(file)
        for word in inside.split("."):
            value = getattr(value, word, None)
        return value() if kind == "mechanism" and isfunction(value) else value


@lru_cache
def _module(file: Path) -> ModuleType:
    """Run a Python file as a module of its own name."""
    spec = spec_from_file_location(f"audited_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for their module there
    spec.loader.exec_module(module)
    return module


@contextmanager
def _guarded(name: str, rule: str, file: Path) -> Iterator[None]:
    """Run the user's code: what it prints goes to stderr, and of what it raises only the place is reported."""
    sys.path.append(str(file.parent))
    try:
        with redirect_stdout(sys.stderr):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's code may raise anything
        raise ParameterError(name, rule, place_of(error)) from error
    finally:
        sys.path.remove(str(file.parent))
