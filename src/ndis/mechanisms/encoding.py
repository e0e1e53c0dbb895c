"""What a release does with a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.schema import Schema

__all__ = ["encoded_data"]


def encoded_data(schema: Schema | None, data: Any, how: dict[str, Any], *, target: bool) -> tuple[Any, dict[str, Any]]:
    """The data as the schema encodes them, if there is one, and what is left to say to `ndis.gram.exact_gram`."""
    if schema is None:
        return data, how
    if how["targets"] is not None:
        raise ParameterError("targets", "be left out with a schema, which names its target", "targets")
    table = schema.table(data, target=target, columns=how["columns"], header=how["header"])
    return table, how | {"columns": None, "header": False, "targets": [schema.needed_target()] if target else None}
