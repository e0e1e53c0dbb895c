"""`python -m ndis` is the command `ndis`."""

from ndis.cli import main

if __name__ == "__main__":
    main()
