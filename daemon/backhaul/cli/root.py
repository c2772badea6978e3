"""The command `backhaul` with all its subcommands."""

from backhaul.cli.backups import backup, migrate, restore
from backhaul.cli.commands import (
    commands,
    discard,
    incidents,
    park,
    resend,
    resolve_command,
)
from backhaul.cli.connectors import connectors, records
from backhaul.cli.context import example, program
from backhaul.cli.customer_erasure import customers, forget
from backhaul.cli.deliveries import deliveries
from backhaul.cli.doctor import check_config, doctor, support_bundle
from backhaul.cli.events_and_quarantine import (
    correct,
    discard_rows,
    edit,
    events,
    quarantine,
    reprocess,
    retry,
)
from backhaul.cli.file_preview import presets, preview
from backhaul.cli.init import init
from backhaul.cli.jobs import jobs
from backhaul.cli.mappings import mappings
from backhaul.cli.quarantined_row import show_quarantined
from backhaul.cli.query import export, query, search, why
from backhaul.cli.reconcile import backfill, reconcile
from backhaul.cli.run import EXAMPLE, demo, reference, run
from backhaul.cli.secrets import secrets
from backhaul.cli.status import status
from backhaul.cli.stock import stock, targets
from backhaul.cli.tokens import tokens
from backhaul.cli.traffic import capture, listen, replay, trigger
from backhaul.cli.users import users

app = program()
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


app.command("demo", epilog=example("demo", "demo --once --orders 50"))(demo)
app.command(
    "init", epilog=example("init", "init --url https://shop.example --key-file key")
)(init)
app.command("run", epilog=EXAMPLE)(run)
app.command(
    "reference",
    context_settings=_PASSED_ON,
    add_help_option=False,
    epilog=example("reference --data ./shop --fixture demo"),
)(reference)
app.command("check-config")(check_config)
app.command("doctor", epilog=example("doctor", "doctor --deep"))(doctor)
app.command("status", epilog=example("status", "status --watch"))(status)
app.command("support-bundle", epilog=example("support-bundle help.tar.gz"))(
    support_bundle
)
app.command("backfill", epilog=example("backfill --kind orders"))(backfill)
app.command("reconcile", epilog=example("reconcile --dry-run"))(reconcile)
app.command("why", epilog=example("why order 1001", "why sku LAMP-1"))(why)
app.command("search", epilog=example("search asha", "search lamp --kind product"))(
    search
)
app.command(
    "query", epilog=example('query "SELECT sku, stock FROM stock ORDER BY stock"')
)(query)
app.command("export", epilog=example("export orders --out orders.csv"))(export)
app.command(
    "capture", epilog=example("capture incident.jsonl --since 2026-03-01T08:00Z")
)(capture)
app.command(
    "replay", epilog=example("replay incident.jsonl --shuffle 7 --duplicate 0.2")
)(replay)
app.command(
    "listen",
    epilog=example("listen", "listen --forward-to http://127.0.0.1:8080/webhooks"),
)(listen)
app.command(
    "trigger",
    epilog=example("trigger orders/create --to http://127.0.0.1:8080/webhooks/main"),
)(trigger)
app.command("backup", epilog=example("backup /backups/backhaul-monday.db"))(backup)
app.command("restore", epilog=example("restore --drill /backups/backhaul-monday.db"))(
    restore
)
app.command("migrate", epilog=example("migrate --plan"))(migrate)
app.add_typer(customers, name="customers")
events.command("reprocess", epilog=example("events reprocess --state quarantined"))(
    reprocess
)
app.add_typer(events, name="events")
commands.command("resolve", epilog=example("commands resolve 3f2a9c01"))(
    resolve_command
)
commands.command(
    "park", epilog=example('commands park 3f2a9c01 --reason "address is being checked"')
)(park)
commands.command(
    "resend", epilog=example('commands resend 3f2a9c01 --reason "not at the courier"')
)(resend)
commands.command(
    "discard", epilog=example('commands discard 3f2a9c01 --reason "sent by mail"')
)(discard)
app.add_typer(commands, name="commands")
quarantine.command("show", epilog=example("quarantine show 4"))(show_quarantined)
quarantine.command(
    "edit",
    epilog=example(
        "quarantine edit 4 --set sku=LAMP-1 --set delta=-1",
        "quarantine edit --where 'subject=LAMP-2' --set sku=LAMP-20",
    ),
)(edit)
quarantine.command(
    "retry",
    epilog=example(
        "quarantine retry 4 5", "quarantine retry --where 'reason=unknown_sku since=1h'"
    ),
)(retry)
quarantine.command("correct", epilog=example("quarantine correct 4"))(correct)
quarantine.command(
    "discard",
    epilog=example(
        'quarantine discard 4 5 --reason "a test file"',
        "quarantine discard --where 'connector=erp' --reason \"a test\"",
    ),
)(discard_rows)
app.add_typer(quarantine, name="quarantine")
app.add_typer(mappings, name="mappings")
connectors.command(
    "preview",
    epilog=example(
        "connectors preview parcels.csv",
        "connectors preview parcels.csv --connector dhl --rows 50",
    ),
)(preview)
connectors.command("presets", epilog=example("connectors presets"))(presets)
app.add_typer(connectors, name="connectors")
app.add_typer(deliveries, name="deliveries")
app.add_typer(records, name="records")
app.add_typer(incidents, name="incidents")
app.add_typer(jobs, name="jobs")
app.add_typer(secrets, name="secrets")
app.add_typer(stock, name="stock")
app.add_typer(tokens, name="tokens")
app.add_typer(users, name="users")

# The words of earlier versions, for one release.
commands.command("settle", hidden=True)(resolve_command)
commands.command("drop", hidden=True)(discard)
quarantine.command("drop", hidden=True)(discard_rows)
events.command("refold", hidden=True)(reprocess)
app.add_typer(forget, name="forget", hidden=True)
app.add_typer(targets, name="targets", hidden=True)
