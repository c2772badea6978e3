"""Writes docs/backhaul.1 from the tree of commands."""

from __future__ import annotations

import inspect
from enum import EnumType
from typing import TYPE_CHECKING, Any, TypeAlias

from typer.main import get_command

from backhaul.cli import exit_codes
from backhaul.cli.root import app
from backhaul.errors import BackhaulError, ConfigurationError, CorruptData, PortInUse

if TYPE_CHECKING:
    from collections.abc import Iterator


Command: TypeAlias = Any
Parameter: TypeAlias = Any
"""Typer brings its own click, which it does not show."""

HEAD = """\
.\\" Written from the commands: change the code, then UPDATE_DOCS=1 pytest tests/docs
.TH BACKHAUL 1 "" "" "Backhaul"
.SH NAME
backhaul \\- {about}
.SH SYNOPSIS
.B backhaul
.I command
[\\fIoption\\fR ...] [\\fIargument\\fR ...]
"""
CODES = {
    0: "It was done.",
    exit_codes.FAILED: "It failed, or was refused; the reason is on standard error.",
    2: "The command line cannot be understood.",
    CorruptData.exit_code: "The database is damaged, or a newer version made it.",
    PortInUse.exit_code: "The platform does not answer, or a port is taken.",
    exit_codes.BUG: "A bug.",
    exit_codes.TEMPORARY: "Not now; try again.",
    exit_codes.PERMISSION: "A file may not be opened.",
    ConfigurationError.exit_code: "The configuration cannot be used.",
    exit_codes.INTERRUPTED: "Interrupted.",
}
FILES = {
    "./backhaul.toml, /etc/backhaul/backhaul.toml": "The configuration, where neither "
    "--config nor $BACKHAUL_CONFIG names another.",
    "state_dir/backhaul.db": "The database.",
    "state_dir/backhaul.sock": "The daemon's own socket, for its user alone.",
}
COMPLETION = (
    "backhaul --install-completion sets it up for the shell that runs; "
    "--show-completion prints what it would add."
)


def page() -> str:
    """Return the whole page, as troff."""
    root = get_command(app)
    parts = [HEAD.format(about=_text(root.help or "").rstrip("."))]
    parts += [".SH OPTIONS\n", *map(_parameter, root.params)]
    parts += [".SH COMMANDS\n"]
    parts += [_command(path, command) for path, command in leaves(root)]
    parts += [".SH FILES\n", *(_entry(name, told) for name, told in FILES.items())]
    parts += [".SH EXIT STATUS\n"]
    parts += [_entry(str(code), told) for code, told in sorted(CODES.items())]
    parts += [f".SH COMPLETION\n{_text(COMPLETION)}\n"]
    return "".join(parts)


def leaves(
    command: Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, Command]]:
    """Yield every listed command, by its words; hidden aliases are left out."""
    below: dict[str, Command] = getattr(command, "commands", {})
    if not below:
        yield " ".join(path), command
    for name, each in below.items():
        if not each.hidden:
            yield from leaves(each, (*path, name))


def codes() -> set[int]:
    """Return every code that the program can end with, by its errors."""
    kinds = [BackhaulError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    fatal = {getattr(kind, "exit_code", exit_codes.FAILED) for kind in kinds}
    return fatal | {
        exit_codes.BUG,
        exit_codes.TEMPORARY,
        exit_codes.PERMISSION,
        exit_codes.INTERRUPTED,
    }


def _command(path: str, command: Command) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    usage = " ".join([path, *(_argument(each) for each in arguments)])
    told = _text(inspect.cleandoc(command.help or ""))
    head = f".SS {_text(usage)}\n{told}\n"
    return head + "".join(map(_parameter, options)) + _examples(command)


def _examples(command: Command) -> str:
    """Return the examples at the end of a command's help, set as they are typed."""
    title, *lines = (command.epilog or "").splitlines() or [""]
    if not title:
        return ""
    typed = _text("\n".join(line.strip() for line in lines))
    return f".PP\n{title}\n.PP\n.RS 4\n.nf\n{typed}\n.fi\n.RE\n"


def _argument(each: Parameter) -> str:
    name = (each.metavar or each.name or "").upper().strip("[]")
    return name if each.required else f"[{name}]"


def _parameter(each: Parameter) -> str:
    names = [*each.opts, *each.secondary_opts]
    told = str(getattr(each, "help", None) or "")
    if words := _words(each):
        told = f"{told} One of {', '.join(words)}."
    takes = "" if getattr(each, "is_flag", False) else f" {_metavar(each)}"
    return _entry(f"{', '.join(names)}{takes}", told)


def _words(each: Parameter) -> list[str]:
    """Return the words that an option takes, where it takes no others."""
    takes = getattr(getattr(each, "type_descriptor", None), "annotation", None)
    return list(takes) if isinstance(takes, EnumType) else []


def _metavar(each: Parameter) -> str:
    return str(each.metavar or each.name).upper()


def _entry(name: str, told: str) -> str:
    return f".TP\n\\fB{_text(name)}\\fR\n{_text(told)}\n"


def _text(text: str) -> str:
    """Write text so that troff takes none of it for a command."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines() or [""]
    lines = [_ascii(line) for line in lines]
    return "\n".join(f"\\&{line}" if line[:1] in {".", "'"} else line for line in lines)


def _ascii(line: str) -> str:
    return "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in line)
