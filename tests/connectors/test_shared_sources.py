"""Two connections that would import the same records are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.connect import registry
from backhaul.settings import load_settings
from settings.configurations import STORE, complaints, written

if TYPE_CHECKING:
    from pathlib import Path

SECOND_STORE = STORE.replace("main", "second")
LISTS = 'base_url = "https://erp.example"\n[connectors.{0}.lists.moves]\n{1}'
MOVES = """\
kind = "stock_adjustment"
path = "/moves"
key = "id"
fields = {sku = "sku", delta = "delta"}
"""


def drop(more: str = "", path: str = "FOLDER/in") -> str:
    return f'type = "file_drop"\npath = "{path}"\n{more}\n'


def bucket(more: str = "", folder: str = "s3://exchange/in") -> str:
    return f'type = "file_drop"\nfolder = "{folder}"\n{more}\n'


def dav(host: str) -> str:
    login = 'user = "u"\npassword = "p"'
    return f'type = "file_drop"\nfolder = "webdavs://{host}/in"\n{login}\n'


def erp(
    table: str = "moves", more: str = "", url: str = "sqlite:////srv/erp.db"
) -> str:
    new = f'{{table = "{table}", changed_at = "at"}}'
    return f'type = "sql"\nurl = "{url}"\nstock_deltas = {new}\n{more}\n'


def lists(name: str, more: str = "", moves: str = MOVES) -> str:
    return f'type = "http_json"\n{more}\n' + LISTS.format(name, moves)


def odoo(more: str = "") -> str:
    login = 'database = "d"\nuser = "u"\napi_key = "k"'
    return f'type = "odoo"\nurl = "https://erp.example"\n{login}\n{more}\n'


def erpnext(more: str = "") -> str:
    login = 'api_key = "k"\napi_secret = "s"'
    return f'type = "erpnext"\nurl = "https://erp.example"\n{login}\n{more}\n'


def tryton(more: str = "", database: str = "d") -> str:
    login = f'database = "{database}"\nuser = "u"\npassword = "p"'
    return f'type = "tryton"\nurl = "https://erp.example"\n{login}\n{more}\n'


def configuration(one: str, other: str, stores: str = STORE) -> str:
    return f"{stores}[connectors.one]\n{one}[connectors.other]\n{other}"


DELTAS_ONLY = 'fulfillments = ""\ncancellations = ""\nstock_levels = ""'
SFTP = 'sftp_host = "{}"\nsftp_user = "u"\nsftp_password = "p"'
SFTP += '\nsftp_host_key = "SHA256:x"'
ORDERS = "shipments = false\n"
WRITTEN = {
    "orders in an Odoo": (
        odoo(f'{ORDERS}orders = "quotation"'),
        odoo(f'{ORDERS}orders = "confirmed"'),
    ),
    "orders of two teams of Odoo": (
        odoo('orders = "quotation"\nsales_team = "a"'),
        odoo('orders = "quotation"\nsales_team = "b"'),
    ),
    "orders of two customers": (erpnext('customer = "a"'), erpnext('customer = "b"')),
    "orders in a Tryton": (
        tryton(f'{ORDERS}customer = "a"'),
        tryton(f'{ORDERS}customer = "b"'),
    ),
    "orders, and shipments of one": (
        tryton('customer = "a"'),
        tryton(f'{ORDERS}customer = "a"'),
    ),
}
SHARED = {
    **WRITTEN,
    "a folder": (drop(), drop()),
    "a folder, written otherwise": (drop(), drop(path="FOLDER/x/../in/")),
    "a folder behind a link": (drop(), drop(path="FOLDER/link")),
    "overlapping patterns": (
        drop(f'{DELTAS_ONLY}\nstock_deltas = "moves-*.csv"'),
        drop(f'{DELTAS_ONLY}\nstock_deltas = "*.{{csv,txt}}"'),
    ),
    "patterns of two kinds": (
        drop(f'{DELTAS_ONLY}\nstock_deltas = "erp-*.csv"'),
        drop('stock_deltas = ""\nstock_levels = "ERP-?.csv"'),
    ),
    "an SFTP folder": (
        drop(SFTP.format("erp.example")),
        drop(SFTP.format("ERP.example"), "FOLDER/in/"),
    ),
    "a bucket": (bucket(), bucket()),
    "a WebDAV folder": (dav("dav.example"), dav("DAV.example")),
    "a table": (erp(), erp()),
    "a list": (lists("one"), lists("other")),
    "an Odoo": (odoo(), odoo()),
    "an Odoo, of which one takes a part": (odoo(), odoo('sales_team = "Shop"')),
    "an ERPNext": (erpnext(), erpnext()),
    "an ERPNext, of which one takes a part": (erpnext(), erpnext('customer = "a"')),
    "a Tryton": (tryton(), tryton()),
    "a Tryton, of which one takes a part": (tryton(), tryton('customer = "a"')),
    "an ERP with its address written otherwise": (
        tryton(),
        tryton().replace("erp.example", "ERP.example/"),
    ),
}
SEPARATE = {
    "two folders": (drop(), drop(path="FOLDER/elsewhere")),
    "two names in one folder": (
        drop(f'{DELTAS_ONLY}\nstock_deltas = "a-*.csv"'),
        drop(f'{DELTAS_ONLY}\nstock_deltas = "b-*.csv"'),
    ),
    "two servers": (drop(SFTP.format("a.example")), drop(SFTP.format("b.example"))),
    "here and there": (drop(), drop(SFTP.format("a.example"))),
    "one is disabled": (drop(), drop("enabled = false")),
    "two prefixes": (bucket(), bucket(folder="s3://exchange/other")),
    "two endpoints": (bucket(), bucket('endpoint = "https://s3.example"')),
    "two WebDAV servers": (dav("one.example"), dav("other.example")),
    "two tables": (erp(), erp("returns")),
    "two databases": (erp(), erp(url="sqlite:////srv/other.db")),
    "two teams": (odoo('sales_team = "a"'), odoo('sales_team = "b"')),
    "two customers of Odoo": (odoo('customer = "a"'), odoo('customer = "b"')),
    "stock alone": (odoo(), odoo("shipments = false")),
    "stock alone of a Tryton": (tryton(), tryton("shipments = false")),
    "two databases of Tryton": (tryton(), tryton(database="other")),
    "orders of one of two customers": (
        odoo('orders = "quotation"\ncustomer = "a"'),
        odoo('customer = "b"'),
    ),
    "orders of one customer of an ERPNext": (
        erpnext(f'{ORDERS}customer = "a"'),
        erpnext('customer = "a"\norders = "none"'),
    ),
    "orders of one customer of a Tryton": (
        tryton(f'{ORDERS}customer = "a"'),
        tryton('customer = "a"\nsale_state = "none"'),
    ),
    "orders here, shipments there": (
        erpnext(f'{ORDERS}customer = "a"'),
        erpnext(),
    ),
    "two lists": (lists("one"), lists("other", moves=MOVES.replace("moves", "back"))),
}


@pytest.fixture(autouse=True)
def _link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "in")


@pytest.mark.parametrize("case", SHARED)
def test_a_second_connection_of_one_source_is_refused(
    tmp_path: Path, case: str
) -> None:
    text = configuration(*SHARED[case])
    (said,) = complaints(
        tmp_path, text, validate_together=registry.check_shared_sources
    )
    assert ": connectors.other: takes " in said
    assert "which connectors.one also takes" in said
    assert "apply each record twice" in said
    assert "enabled = false" in said


@pytest.mark.parametrize("case", WRITTEN)
def test_both_would_write_the_orders(tmp_path: Path, case: str) -> None:
    text = configuration(*WRITTEN[case])
    (said,) = complaints(
        tmp_path, text, validate_together=registry.check_shared_sources
    )
    assert "takes the orders written to https://erp.example, which" in said


@pytest.mark.parametrize(
    ("connection", "setting"),
    [
        (odoo('orders = "quotation"'), "deliveries, one with orders"),
        (erpnext('customer = "a"'), "delivery notes, one with orders"),
        (tryton('customer = "a"'), "shipments, one with sale_state"),
    ],
)
def test_how_two_connections_share_the_work_is_said(
    connection: str, setting: str, tmp_path: Path
) -> None:
    text = configuration(connection, connection)
    (said,) = complaints(
        tmp_path, text, validate_together=registry.check_shared_sources
    )
    assert (
        "let each do a part of the work: a connection with shipments = false reads no"
        f' {setting} = "none" writes no orders' in said
    )


def test_everything_that_both_would_read_or_write_is_named(tmp_path: Path) -> None:
    text = configuration(tryton('customer = "a"'), tryton('customer = "a"'))
    check = registry.check_shared_sources
    (said,) = complaints(tmp_path, text, validate_together=check)
    both = "the shipments of {0} and the orders written to {0}"
    assert f"takes {both.format('https://erp.example')}, which" in said


def test_two_stores_may_write_their_orders_into_one_erp(tmp_path: Path) -> None:
    first, second = 'store = "main"\n', 'store = "second"\n'
    a, b = tryton('customer = "a"'), tryton('customer = "b"')
    text = configuration(first + a, second + b, STORE + SECOND_STORE)
    check = registry.check_shared_sources
    load_settings(written(tmp_path, text), {}, validate_together=check)


@pytest.mark.parametrize("case", SEPARATE)
def test_separate_sources_are_not(tmp_path: Path, case: str) -> None:
    file = written(tmp_path, configuration(*SEPARATE[case]))
    load_settings(file, {}, validate_together=registry.check_shared_sources)


def test_two_stores_may_read_one_stock_but_not_share_a_folder_or_marks(
    tmp_path: Path,
) -> None:
    first, second = 'store = "main"\n', 'store = "second"\n'
    both = STORE + SECOND_STORE
    check = registry.check_shared_sources
    table = configuration(first + erp(), second + erp(), both)
    load_settings(written(tmp_path, table), {}, validate_together=check)
    listed = configuration(lists("one", first), lists("other", second), both)
    load_settings(written(tmp_path, listed), {}, validate_together=check)
    assert complaints(
        tmp_path, table.replace("changed_at", "processed_at"), validate_together=check
    )
    folder = configuration(first + drop(), second + drop(), both)
    assert complaints(tmp_path, folder, validate_together=check)


def test_a_mistake_elsewhere_does_not_hide_it(tmp_path: Path) -> None:
    text = configuration(drop('evry = "5s"'), drop('every = "soon"')) + "[x]\n"
    found = complaints(tmp_path, text, validate_together=registry.check_shared_sources)
    assert not any("takes" in said for said in found)  # `evry` may have meant anything
    text = configuration(drop(), drop('every = "soon"')) + "[x]\n"
    found = complaints(tmp_path, text, validate_together=registry.check_shared_sources)
    assert any("connectors.other: takes" in said for said in found)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('evry = "5m"', "unknown setting (did you mean every?)"),
        ('quiet_hours = "22:00-06:00"', "unknown setting (did you mean quiet?)"),
        ("unchanged_seconds = inf", "must be a number"),
        ("unchanged_seconds = nan", "must be a number"),
        ("incomplete_seconds = -inf", "must be a number"),
    ],
)
def test_a_setting_of_a_connector_is_named_with_its_remedy(
    tmp_path: Path, line: str, said: str
) -> None:
    name = line.partition(" ")[0]
    text = f"{STORE}[connectors.one]\n{drop(line)}"
    found = complaints(
        tmp_path,
        text,
        validate_connector=lambda _, each: registry.check(each.type, each.options),
    )
    assert [each.partition(": ")[2] for each in found] == [
        f"connectors.one.{name}: {said}"
    ]


def test_a_file_of_a_windows_editor_is_read(tmp_path: Path) -> None:
    file = tmp_path / "backhaul.toml"
    file.write_text(STORE, encoding="utf-8-sig")
    assert load_settings(file, {}).stores
