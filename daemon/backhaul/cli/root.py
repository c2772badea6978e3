"""The command `backhaul`: its subcommands, each from the module of its name."""

from backhaul.cli import listings
from backhaul.cli.asking import export, query
from backhaul.cli.backups import backup, migrate, restore
from backhaul.cli.commands import commands
from backhaul.cli.configuration import check_config
from backhaul.cli.connectors import connectors
from backhaul.cli.deciding import drop, park, resend, settle
from backhaul.cli.demo import demo
from backhaul.cli.doctor import doctor
from backhaul.cli.forgetting import forget
from backhaul.cli.incidents import incidents
from backhaul.cli.jobs import jobs
from backhaul.cli.program import program
from backhaul.cli.quarantining import correct, drop_row, edit, retry
from backhaul.cli.reconciling import backfill, reconcile
from backhaul.cli.refolding import refold
from backhaul.cli.running import reference, run
from backhaul.cli.search import search
from backhaul.cli.secrets import secrets
from backhaul.cli.status import status
from backhaul.cli.support_bundle import support_bundle
from backhaul.cli.targets import targets
from backhaul.cli.traffic import capture, replay, trigger
from backhaul.cli.users import users
from backhaul.cli.why import why

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
listings.events.command("refold")(refold)
app.add_typer(listings.events, name="events")
for verb in (settle, park, resend, drop):
    commands.command(verb.__name__)(verb)
app.add_typer(commands, name="commands")
listings.quarantine.command("edit")(edit)
listings.quarantine.command("retry")(retry)
listings.quarantine.command("correct")(correct)
listings.quarantine.command("drop")(drop_row)
app.add_typer(listings.quarantine, name="quarantine")
app.add_typer(connectors, name="connectors")
app.add_typer(incidents, name="incidents")
app.add_typer(jobs, name="jobs")
app.add_typer(secrets, name="secrets")
app.add_typer(targets, name="targets")
app.add_typer(users, name="users")
