"""Run the benchmarks named on the command line, or all of them."""

from __future__ import annotations

import importlib
import importlib.util
import sys

NAMES = (
    "spectrum",
    "accounting",
    "risk",
    "engine",
    "projection",
    "audit",
    "regression",
    "classification",
    "coverage",
    "passes",
)


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"names must be among {', '.join(NAMES)}; got {', '.join(unknown)}", file=sys.stderr)
        return 2
    for name in names or NAMES:
        if importlib.util.find_spec(f"benchmarks.{name}") is None:
            print(f"{name}: not in this checkout")
            continue
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
