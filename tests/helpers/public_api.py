"""The public names of the package and their signatures, read from the source and not from the running package.

So the text is the same on every Python and with every set of optional packages. It says what a caller can rely on, and
nothing of how that is written: keyword-only parameters are sorted, a class shows its constructor and all public members
whether it inherits them or not, and modules and base classes of the package are not named.
`make api` writes tests/unit/house/public_api.txt anew.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from helpers.places import ROOT

SNAPSHOT = ROOT / "tests" / "unit" / "house" / "public_api.txt"
PACKAGES = ("auditing", "gram", "learn", "models", "noise", "plotting", "schema", "testing")
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
                if (alias.asname or alias.name) in (name, "*"):
                    return definitions(str(node.module), name if alias.name == "*" else alias.name)
    return module, []


def public_names(module: str) -> list[str]:
    """`__all__` of a module."""
    _, (node,) = definitions(module, "__all__")
    return list(ast.literal_eval(node.value))


def unparsed(node: ast.expr | None, before: str) -> str:
    return f"{before}{ast.unparse(node)}" if node else ""


def parameter(name: str, annotation: ast.expr | None, default: ast.expr | None) -> str:
    return f"{name}{unparsed(annotation, ': ')}{unparsed(default, '=')}"


def listed(positional: list[str], several: str, keywords: list[str], rest: str) -> str:
    """A list of parameters; the order of those that need their keyword means nothing."""
    star = [f"*{several}"] if several or keywords else []
    return f"({', '.join([*positional, *star, *sorted(keywords), *([f'**{rest}'] if rest else [])])})"


def parameters(node: Function, bound: bool) -> str:
    """The parameters of a function, without `self` or `cls`."""
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    positional = [parameter(each.arg, each.annotation, default) for each, default in zip(plain, defaults, strict=True)]
    keywords = [
        parameter(each.arg, each.annotation, default)
        for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    several, rest = (parameter(x.arg, x.annotation, None) if x else "" for x in (given.vararg, given.kwarg))
    return listed(positional[1:] if bound else positional, several, keywords, rest)


def function(node: Function, name: str, owner: str = "") -> str:
    """One line per function, with the decorators that change how a caller uses it."""
    kinds = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
    result = unparsed(node.returns, " -> ")
    result = " -> Self" if owner and result == f" -> {owner}" else result
    if kinds & {"property", "cached_property"}:
        return f"property {name}{result}"
    words = [kind for kind in ("overload", "classmethod", "staticmethod", "contextmanager") if kind in kinds]
    return " ".join([*words, f"{name}{parameters(node, bool(owner) and 'staticmethod' not in kinds)}{result}"])


def ancestors(module: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
    """A class and those of the package that it inherits from, nearest first."""
    yield module, node
    for base in node.bases:
        home, found = definitions(module, ast.unparse(base).partition("[")[0])
        for each in found:
            if isinstance(each, ast.ClassDef):
                yield from ancestors(home, each)


def other_bases(module: str, node: ast.ClassDef) -> str:
    """The classes of other packages that a class inherits from, if only through classes of this package."""
    names = {
        ast.unparse(base)
        for home, owner in ancestors(module, node)
        for base in owner.bases
        if not ast.unparse(base).startswith("Generic[")
        and not definitions(home, ast.unparse(base).partition("[")[0])[1]
    }
    return f"({', '.join(sorted(names))})" if names else ""


def options(call: ast.AST | None) -> dict[str, ast.expr]:
    """The keyword arguments of a call."""
    return {str(each.arg): each.value for each in call.keywords} if isinstance(call, ast.Call) else {}


def is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def dataclass_options(node: ast.ClassDef) -> dict[str, ast.expr] | None:
    """What `@dataclass` was given; None for other classes. A named tuple is made like a dataclass."""
    for each in node.decorator_list:
        if ast.unparse(each).partition("(")[0].rpartition(".")[2] == "dataclass":
            return options(each)
    return {} if any(ast.unparse(base) == "NamedTuple" for base in node.bases) else None


def own_fields(node: ast.ClassDef) -> dict[str, ast.AnnAssign]:
    """The annotated names of a class body that are no class variables."""
    found = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    return {each.target.id: each for each in found if "ClassVar" not in ast.unparse(each.annotation)}


def from_fields(module: str, node: ast.ClassDef) -> tuple[str, set[str]]:
    """The constructor that `@dataclass` writes."""
    found: dict[str, tuple[bool, str]] = {}  # whether it needs its keyword, and how it is written
    for _, owner in reversed(list(ancestors(module, node))):
        given = dataclass_options(owner)
        for name, each in own_fields(owner).items() if given is not None else ():
            is_field = isinstance(each.value, ast.Call) and ast.unparse(each.value.func).endswith("field")
            how = options(each.value) if is_field else {}
            default = how.get("default", how.get("default_factory")) if is_field else each.value
            if "init" not in how or is_true(how["init"]):
                keyword = is_true(how.get("kw_only", (given or {}).get("kw_only")))
                found[name] = keyword, parameter(name, each.annotation, default)
            else:
                found.pop(name, None)
    positional = [text for keyword, text in found.values() if not keyword]
    return listed(positional, "", [text for keyword, text in found.values() if keyword], ""), set(found)


def constructor(module: str, node: ast.ClassDef) -> tuple[str, set[str]]:
    """The parameters of a constructor, and their names; nothing if the class leaves it to another package."""
    for home, owner in ancestors(module, node):
        for each in owner.body:
            if isinstance(each, Function) and each.name == "__init__":
                every = (*each.args.posonlyargs, *each.args.args, *each.args.kwonlyargs)
                return parameters(each, bound=True), {one.arg for one in every}
        given = dataclass_options(owner)
        if given is not None and ("init" not in given or is_true(given["init"])):
            return from_fields(home, owner)
    return "", set()


def members(module: str, node: ast.ClassDef) -> dict[str, list[str]]:
    """The public members of a class by name. Parameters of the constructor are not listed again as attributes."""
    found: dict[str, list[str]] = {}
    written, names = constructor(module, node)
    for _, owner in reversed(list(ancestors(module, node))):  # a nearer class overrides
        own: dict[str, list[str]] = {}
        for each in owner.body:
            if isinstance(each, Function):
                own.setdefault(each.name, []).append(function(each, each.name, owner.name))
            elif isinstance(each, ast.Assign | ast.AnnAssign):
                typed = (
                    each.annotation if isinstance(each, ast.AnnAssign) and each.target.id in own_fields(owner) else None
                )
                own |= {
                    x.id: [f"attribute {x.id}{unparsed(typed, ': ')}"] for x in targets(each) if isinstance(x, ast.Name)
                }
        found |= {name: lines for name, lines in own.items() if not name.startswith("_")}
    for name in names:
        if found.get(name, [""])[0].startswith("attribute "):
            del found[name]
    return ({"": [f"constructor {written}"]} if written else {}) | {name: found[name] for name in sorted(found)}


def described(path: str, module: str, name: str) -> Iterator[str]:
    """The lines of one public name."""
    home, found = definitions(module, name)
    if not found and tree(f"{module}.{name}"):
        yield f"module {path}"
    elif not found:
        raise LookupError(f"{path} is public, and nothing defines it")
    for node in found:
        if isinstance(node, ast.ClassDef):
            yield f"class {path}{other_bases(home, node)}"
            yield from (f"    {line}" for lines in members(home, node).values() for line in lines)
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
