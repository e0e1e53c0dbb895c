"""`ndis audit` in this process, and the claim files that its tests write."""

from __future__ import annotations

import json
from functools import partial

from helpers import command

LOUD = {"mean_p": [0.0, 1.0], "var_p": [1.0, 1.0], "mean_q": [0.0, 0.0], "var_q": [1.0, 1.0]}
QUIET = {"variance_ratio": 1.001, "copies": 10}
CLAIM = {"epsilon": 1.0, "delta": 1e-6}


run = partial(command.run, "audit")
refused = partial(command.refused, "audit")


def ended(status: int, *args: object) -> str:
    result = run(*args)
    assert result.exit_code == status, result.output
    return result.stdout


passed, convicted = partial(ended, 0), partial(ended, 1)


def write(content: object, name: str = "claim.json") -> str:
    with open(name, "w") as file:
        json.dump(content, file)
    return name
