"""Errors in a configuration are reported with file, line and remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.settings import load_settings
from settings.configurations import STORE, complaints, written

if TYPE_CHECKING:
    from pathlib import Path

DURATION = 'must be a duration such as "250ms", "5s", "2m", "1h" or "1d"'
NO_NAME = "is not a valid name: use only lower-case letters, digits and _"
NO_ADDRESS = 'is not an e-mail address such as "ops@shop.example"'
TABLES = (
    "admin, alerts, cluster, connect, connectors, database, jobs, log, public, push, "
    "reconcile, state_dir, stores, telemetry"
)

OIDC = (
    '[admin]\nurl = "https://a.example"\n[admin.oidc]\nissuer = "https://b.example"\n'
)
# What follows the valid store of `STORE`, which takes lines 1 to 4.
AFTER_A_STORE = {
    "[public]\nprt = 1": "6: public.prt: unknown setting (did you mean port?)",
    "[publik]": "5: publik: unknown setting (did you mean public?)",
    "[zzz]": f"5: zzz: unknown setting (known: {TABLES})",
    "[public]\nport = true": "6: public.port: must be a number, not true or false",
    "[public]\nport = 65536": "6: public.port: must be at most 65535",
    "[public]\nport = 9000\n[admin]\nport = 9000": (
        "8: admin.port: 9000 is also public.port, on the same host"
        " (give each listener a port of its own)"
    ),
    "[public]\nport = -1": "6: public.port: must be at least 0",
    '[public]\nport = "web"': "6: public.port: must be a whole number",
    "[public]\nport = 80.5": "6: public.port: must be a whole number",
    "[public]\nport = [1]": "6: public.port: must be a whole number",
    "[public]\nrequest_seconds = 0": "6: public.request_seconds: must be more than 0",
    "[public]\nrequest_seconds = inf": (
        "6: public.request_seconds: must be at most 3600"
    ),
    "[public]\nrequest_seconds = nan": "6: public.request_seconds: must be more than 0",
    "[public]\nmax_body_bytes = 0": "6: public.max_body_bytes: must be at least 1",
    "[public]\nhost = 1": "6: public.host: must be text in quotes",
    '[public]\nhost = ""': "6: public.host: must not be empty",
    '[push]\neager = "maybe"': "6: push.eager: must be true or false",
    "[push]\nconcurrency = 65": "6: push.concurrency: must be at most 64",
    "[push]\nretry_base = 5": f"6: push.retry_base: {DURATION}",
    '[push]\nretry_base = "5"': f"6: push.retry_base: {DURATION}",
    '[push]\nretry_base = "-5s"': f"6: push.retry_base: {DURATION}",
    '[push]\nretry_base = "0s"': (
        '6: push.retry_base: must be longer than "0s" and at most "366d"'
    ),
    '[push]\nretry_cap = "367d"': (
        '6: push.retry_cap: must be longer than "0s" and at most "366d"'
    ),
    '[cluster]\nroles = ["receiver"]': (
        "5: cluster: roles must contain all three roles with a SQLite file, because"
        " only one daemon can use the file; leave roles out, or use PostgreSQL"
    ),
    "[cluster]\nroles = []": "6: cluster.roles: must not be empty",
    '[cluster]\nroles = ["sender"]': (
        '6: cluster.roles: entry 1 must be "receiver", "worker" or "admin"'
    ),
    '[cluster]\nkey = ["short"]': (
        "6: cluster.key: entry 1 has fewer than 32 characters; make a key with:"
        " openssl rand -base64 32"
    ),
    '[database]\nurl = "postgresql://h/d"\n[admin]\nrequire_totp = true': (
        "7: admin: has require_totp, so on PostgreSQL key_file in [cluster] is"
        " required: with this key all machines encrypt the secrets of the second"
        " factors"
    ),
    '[public]\nurl = "https://hooks.example"\n[database]\nurl = "postgresql://db/b"': (
        "5: public: has a url, so on PostgreSQL key_file in [cluster] is required:"
        " with this key all machines encrypt the secrets of the webhook"
        " subscriptions"
    ),
    '[log]\nlevel = "loud"': (
        '6: log.level: must be "TRACE", "DEBUG", "INFO", "WARNING" or "ERROR"'
    ),
    '[log]\nformat = "xml"': '6: log.format: must be "auto", "text" or "json"',
    "[log]\nfile = 1": "6: log.file: must be a path in quotes",
    '[alerts]\nmail_to = ["Ops <ops@x.example>"]': (
        f"6: alerts.mail_to: entry 1 {NO_ADDRESS}"
    ),
    '[admin]\nurl = "https://a.example"\n[admin.oidc]\nissuer = "http://b.example"': (
        "8: admin.oidc.issuer: must begin with https://, because others could read and"
        " change what the identity provider sends"
    ),
    f"{OIDC}": (
        "7: admin.oidc: issuer is set, but client_id is missing; set client_id to the"
        " id that the identity provider gave Backhaul"
    ),
    f'{OIDC}client_id = "x"': (
        "7: admin.oidc: nobody would have access; set viewers, operators or admins to"
        " values of the claim groups"
    ),
    f'{OIDC}client_id = "x"\nadmins = ["a"]\nscopes = ["email"]': (
        '7: admin.oidc: scopes must contain "openid"'
    ),
    '[admin.oidc]\nissuer = "https://b.example"\nclient_id = "x"\nadmins = ["a"]': (
        "5: admin: url is missing, and oidc needs it: the identity provider sends"
        " browsers back to this address; set url"
    ),
    "[admin]\npasswords = false": (
        "5: admin: passwords is false, and nobody could log in; set issuer in"
        " [admin.oidc], or passwords to true"
    ),
    '[alerts]\nmail_from = "ops"': f"6: alerts.mail_from: {NO_ADDRESS}",
    '[database]\nurl = "mysql://x/y"': (
        '6: database.url: must begin with "sqlite:///" and name a file, or with'
        ' "postgresql://" and name a database'
    ),
    '[database]\nurl = "postgresql://x"': (
        '6: database.url: must end with the name of a database, such as ".../backhaul"'
    ),
    '[database]\nurl = "postgresql://a:p#w@x/b"': (
        '6: database.url: must not contain "#"; write it as %23 in a password'
    ),
    '[database]\nurl = "postgresql://a:canary/word@x/b"': (
        "6: database.url: contains a special character of a name or password; write"
        " / as %2F, ? as %3F and @ as %40"
    ),
    '[database]\nurl = "postgres://a@x/b c"': (
        "6: database.url: must not contain spaces; write a space as %20"
    ),
    '[database]\nurl = "sqlite:///"': "6: database.url: must name a file after sqlite:///",
    '[jobs.push_orders]\nevery = "5s"': (
        "5: jobs.push_orders: unknown setting "
        "(known: audit, backup, prune, push_adjustments, push_cancellations, "
        "push_fulfillments, reconcile_full, reconcile_incremental)"
    ),
    "[jobs.push_fulfilments]": (
        "5: jobs.push_fulfilments: unknown setting (did you mean push_fulfillments?)"
    ),
    '[jobs.push_adjustments]\ntrigger = "cron"': (
        '5: jobs.push_adjustments: has trigger = "cron", but no cron; set cron to a'
        ' line such as "*/5 * * * *"'
    ),
    '[jobs.push_adjustments]\ncron = "* * * * *"': (
        '5: jobs.push_adjustments: has cron, which applies only with trigger = "cron"'
    ),
    '[jobs.push_adjustments]\ntrigger = "cron"\ncron = "* * * * *"\nevery = "5s"': (
        "5: jobs.push_adjustments: has every, which applies only with trigger ="
        ' "interval"'
    ),
    '[jobs.push_adjustments]\ncron = "* * * *"': (
        "6: jobs.push_adjustments.cron: must have the five fields of a cron line,"
        ' such as "*/5 * * * *"'
    ),
    '[jobs.push_adjustments]\ncron = "60 * * * *"': (
        '6: jobs.push_adjustments.cron: has an invalid minute field, "60"'
    ),
    '[jobs.push_adjustments]\ncron = "0 18-8 * * *"': (
        '6: jobs.push_adjustments.cron: has an invalid hour field, "18-8"'
    ),
    '[jobs.push_adjustments]\ncron = "0 0 * * moon"': (
        '6: jobs.push_adjustments.cron: has an invalid weekday field, "moon"'
    ),
    '[jobs.push_adjustments]\ncron = "0 0 31 2,4 *"': (
        '6: jobs.push_adjustments.cron: matches no date: no month of "2,4" has a'
        ' day "31"'
    ),
    '[jobs.push_adjustments]\ncron = "*/0 * * * *"': (
        '6: jobs.push_adjustments.cron: has an invalid minute field, "*/0"'
    ),
    '[jobs.prune]\njitter = "soon"': (
        '6: jobs.prune.jitter: must be a duration such as "250ms", "5s", "2m", "1h" or'
        ' "1d"'
    ),
    '[jobs.prune]\nquiet = "10pm-6am"': (
        '6: jobs.prune.quiet: must be hours such as "22:00-06:00", or a list of them'
    ),
    "[jobs.prune]\nquiet = 22": (
        '6: jobs.prune.quiet: must be hours such as "22:00-06:00", or a list of them'
    ),
    '[jobs.prune]\nquiet = "06:00-06:00"': (
        '6: jobs.prune.quiet: has the quiet hours "06:00-06:00", whose start and'
        " end are equal; give different times"
    ),
    '[jobs.prune]\nquiet = ["00:00-12:00", "11:00-00:00"]': (
        "6: jobs.prune.quiet: covers the whole day, so that the job never runs;"
        " give shorter quiet hours"
    ),
    '[stores.main.jobs.prune]\nevery = "1h"': (
        '5: stores.main.jobs.prune: must be "push_fulfillments", '
        '"push_cancellations", "push_adjustments", "reconcile_incremental", '
        '"reconcile_full" or "audit"'
    ),
    '[stores.main.jobs.reconcile_full]\ncron = "0 3 * * *"': (
        "5: stores.main.jobs.reconcile_full: has cron, which applies only with"
        ' trigger = "cron"'
    ),
    "[connectors.x]": (
        '5: connectors.x.type: is missing (Type of the connector, such as "file_drop")'
    ),
    '[connectors.x]\ntype = "file drop"': f"6: connectors.x.type: {NO_NAME}",
    '[connectors.x]\ntype = "a"\nstore = "mian"': (
        "7: connectors.x.store: names a store that is not in the configuration (did"
        " you mean main?)"
    ),
    '[connectors."My Scanner"]\ntype = "a"': f"5: connectors.My Scanner: {NO_NAME}",
    '[connectors]\nx = "scanner"': "6: connectors.x: must be a table",
    "[stores.Main]": f"5: stores.Main: {NO_NAME}",
    "[stores.main.fields]\ntracking_number = 1": (
        "6: stores.main.fields.tracking_number: must be text in quotes"
    ),
}

# Lines that take the place of lines in `STORE`.
IN_A_STORE = {
    ("base_url", ""): (
        "1: stores.main.base_url: is missing (URL of the platform, such as "
        '"https://shop.example", without /api/v1)'
    ),
    ("base_url", 'base_url = "shop.example"'): (
        '2: stores.main.base_url: must be a URL such as "https://shop.example"'
    ),
    ("base_url", 'base_url = "https://[::1"'): (
        "2: stores.main.base_url: is not a URL"
    ),
    ("base_url", 'base_url = "https://ann:canary-key@shop.example"'): (
        "2: stores.main.base_url: must not contain a user name or a password;"
        " remove the part before @"
    ),
    ("base_url", 'base_url = "https://shop.example/?key=canary-key"'): (
        "2: stores.main.base_url: must not contain a query (?…), a fragment (#…) or"
        " spaces"
    ),
    ("api_key", ""): (
        "1: stores.main.api_key: is missing (give api_key or api_key_file)"
    ),
    ("api_key", 'api_key = ""'): "3: stores.main.api_key: is empty",
    ("api_key", 'api_key = "canary key"'): (
        "3: stores.main.api_key: contains a space, a line break or a character"
        " outside ASCII; copy the secret again"
    ),
    ("api_key", "api_key = 12345"): "3: stores.main.api_key: must be text in quotes",
    ("webhook_secrets", 'webhook_secrets = "canary-hook"'): (
        "4: stores.main.webhook_secrets: must be a list"
    ),
    ("webhook_secrets", "webhook_secrets = []"): (
        "4: stores.main.webhook_secrets: must not be empty"
    ),
    ("webhook_secrets", 'webhook_secrets = ["canary-hook", ""]'): (
        "4: stores.main.webhook_secrets: entry 2 is empty"
    ),
    ("webhook_secrets", 'webhook_secret = ["canary-hook"]'): (
        "4: stores.main.webhook_secret: unknown setting (did you mean webhook_secrets?)"
    ),
}

WHOLE_FILES = {
    "": ["backhaul.toml: stores: is missing (add a table [stores.main])"],
    "[stores]": [
        "backhaul.toml:1: stores: must not be empty (add a table [stores.main])"
    ],
    'stores = "canary-key"': ["backhaul.toml:1: stores: must be a table"],
    "a = 1\nb = ": ["backhaul.toml: is not TOML: invalid value at the end of the file"],
    "[log]\nlevel : 3": [
        "backhaul.toml:2: is not TOML at column 7: expected '=' after a key in a "
        "key/value pair"
    ],
    "[log]\n[log]": [
        "backhaul.toml:2: is not TOML at column 5: cannot declare ('log',) twice"
    ],
    f"_env_file = 'x'\n{STORE}": ["backhaul.toml:1: _env_file: unknown setting"],
    f"state_dir = 3\n{STORE}": ["backhaul.toml:1: state_dir: must be a path in quotes"],
    f"state_dir = ''\n{STORE}": ["backhaul.toml:1: state_dir: must not be empty"],
    f'state_dir = "/var/\\u0000lib"\n{STORE}': [
        "backhaul.toml:1: state_dir: must not contain a zero byte"
    ],
    f"log = {{ levl = 'INFO' }}\n{STORE}": [
        "backhaul.toml:1: log.levl: unknown setting (did you mean level?)"
    ],
    f"log.levl = 'INFO'\n{STORE}": [
        "backhaul.toml:1: log.levl: unknown setting (did you mean level?)"
    ],
}


@pytest.mark.parametrize("addition", AFTER_A_STORE)
def test_a_wrong_table(addition: str, tmp_path: Path) -> None:
    found = complaints(tmp_path, STORE + addition)
    place = "backhaul.toml:"
    assert f"{place}{AFTER_A_STORE[addition]}" in found
    assert addition.startswith(("[stores.Main]", "[connectors.x]")) or len(found) == 1


@pytest.mark.parametrize(("key", "line"), IN_A_STORE)
def test_a_wrong_store(key: str, line: str, tmp_path: Path) -> None:
    lines = [line if old.startswith(key) else old for old in STORE.splitlines()]
    found = complaints(tmp_path, "\n".join(lines))
    assert found == [f"backhaul.toml:{IN_A_STORE[key, line]}"]


@pytest.mark.parametrize("text", WHOLE_FILES)
def test_a_wrong_file(text: str, tmp_path: Path) -> None:
    assert complaints(tmp_path, text) == WHOLE_FILES[text]


def test_everything_is_found_at_once_and_no_value_is_quoted(tmp_path: Path) -> None:
    everything = "\n".join(
        [
            STORE.replace("https://", "https://canary:canary@").rstrip(),
            'api_kye = "canary-key"\n[stores.other]\napi_key = ["canary-key"]',
            '[connectors.x]\ntype = "a"\n[log]\nlevel = "canary-level"',
            '[public]\nport = "canary-port"',
        ]
    )
    found = complaints(tmp_path, everything, {"BACKHAUL_PUSH": "canary-push"})
    assert found == [
        "backhaul.toml:13: public.port: must be a whole number",
        "backhaul.toml:2: stores.main.base_url: must not contain a user name or a"
        " password; remove the part before @",
        "backhaul.toml:5: stores.main.api_kye: unknown setting (did you mean api_key?)",
        "backhaul.toml:6: stores.other.base_url: is missing (URL of the platform, "
        'such as "https://shop.example", without /api/v1)',
        "backhaul.toml:7: stores.other.api_key: must be text in quotes",
        "BACKHAUL_PUSH: push: must be a table",
        'backhaul.toml:11: log.level: must be "TRACE", "DEBUG", "INFO", "WARNING" or '
        '"ERROR"',
        "backhaul.toml:8: connectors.x.store: is missing, and the configuration has"
        " several stores (known: main, other)",
    ]
    assert "canary" not in "".join(found)


@pytest.mark.parametrize(
    ("public", "admin", "environ"),
    [
        ('host = "192.0.2.1"', 'host = "192.0.2.2"', {}),
        ('host = "0.0.0.0"', 'host = "::1"', {}),
        ('host = "0.0.0.0"', 'host = "shop.internal"', {}),
        ('host = "0.0.0.0"', 'host = "127.0.0.1"', {"LISTEN_FDS": "1"}),
    ],
    ids=["two hosts", "two families", "a name", "handed over"],
)
def test_two_listeners_may_have_one_port_where_they_do_not_meet(
    public: str, admin: str, environ: dict[str, str], tmp_path: Path
) -> None:
    """Where systemd hands a socket over, its setting is not what is listened on."""
    text = f"{STORE}[public]\nport = 9000\n{public}\n[admin]\nport = 9000\n{admin}\n"
    settings = load_settings(written(tmp_path, text), environ)
    assert settings.public.port == settings.admin.port


def test_any_free_port_is_no_port_of_both(tmp_path: Path) -> None:
    text = f"{STORE}[public]\nport = 0\n[admin]\nport = 0\n"
    assert load_settings(written(tmp_path, text), {}).admin.port == 0


def test_a_port_that_is_the_default_of_the_other_listener_is_reported(
    tmp_path: Path,
) -> None:
    (said,) = complaints(tmp_path, f"{STORE}[public]\nport = 8751\n")
    assert said.startswith("backhaul.toml: admin.port: 8751 is also public.port")
