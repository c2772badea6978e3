"""Writes docs/configuration.md from the models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from backhaul.settings import Job, Jobs, Settings
from backhaul.settings.jobs import StoreJob
from backhaul.settings.sources import ANY_NAME, is_list, is_named, is_secret, section_of
from backhaul.settings.values import (
    check_base_url,
    duration_text,
    parse_delays,
    parse_duration,
    parse_quiet,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

Model = type[BaseModel]
SENDING_JOBS = "the jobs that send commands; for the other jobs, see the list above"
WORDS = {bool: "true or false", int: "whole number", float: "number", Path: "path"}

INTRODUCTION = """\
# Configuration

<!-- Written from the models: change the code, then UPDATE_DOCS=1 pytest tests/docs -->

On this page you find every setting with its meaning and its default. You also learn
how to give settings and secrets to Backhaul. The [glossary](glossary.md) explains the
words.

The configuration is one TOML file. Backhaul uses the first of these files:

1. the file that you give with `--config`;
2. the file in the environment variable `$BACKHAUL_CONFIG`;
3. `./backhaul.toml`, if this file exists;
4. `/etc/backhaul/backhaul.toml`.

`config/backhaul.example.toml` shows every setting. `backhaul check-config` reports all
mistakes in the configuration, and exits with code 78 if there are mistakes.

**Completion in an editor.** `backhaul check-config --schema > backhaul.schema.json`
writes the JSON Schema of the configuration, with all installed connectors. Then begin
the configuration with this line:

```toml
#:schema ./backhaul.schema.json
```

An editor that knows TOML schemas (such as Visual Studio Code with the extension Even
Better TOML) then completes settings, shows what they mean, and marks mistakes.

**Environment.** You can also give every setting in an environment variable. The name of
the variable is `BACKHAUL_` and the full name of the setting, in capital letters, with
`__` in place of each dot. An example is `BACKHAUL_STORES__MAIN__BASE_URL`. Write a list
with commas between the entries, or as JSON. If all settings are in variables, you need
no file. Any other variable whose name begins with `BACKHAUL_` is an error, with
two exceptions:

- `BACKHAUL_CONFIG` is the path of the configuration file.
- `BACKHAUL_WEBHOOK_SECRET` is the secret with which `backhaul trigger` and
  `backhaul replay` sign webhooks.

The reference server has variables of its own, such as `BACKHAUL_REFERENCE_SMTP_USER`.
Set them only for `backhaul reference`: for all other commands they are an error.

**Secrets.** You can give a secret in three places. Backhaul searches them in this
order, and uses the first secret that it finds:

1. the environment: `BACKHAUL_STORES__MAIN__API_KEY`, or
   `BACKHAUL_STORES__MAIN__API_KEY_FILE` with the path of a file;
2. a systemd credential: the file `$CREDENTIALS_DIRECTORY/stores_main_api_key`. Its name
   is the full name of the setting with `_` in place of each dot;
3. the configuration file: the setting itself (such as `api_key`), or a setting with
   `_file` (such as `api_key_file`) that contains the path of a file with the secret.

The URL of a PostgreSQL database is a secret, because it may contain a password. If
you set `database.url` in none of these places, Backhaul reads the variable
`DATABASE_URL`. Backhaul uses the value of this variable only if it begins with
`postgresql://` or `postgres://`.

Rules for secrets:

- If a setting is a list of secrets, its file contains one secret per line.
- Backhaul rejects the file of a `_file` setting if other users can read the file. Use
  `chmod 600`. This rule does not apply to systemd credentials.
- If the configuration file itself contains secrets and other users can read it,
  `check-config` only shows a warning.
- It is an error to set both `api_key` and `api_key_file` in the configuration file, or
  both in the environment. The same is true for every other secret.

