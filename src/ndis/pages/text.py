"""Write for readers: numbers in few digits, rounded to the side on which a sentence stays true, and tables."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

MINUS = "\u2212"  # as wide as a plus sign
_SPACE = "\u00a0"  # no line ends at this space

_DIGITS = 4
_EXACT = 800  # more digits than a float has
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def plain(x: float) -> str:
    """Write a float in the fewest digits that read back as the same float.

    >>> plain(1e-6), plain(2.5e-07), plain(0.1), plain(3.0), plain(math.inf)
    ('10⁻⁶', '2.5 × 10⁻⁷', '0.1', '3', 'infinity')
    """
    return _write(Decimal(repr(float(x)))) if math.isfinite(x) else _not_finite(x)


def few(x: float, digits: int = 6) -> str:
    """Round a float to a few digits.

    >>> few(-1.23456789e-05), few(2 / 3, 4), few(12.0)
    ('−1.23457 × 10⁻⁵', '0.6667', '12')
    """
    return _write(Context(prec=digits).create_decimal(Decimal(float(x)))) if math.isfinite(x) else _not_finite(x)


def equation(name: str, x: float) -> str:
    """Write name and value on one line.

    >>> equation("δ", 1e-6).replace("\\u00a0", " ")
    'δ = 10⁻⁶'
    """
    return f"{name} = {plain(x)}".replace(" ", _SPACE)


def promise(epsilon: float, delta: float) -> str:
    """Say what (ε, δ)-differential privacy promises about one record.

    >>> promise(1.0, 1e-6)
    'one record makes no result more than 2.719 times as likely, up to an extra chance of 10⁻⁶'
    """
    times = at_most(math.exp(epsilon) if epsilon < 700.0 else math.inf)  # a larger power of e is no float
    extra = f", up to an extra chance of {plain(delta)}" if delta else ""
    return f"one record makes no result more than {times} times as likely{extra}"


def at_least(x: float, *, above: float | None = None) -> str:
    """Round a number down to four digits, or to as many as still show that it is above another.

    >>> at_least(0.123456), at_least(1.000004e-06, above=1e-06)
    ('0.1234', '1.000004 × 10⁻⁶')
    """
    return _rounded(x, ROUND_FLOOR, above)


def at_most(x: float, *, below: float | None = None) -> str:
    """Round a number up to four digits, or to as many as still show that it is below another.

    >>> at_most(0.123456), at_most(0.9999996e-06, below=1e-06)
    ('0.1235', '9.999996 × 10⁻⁷')
    """
    return _rounded(x, ROUND_CEILING, below)


def stated(x: float) -> str:
    """Write a stated number: in full if it is short, and otherwise rounded up to four digits.

    >>> stated(0.4), stated(0.1892131727264512)
    ('0.4', '0.1893')
    """
    return min(plain(x), at_most(x), key=len)


def several(count: int, noun: str) -> str:
    """Write a count with its noun.

    >>> several(1, "pair"), several(12_000, "pair")
    ('1 pair', '12,000 pairs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def unbroken(text: str) -> str:
    """Return text in which no line ends inside a number, an equation or a term of a formula.

    >>> unbroken("z > 1.5 − 0.2 z₁ at ε = 10⁻⁶").replace("\\u00a0", "_")
    'z_>_1.5 −_0.2_z₁ at ε_=_10⁻⁶'
    """
    text = re.sub(r" ([=<>≤×]) ", rf"{_SPACE}\1{_SPACE}", text)
    return re.sub(rf"(?<= [{MINUS}+]) (?=\d)|(?<=[\d⁰¹²³⁴-⁹]) (?=Σ?z)", _SPACE, text)


def superscript(power: int) -> str:
    """Write an exponent.

    >>> superscript(-12)
    '⁻¹²'
    """
    return str(power).translate(_RAISED)


def _rounded(x: float, rounding: str, other: float | None) -> str:
    """Write a number rounded to one side, with enough digits to stay on its side of another number."""
    if not math.isfinite(x):
        return _not_finite(x)
    value = Decimal(x)
    limit = Decimal(repr(float(other))) if other is not None and math.isfinite(other) else value
    digits = _DIGITS
    while True:
        shown = Context(prec=digits, rounding=rounding).create_decimal(value)
        on_its_side = shown > limit if rounding == ROUND_FLOOR else shown < limit
        apart = value > limit if rounding == ROUND_FLOOR else value < limit
        if on_its_side or not apart or digits == _EXACT:
            return _write(shown)
        digits += 1


def _write(value: Decimal) -> str:
    """Write plain digits from 10⁻⁴ to a million; outside that range with a power of ten."""
    if value < 0:
        return MINUS + _write(-value)
    if value == 0:
        return "0"
    power = value.adjusted()
    short = -4 <= power < 6
    text = f"{value if short else value.scaleb(-power):f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    ten = f"10{superscript(power)}"
    return text if short else ten if text == "1" else f"{text} × {ten}"


def _not_finite(x: float) -> str:
    return "not a number" if math.isnan(x) else "infinity" if x > 0 else "minus infinity"


# ---------------------------------------------------------------------- tables


def printable(text: str) -> str:
    """Escape every character that is not printable: a name could move the cursor, or write a line of its own.

    >>> printable("a\\x1b[2J\\nb é")
    'a\\\\x1b[2J\\\\nb é'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def text_table(title: str, cells: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """Return a title, a header and rows with the first column to the left and all others to the right, then notes.

    >>> print(text_table("Trees", [["", "height"], ["oak", "20"]], ["in metres"]))
    Trees
         height
    oak      20
    in metres
    """
    cells = [[printable(text) for text in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        aligned = [first.ljust(widths[0]), *(text.rjust(width) for text, width in zip(others, widths[1:], strict=True))]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join([title, *lines, *notes])
