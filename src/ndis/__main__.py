"""Run the command `ndis`, as `python -m ndis` too.

Nothing heavy is imported before `main` runs, so it answers an interrupt that comes while Python imports the rest.
"""

import os
import sys


def main() -> None:
    """Run the command; an interrupt ends it with one line and status 130."""
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # the workers of an audit do not search the current folder either
    try:
        from ndis.cli import main as run

        run()
    except KeyboardInterrupt:
        print("ndis: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
        del sys.path[0]  # `python -m` put the current folder first; the command `ndis` runs nothing that lies there
    main()