**Values.** A duration is text with a unit: `"250ms"`, `"5s"`, `"2m"`, `"1h"`, `"1d"`.
The name of a store or connection can contain `a-z`, `0-9` and `_`. A relative path
starts at the working directory of the daemon.
"""


def page() -> str:
    """Return the whole page."""
    return "\n".join([INTRODUCTION, *_sections("", Settings)])


def _sections(key: str, model: Model) -> Iterator[str]:
    if model is Jobs:
        yield from _jobs()
        return
    if model is StoreJob:
        yield f"## `[{key}]`\n\n{' '.join((StoreJob.__doc__ or '').split())}\n"
        return
    fields = model.model_fields
    plain = {name: f for name, f in fields.items() if not section_of(f.annotation)}
    if plain:
        yield _section(f"[{key}]" if key else "Top level", model, plain)
    for name, info in fields.items():
        if inner := section_of(info.annotation):
            suffix = f".{ANY_NAME}" if is_named(info.annotation) else ""
            yield from _sections(f"{key}.{name}{suffix}".lstrip("."), inner)


def _jobs() -> Iterator[str]:
    fields = Jobs.model_fields
    names = "".join(f"- `{name}`: {f.description}\n" for name, f in fields.items())
    section = _section(f"[jobs.{ANY_NAME}]", Job, Job.model_fields)
    default = f"`{default_text(Job.model_fields['every'])}`"
    section = section.replace(default, f"{default} for {SENDING_JOBS}", 1)
    yield section.replace("\n\n|", f" The names are fixed:\n\n{names}\n|", 1)
    names_of: dict[Model, list[str]] = {}
    for name, field in fields.items():
        own = section_of(field.annotation)
        assert own is not None
        names_of.setdefault(own, []).append(name)
    for own, names_ in names_of.items():
        more = own.model_fields.keys() - Job.model_fields.keys()
        if more:
            shown = {key: f for key, f in own.model_fields.items() if key in more}
            title = "`, `".join(f"[jobs.{name}]" for name in names_)
            yield _section(title, own, shown)


def _section(title: str, model: Model, fields: dict[str, FieldInfo]) -> str:
    rows = "".join(_row(name, info) for name, info in fields.items())
    heading = f"## {title}" if title == "Top level" else f"## `{title}`"
    about = "" if model is Settings else f"{sentence(model)}\n\n"
    return (
        f"{heading}\n\n{about}"
        f"| Setting | Value | Default | Meaning |\n|---|---|---|---|\n{rows}"
    )


def sentence(model: Model) -> str:
    """Return the first paragraph of the model's docstring on one line."""
    return " ".join((model.__doc__ or "").split("\n\n")[0].split())


def _row(name: str, info: FieldInfo) -> str:
    setting = f"`{name}`" + (f", `{name}_file`" if is_secret(info) else "")
    default = f"`{default_text(info)}`" if default_text(info) else _no_default(info)
    return f"| {setting} | {kind(info)} | {default} | {info.description} |\n"


def _no_default(info: FieldInfo) -> str:
    return "required" if info.is_required() else "none"


def default_text(info: FieldInfo) -> str:
    """Return the default as the file would have it; empty if there is none."""
    default = info.default
    if default is None or default is PydanticUndefined:
        return ""
    if isinstance(default, SecretStr):
        return json.dumps(default.get_secret_value())
    if is_duration(info):
        return f'"{duration_text(default)}"'
    if _checked_by(info, parse_delays):
        return json.dumps([duration_text(seconds) for seconds in default])
    return json.dumps(str(default) if isinstance(default, Path) else default)


def is_duration(info: FieldInfo) -> bool:
    return _checked_by(info, parse_duration)


def _checked_by(info: FieldInfo, check: object) -> bool:
    """Tell whether the field, or what it may hold besides none, is checked so."""
    inner = [getattr(kind, "__metadata__", ()) for kind in get_args(info.annotation)]
    checks = [*info.metadata, *(check for each in inner for check in each)]
    return any(getattr(each, "func", None) is check for each in checks)


def kind(info: FieldInfo) -> str:
    """Return in words what kind of value the field takes."""
    if is_secret(info):
        return "list of secrets" if is_list(info) else "secret"
    if is_duration(info):
        return "duration"
    if _checked_by(info, parse_delays):
        return "list of durations"
    if _checked_by(info, check_base_url):
        return "http(s) address"
    annotation = info.annotation
    if get_origin(annotation) is Literal:
        return ", ".join(f'`"{value}"`' for value in get_args(annotation))
    for type_, word in WORDS.items():
        if type_ in _types(annotation):
            return ", ".join([word, *_bounds(info)])
    if _checked_by(info, parse_quiet):
        return "text or list of texts"
    return "list of texts" if is_list(info) else "text"


def _types(annotation: Any) -> set[Any]:
    """Return the annotation, or what its union is made of, without Annotated."""
    kinds = get_args(annotation) or (annotation,)
    return {getattr(kind, "__origin__", kind) for kind in kinds}


def _bounds(info: FieldInfo) -> list[str]:
    metadata = info.metadata
    return [
        *(f"at least {each.ge}" for each in metadata if isinstance(each, Ge)),
        *(f"more than {each.gt}" for each in metadata if isinstance(each, Gt)),
        *(f"at most {each.le}" for each in metadata if isinstance(each, Le)),
    ]
