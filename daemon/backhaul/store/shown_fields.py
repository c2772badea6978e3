"""The names and values that people and programs get for the fields of a record.

The command line and the HTTP API use the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from backhaul.store.read_records import EventDetail, JobStatus, ListedEvent

_SAME_NAME = {
    "instance": "connection",
    "target": "object_id",
    "looks": "checks",
    "by_hand": "decisions",
}
"""The fields of records that have another name in the output."""


def names_of(record: type[Struct]) -> dict[str, str]:
    """Return the shown name of each field that has another one."""
    if issubclass(record, ListedEvent | EventDetail):
        return _SAME_NAME | {"detail": "reason"}
    return _SAME_NAME


def fields(record: Struct) -> dict[str, Any]:
    """Return a record's fields, each under the name that it has everywhere."""
    names = names_of(type(record))
    return {names.get(name, name): value for name, value in asdict(record).items()}


def plain(value: object) -> object:
    """Return a value of a record as JSON has it; damaged text has U+FFFD in it."""
    if isinstance(value, Struct):
        value = fields(value)
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value


def job_row(
    key: tuple[str, str],
    when: str,
    rule: str | None,
    state: JobStatus | None,
    next_run_at: str | None,
) -> dict[str, Any]:
    """Return a job, named by `key`, with its schedule, last run and next run."""
    return {
        "job": key[0],
        "store": key[1],
        "when": when,
        "rule": rule,
        "paused_at": state and state.paused_at,
        "outcome": state and state.outcome,
        "detail": state and state.detail,
        "last_run_at": state and state.started_at,
        "trigger": state and state.trigger,
        "next_run_at": next_run_at,
    }


def shape(name: str, record: type[Struct], **more: Any) -> type[Struct]:
    """Return the type of what `plain` makes of a record, with `more` fields."""
    names = names_of(record)
    found = {
        names.get(each.name, each.name): _plain_type(each.type)
        for each in msgspec.structs.fields(record)
    }
    return msgspec.defstruct(
        name,
        [*(found | more).items()],
        namespace={"__doc__": record.__doc__},
    )


def _plain_type(found: Any) -> Any:
    """Return the type of a field in JSON: text for bytes, a shape for a record."""
    if found is bytes:
        return str
    if isinstance(found, type) and issubclass(found, Struct):
        return shape(found.__name__, found)
    arguments = tuple(map(_plain_type, get_args(found)))
    if not arguments:
        return found
    origin = get_origin(found)
    if origin in {Sequence, list, tuple}:
        return _list_of(arguments[0])
    if origin is dict:
        return found
    made = arguments[0]
    for each in arguments[1:]:
        made = made | each
    return made


def _list_of(item: Any) -> Any:
    """Return the type of a list; a variable is no type to a type checker."""
    return list.__class_getitem__(item)
