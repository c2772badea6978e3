"""Finds fields and tables of the models by their dotted key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, get_args, get_origin

from pydantic import BaseModel, SecretStr

from backhaul.settings.schema import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

Path: TypeAlias = tuple[str, ...]
Model: TypeAlias = type[BaseModel]

ANY_NAME = "NAME"
"""Stands in a path for the name that the operator chooses."""


def section_of(annotation: Any) -> Model | None:
    """Return the model of a field that is a table, or a table of named tables."""
    kind = get_args(annotation)[1] if is_named(annotation) else annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def is_named(annotation: Any) -> bool:
    return get_origin(annotation) is dict


def section_at(path: Path, model: Model = Settings) -> Model | None:
    """Return the model of the table at `path`; None for a table of named tables."""
    if not path:
        return model
    info = model.model_fields.get(path[0])
    if info is None or (section := section_of(info.annotation)) is None:
        return None
    rest = path[1:]
    if is_named(info.annotation):
        return section_at(rest[1:], section) if rest else None
    return section_at(rest, section)


def leaf_at(path: Path, model: Model = Settings) -> FieldInfo | None:
    """Return the field at `path`, unless it is a table or unknown."""
    if not path:
        return None
    section = section_at(path[:-1], model)
    info = section.model_fields.get(path[-1]) if section else None
    return info if info and section_of(info.annotation) is None else None


def leaves(model: Model = Settings) -> Iterator[tuple[Path, FieldInfo]]:
    """Yield every field that is no table, with `ANY_NAME` for names."""
    for name, info in model.model_fields.items():
        section = section_of(info.annotation)
        if section is None:
            yield (name,), info
            continue
        head = (name, ANY_NAME) if is_named(info.annotation) else (name,)
        yield from ((head + path, leaf) for path, leaf in leaves(section))


def is_list(info: FieldInfo) -> bool:
    return get_origin(info.annotation) is tuple


def is_secret(info: FieldInfo) -> bool:
    """Tell whether the field holds a secret, or several."""
    kind = get_args(info.annotation)[0] if is_list(info) else info.annotation
    parts = (kind, *get_args(kind))
    return SecretStr in {getattr(part, "__origin__", part) for part in parts}


def secret_names(section: Model) -> list[str]:
    return [name for name, info in section.model_fields.items() if is_secret(info)]
