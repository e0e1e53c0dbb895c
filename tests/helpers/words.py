"""Check the prose of the source: docstrings are sentences, and words have their common meaning.

    PYTHONPATH=tests python -m helpers.words src/ndis/gram src/ndis/pair.py

prints one line per violation. `tests/unit/house/test_words.py` holds the whole package to it.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

# A first sentence begins with one of these (an order, or what the thing does), or has one of FINITE in it.
ORDERS = re.findall(
    r"\w+",
    """
accept account accumulate add adjust admit allocate allow answer append apply ask assemble assert assume attach audit
average bind bound bracket break bring build cache calibrate call cap carry cast centre certify change charge check
choose clean clear climb clip close collect combine commit compare compile complete compose compute condition confirm
connect contain continue convert copy correct count cover create cut decide declare decode decompose define delete
demand derive describe detect determine differentiate discard discretise display divide double drop draw dump edit
eliminate embed enclose encode end ensure enter enumerate estimate evaluate execute exit expand explain explore export
express extend extract factor feed fetch fill filter find finish fit fix flag flatten follow forbid force form format
freeze gather generate get give go grow guard guess halve handle hash hide hold identify ignore implement import include
increase index inflate insert install integrate interpolate interpret invert iterate join judge keep label lay leave
let lift limit link list load locate lock log look loop lower make map mark match maximise mean measure meet merge
minimise mix move multiply name narrow negate normalise note number observe obtain offer omit open orthogonalise pack
pad parse pass perform pick place plan plot point post prepare present print probe process produce project promise
prove provide publish pull push put raise randomise rank reach read rebuild receive recognise record reduce refer refine
reflect refuse refute register reject relabel release remember remove rename render repair repeat replace report
represent require reserve reset resolve respond restore restrict return reverse rewrite round run sample save say scale
scan score search seal see select send separate serve set shift short show shrink shuffle sign simplify simulate skip
smooth solve sort split square stack standardise start state stop store strip subtract suggest sum supply support swap
take tell test throw time total trace track train transform translate treat trim truncate try tune turn undo unpack
update use validate verify view visit wait walk warn watch weigh whiten widen work wrap write yield
""",
)
FINITE = re.findall(
    r"\w+",
    """
is are was were be has have had do does can cannot may must will would should need needs holds hold says say gives give
takes take makes make returns return contains contain keeps keep knows know means mean describes describe adds add
raises raise reads read writes write draws draw releases release refuses refuse bounds bound lies lie depends depend
costs cost counts count uses use comes come goes go runs run shows show differs differ equals equal proves prove
dominates dominate checks check computes compute carries carry decides decide lists list maps map tells tell belongs
belong exceeds exceed agrees agree becomes become starts start ends end fits fit turns turn grows grow falls fall stands
stand states state measures measure samples sample learns learn spends spend pays pay charges charge stores store opens
open evaluates evaluate encloses enclose certifies certify finds find solves solve covers cover changes change allows
allow supports support converts convert accepts accept implements implement provides provide represents represent
selects select sums sum produces produce answers answer lets let works work happens happen serves serve asks ask
""",
)
VERBS = {word for stem in ORDERS for word in (stem, stem + "s", stem + "es", re.sub("y$", "ies", stem))} | set(FINITE)

PHRASES = {
    r"\bbeside\b": "say 'compared with' or 'next to'",
    r"\b[Ww]hat (it|they) (is|are|was)\b": "name the thing",
    r"\bas (it|they) (is|are)\b": "say 'unchanged'",
    r"\bso many\b": "say 'this many', 'n' or 'the number of'",
    r"\b(within|out of|in) reach\b": "say 'can be computed' or 'fails'",
    r"\b(nobody|somebody|whoever)\b": "say who",
    r"\be-folds?\b": "say 'factor e' or 'in log units'",
    r"\btold\b": "say 'given', 'stated' or 'reported'",
    r"\bfeels?\b": "say 'depends on' or 'changes with'",
}
NAMES = {"found", "rest", "part", "reach", "room", "told", "_plain"}
OPENINGS = ("What", "Whether", "How", "Where", "As", "The same")


def sentences(doc: str) -> str:
    """Return the first sentence of a docstring, on one line."""
    paragraph = doc.strip().partition("\n\n")[0]
    line = " ".join(paragraph.split())
    return re.split(r"(?<=[.:!?])\s", line, maxsplit=1)[0]


def has_verb(sentence: str) -> bool:
    """Say if the sentence has a verb.

    >>> has_verb("Number of columns."), has_verb("Return the number of columns."), has_verb("The law is exact.")
    (False, True, True)
    """
    words = re.findall(r"[A-Za-z]+", sentence)
    if not words:
        return False
    noun = words[1:2] == ["of"]  # "Sum of squares" is no order
    return (words[0].lower() in VERBS and not noun) or any(word.lower() in FINITE for word in words[1:])


def violations(path: Path) -> Iterator[str]:
    """Yield what is wrong with the prose of one file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            doc = ast.get_docstring(node)
            if doc is None:
                continue
            name = getattr(node, "name", "module")
            line = getattr(node, "lineno", 1)
            first = sentences(doc)
            if not has_verb(first) or first.startswith(tuple(f"{word} " for word in OPENINGS)):
                yield f"{path}:{line}: {name}: not a plain sentence: {first}"
            for phrase, remedy in PHRASES.items():
                if match := re.search(phrase, doc):
                    yield f"{path}:{line}: {name}: {match[0]!r}: {remedy}"
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMES:
            yield f"{path}:{node.lineno}: the name {node.id!r} says nothing"
        if isinstance(node, ast.arg) and node.arg in NAMES:
            yield f"{path}:{node.lineno}: the name {node.arg!r} says nothing"
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if re.match(r"#\s*of\s", token.string):
                yield f"{path}:{token.start[0]}: a comment begins with 'of': {token.string}"
            for phrase, remedy in PHRASES.items():
                if match := re.search(phrase, token.string):
                    yield f"{path}:{token.start[0]}: {match[0]!r}: {remedy}"


def files(places: list[str]) -> list[Path]:
    """Return the Python files in these places."""
    paths = [Path(place) for place in places]
    return sorted(f for path in paths for f in (path.rglob("*.py") if path.is_dir() else [path]))


if __name__ == "__main__":
    lines = [line for path in files(sys.argv[1:]) for line in violations(path)]
    print("\n".join([*lines, f"{len(lines)} violations"]))
