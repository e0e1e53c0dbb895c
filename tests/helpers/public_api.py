"""The public names of the package and their signatures, read from the source and not from the running package.

So the text is the same on every Python, with every set of optional packages, and wherever a module lies.
`make api` writes tests/unit/house/public_api.txt anew.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from helpers.places import ROOT

SNAPSHOT = ROOT / "tests" / "unit" / "house" / "public_api.txt"
PACKAGES = ("auditing", "gram", "learn", "models", "plotting", "sampling", "schema", "testing")
DOORS = ("interop.dp_accounting", "interop.opacus")  # to other tools, not in the reference
REFERENCE = ROOT / "docs" / "reference" / "index.md"
HIDDEN_VALUES = ("__version__",)  # which every release changes

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef | ast.Assign | ast.AnnAssign


@cache
def tree(module: str) -> ast.Module | None:
    """The syntax of a module of the package; None if there is no such module."""
    place = ROOT.joinpath("src", *module.split("."))
    for file in (place / "__init__.py", place.with_suffix(".py")):
        if file.exists():
            return ast.parse(file.read_text(encoding="utf-8"))
    return None


def targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    """What an assignment assigns to."""
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def is_called(node: ast.AST, name: str) -> bool:
    """Whether a statement defines `name`."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return any(isinstance(target, ast.Name) and target.id == name for target in targets(node))
    return isinstance(node, Function | ast.ClassDef) and node.name == name


def definitions(module: str, name: str) -> tuple[str, list[Definition]]:
    """The module in which a name is defined, and its definitions there: one, or several if it is overloaded."""
    body = tree(module)
    found = [node for node in body.body if is_called(node, name)] if body else []
    if found:
        return module, found
    for node in ast.walk(body) if body else ():
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ndis.") and node.module != module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return definitions(str(node.module), alias.name)
    return module, []


def public_names(module: str) -> list[str]:
    """`__all__` of a module."""
    _, (node,) = definitions(module, "__all__")
    return list(ast.literal_eval(node.value))


def signature(node: Function) -> str:
    """Arguments and result, as they are written."""
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(node.args)}){result}"


def function(node: Function, name: str) -> str:
    """One line per function, with the decorators that change how a caller uses it."""
    kinds = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
    if kinds & {"property", "cached_property"}:
        return f"property {name}" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")
    words = [kind for kind in ("overload", "classmethod", "staticmethod", "contextmanager") if kind in kinds]
    return " ".join([*words, f"{name}{signature(node)}"])


def ancestors(module: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
    """A class and those of the package that it inherits from, nearest first."""
    yield module, node
    for base in node.bases:
        home, found = definitions(module, ast.unparse(base).partition("[")[0])
        for each in found:
            if isinstance(each, ast.ClassDef):
                yield from ancestors(home, each)


def members(module: str, node: ast.ClassDef) -> Iterator[str]:
    """The public members of a class: fields in the order of the constructor, then methods and properties by name."""
    fields: dict[str, str] = {}
    methods: dict[str, list[str]] = {}
    for _, owner in reversed(list(ancestors(module, node))):  # a nearer class overrides, and fields keep their place
        own: dict[str, list[str]] = {}
        for each in owner.body:
            if isinstance(each, Function) and (each.name == "__init__" or not each.name.startswith("_")):
                own.setdefault(each.name, []).append(function(each, each.name))
            elif isinstance(each, ast.Assign | ast.AnnAssign):
                names = [target.id for target in targets(each) if isinstance(target, ast.Name)]
                fields |= {name: ast.unparse(each) for name in names if not name.startswith("_")}
        methods |= own
    yield from (line for name, line in fields.items() if name not in methods)
    for name in sorted(methods):
        yield from methods[name]


def bases(module: str, node: ast.ClassDef) -> str:
    """The classes that a class inherits from, without those of the package: their members are listed as its own."""
    names = [ast.unparse(base) for base in node.bases]
    others = [name for name in names if not definitions(module, name.partition("[")[0])[1]]
    return f"({', '.join(others)})" if others else ""


def described(path: str, module: str, name: str) -> Iterator[str]:
    """The lines of one public name."""
    home, found = definitions(module, name)
    if not found and tree(f"{module}.{name}"):
        yield f"module {path}"
    elif not found:
        raise LookupError(f"{path} is public, and nothing defines it")
    for node in found:
        if isinstance(node, ast.ClassDef):
            marks = [f"@{ast.unparse(each)} " for each in node.decorator_list if "dataclass" in ast.unparse(each)]
            yield f"{''.join(marks)}class {path}{bases(home, node)}"
            yield from (f"    {line}" for line in members(home, node))
        elif isinstance(node, Function):
            yield function(node, path)
        elif name in HIDDEN_VALUES:
            yield path
        else:
            yield ast.unparse(node).replace(name, path, 1)


def in_reference() -> set[str]:
    """The names that the API reference lists, without the package."""
    text = REFERENCE.read_text(encoding="utf-8")
    return set(re.findall(r"^   ([A-Za-z][\w.]*)$", text, flags=re.MULTILINE))


def public_paths() -> list[str]:
    """Every public name with its package: what `__all__` of the public packages and the reference name."""
    packages = ("ndis", *(f"ndis.{package}" for package in (*PACKAGES, *DOORS)))
    named = {f"{package}.{name}" for package in packages for name in public_names(package)}
    return sorted(named | {f"ndis.{name}" for name in in_reference()})


def public_api() -> str:
    """Every public name with its signature."""
    lines: list[str] = []
    for path in public_paths():
        module, _, name = path.rpartition(".")
        lines.extend(described(path, module, name))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    SNAPSHOT.write_text(public_api(), encoding="utf-8")
    print(f"written: {SNAPSHOT.relative_to(ROOT)}")
