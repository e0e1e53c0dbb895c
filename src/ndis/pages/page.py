"""Write a report as a page or as JSON, and show it in a notebook."""

from __future__ import annotations

import html
import json
import os
from typing import Any

from ndis._files import write_file
from ndis.errors import ParameterError


class Page:
    """A report that states its plain values and its page can be saved and shown."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        raise NotImplementedError

    def to_html(self) -> str:
        """Write one page that loads nothing."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Write JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=2)

    def _repr_html_(self) -> str:
        """Put the page in a frame of its own, for notebooks."""
        style = "width: 100%; height: 40rem; border: 0"
        return f'<iframe srcdoc="{html.escape(self.to_html())}" sandbox style="{style}"></iframe>'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page that needs no other file if the path ends in .html, and JSON if it ends in .json."""
        ending = os.path.splitext(os.fspath(path))[1].lower()
        if ending not in (".html", ".json"):
            raise ParameterError("path", "end in .html or .json", repr(os.fspath(path)))
        text = self.to_html() if ending == ".html" else self.to_json()
        write_file(path, text.encode("utf-8"), name="path")
