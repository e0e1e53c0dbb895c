"""`python -m ndis` is the command `ndis`.

Nothing heavy is imported before `main` runs, so an interrupt finds its handler in place, however early it comes.
"""

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Entry point of the command; an interrupt ends it with one line and status 130."""
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
