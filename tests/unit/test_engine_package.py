"""The engine as a package: light imports, and documentation that runs."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np

from helpers.places import ROOT


def test_importing_the_gram_engine_brings_no_optional_package() -> None:
    heavy = ["flint", "pyarrow", "pandas", "polars", "dask", "torch", "sklearn", "rich"]
    code = f"import sys, ndis.gram; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_examples_of_the_documentation_run() -> None:
    text = (ROOT / "docs" / "release-engine.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    elsewhere = ("rows/", "Client")  # a folder, a cluster or a device that is not here
    here = [block for block in blocks if not any(word in block for word in elsewhere)]
    assert len(here) == 5
    names: dict[str, object] = {}
    for block in here:
        exec(compile(block, "release-engine.md", "exec"), names)
    parts = names["parts"]
    whole = names["exact_gram"](names["rows"], row_norm_bound=5.0)  # type: ignore[operator]
    assert parts[0].finish() == whole  # type: ignore[index]
    np.testing.assert_allclose(names["gram"].layout.joint_norm_bound, np.sqrt(35))  # type: ignore[attr-defined]
