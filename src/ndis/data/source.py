"""Names of the reader before `open_table`; they go when their last callers are switched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ndis.data.table import Groups, Parts, Table, choose_columns

__all__ = ["Groups", "Parts", "Source", "choose_columns"]


class Source(Table):
    """A table of numbers."""

    def __init__(
        self,
        width: int,
        read: Callable[[Groups], Iterator[Parts]],
        names: tuple[str, ...] = (),
        refused: Mapping[int, str] | None = None,
        target_width: int = 0,
        device: str | None = None,
    ) -> None:
        kinds = (frozenset({"number"}),) * width
        super().__init__(kinds, lambda wanted: iter(()), read, names, target_width, device)
