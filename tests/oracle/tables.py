"""Tables of the oracles: their numbers as text, their files, and the run that makes one."""

import argparse
import json
import sys
import time
from pathlib import Path

from flint import arb, ctx

DATA = Path(__file__).parent / "data"


def text(value):
    if value is None:
        return "-inf"
    if value == 0:
        return "0"
    assert abs(value) > 0
    assert value.rad() < abs(value.mid()) * arb("1e-27"), value
    return value.mid().str(25, radius=False)


def write(name, about, cases):
    lines = ",\n".join(json.dumps(case) for case in cases)
    (DATA / name).write_text(f'{{"about": {json.dumps(about)},\n"cases": [\n{lines}\n]}}\n')


def number(cases):
    return [{"id": f"{i:03d}-{case['kind']}"} | case for i, case in enumerate(cases)]


def make(doc, name, about, wishes, solve, shown, check_given):
    """Solve every case and write the table, unless two computations disagree on one; or check the given table."""
    parser = argparse.ArgumentParser(description=doc.split("\n", 1)[0])
    parser.add_argument("--check-given", action="store_true")
    parser.add_argument("--only", default="", help="kinds to try without writing, comma-separated")
    options = parser.parse_args()
    ctx.prec = 240
    if options.check_given:
        check_given()
        return
    done, failed = [], 0
    for case in number(wishes()):
        if options.only and case["kind"] not in options.only.split(","):
            continue
        start = time.perf_counter()
        try:
            done.append(solve(case))
        except ArithmeticError as error:
            failed += 1
            print(case["id"], "REFUSED", error, flush=True)
            continue
        print(case["id"], *shown(done[-1]), f"{time.perf_counter() - start:.1f} s", flush=True)
    if failed:
        sys.exit(f"{failed} cases refused: nothing written")
    if not options.only:
        write(name, about, done)
