"""The command `backhaul` with all its subcommands."""

from backhaul.cli import events
from backhaul.cli.backups import backup, migrate, restore
from backhaul.cli.commands import (
    commands,
    drop,
    incidents,
    park,
    resend,
    settle,
    targets,
)
from backhaul.cli.connectors import connectors
from backhaul.cli.context import program
from backhaul.cli.customer_erasure import forget
from backhaul.cli.doctor import check_config, doctor, support_bundle
from backhaul.cli.events import correct, drop_row, edit, refold, retry
from backhaul.cli.jobs import jobs
from backhaul.cli.query import export, query
from backhaul.cli.reconcile import backfill, reconcile
from backhaul.cli.run import demo, reference, run
from backhaul.cli.search import search, why
from backhaul.cli.secrets import secrets
from backhaul.cli.status import status
from backhaul.cli.traffic import capture, replay, trigger
from backhaul.cli.users import users

app = program()
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

app.command("demo")(demo)
app.command("run")(run)
app.command("reference", context_settings=_PASSED_ON, add_help_option=False)(reference)
app.command("check-config")(check_config)
app.command("doctor")(doctor)
app.command("status")(status)
app.command("support-bundle")(support_bundle)
app.command("backfill")(backfill)
app.command("reconcile")(reconcile)
app.command("why")(why)
app.command("search")(search)
app.command("query")(query)
app.command("export")(export)
app.command("capture")(capture)
app.command("replay")(replay)
app.command("trigger")(trigger)
app.command("backup")(backup)
app.command("restore")(restore)
app.command("migrate")(migrate)
app.add_typer(forget, name="forget")
events.events.command("refold")(refold)
app.add_typer(events.events, name="events")
for verb in (settle, park, resend, drop):
    commands.command(verb.__name__)(verb)
app.add_typer(commands, name="commands")
events.quarantine.command("edit")(edit)
events.quarantine.command("retry")(retry)
events.quarantine.command("correct")(correct)
events.quarantine.command("drop")(drop_row)
app.add_typer(events.quarantine, name="quarantine")
app.add_typer(connectors, name="connectors")
app.add_typer(incidents, name="incidents")
app.add_typer(jobs, name="jobs")
app.add_typer(secrets, name="secrets")
app.add_typer(targets, name="targets")
app.add_typer(users, name="users")
