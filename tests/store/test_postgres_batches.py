"""One statement for many rows has the same result as one statement for each row."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from backhaul.store.postgres.connection import Connection
from backhaul.store.sql.dialect import batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.postgres_databases import PostgresDatabases

pytestmark = pytest.mark.programs

ROWS: list[tuple[Any, ...]] = [
    ("a", 1, b"\0\xff", 1.5),
    ("é\0", -(2**63), None, None),
    (r"{\"x\": \"\u0000\"}", 2**63 - 1, b"", 0.0),
    ("", None, None, -2.25),
]
ADD = batch("""
    INSERT INTO notes (text, number, bytes, real) VALUES (?, ?, ?, ?)
    ON CONFLICT (text) DO UPDATE SET number = excluded.number
""")
READ = "SELECT text, number, bytes, real FROM notes ORDER BY id"


@pytest.fixture
def connection(postgres_server: PostgresDatabases) -> Iterator[Connection]:
    with postgres_server.lent() as url, closing(Connection(url)) as opened:
        opened.execute(
            "CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY,"
            ' text text COLLATE "C" UNIQUE, number bigint, bytes bytea,'
            " real double precision)"
        )
        opened.execute("BEGIN")
        yield opened


def test_a_batch_writes_the_same_as_single_statements(connection: Connection) -> None:
    for row in ROWS:
        connection.execute(ADD, row)
    alone = connection.execute(READ).fetchall()
    connection.execute("DELETE FROM notes")
    assert connection.executemany(ADD, ROWS).rowcount == len(ROWS)
    assert connection.execute(READ).fetchall() == alone
    assert alone[1][0] == "é\ufffd"


def test_a_batch_changes_the_rows_it_names(connection: Connection) -> None:
    connection.executemany(ADD, ROWS)
    again = [("a", 7, b"not taken", 9.0), ("b", None, None, None)]
    assert connection.executemany(ADD, again).rowcount == 2
    update = batch("UPDATE notes SET number = number + :more WHERE text = :text")
    changed = [{"text": "a", "more": 1}, {"text": "c", "more": 5, "unused": ""}]
    assert connection.executemany(update, changed).rowcount == 1
    delete = batch("DELETE FROM notes WHERE text = ?")
    assert connection.executemany(delete, [("b",)]).rowcount == 1
    found = connection.execute(READ).fetchall()
    assert found[0] == ("a", 8, b"\0\xff", 1.5)
    assert len(found) == len(ROWS)


COPY = "COPY notes (text, number, bytes) FROM STDIN (FORMAT BINARY)"
NEW_IDS = "SELECT id FROM notes WHERE id > 1 ORDER BY id"
COPIED: list[tuple[str | None, int | None, bytes | None]] = [
    ("é", -(2**63), b""),
    ("", 2**63 - 1, b"\0\xff" * 200_000),
    (None, None, None),
    ("z", 0, b"PGCOPY"),
]


def test_rows_are_copied_as_they_are(connection: Connection) -> None:
    """The second one is larger than what the driver takes at once."""
    assert connection.copy_in(COPY, COPIED, NEW_IDS) == [2, 3, 4]
    found = connection.execute("SELECT text, number, bytes FROM notes ORDER BY id")
    assert found.fetchall() == COPIED


def test_a_copy_is_part_of_its_transaction_or_is_one(connection: Connection) -> None:
    connection.execute("COMMIT")
    count = "SELECT count(*) FROM notes"
    connection.execute("BEGIN")
    connection.copy_in(COPY, COPIED, NEW_IDS)
    connection.execute("ROLLBACK")
    assert connection.execute(count).fetchone() == (0,)
    connection.copy_in(COPY, COPIED, NEW_IDS)
    connection.roll_back()
    assert connection.execute(count).fetchone() == (len(COPIED),)


@pytest.mark.parametrize(
    ("copy", "query", "why"),
    [
        (COPY.replace("notes", "nothing"), NEW_IDS, '"nothing" does not exist'),
        (COPY, "SELECT nothing FROM notes", '"nothing" does not exist'),
        (COPY.replace(", bytes", ""), NEW_IDS, "row field count is 3, expected 2"),
    ],
)
def test_a_copy_that_fails_leaves_nothing(
    connection: Connection, copy: str, query: str, why: str
) -> None:
    connection.execute("COMMIT")
    with pytest.raises(psycopg.Error, match=why):
        connection.copy_in(copy, COPIED, query)
    connection.roll_back()
    assert connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)


def test_a_copy_that_cannot_be_sent_whole_leaves_a_connection_that_works(
    connection: Connection,
) -> None:
    connection.execute("COMMIT")
    half = [("a", 1, None), ("\ud800", 2, None)]
    with pytest.raises(UnicodeEncodeError):
        connection.copy_in(COPY, half, NEW_IDS)
    connection.roll_back()
    connection.execute("BEGIN")
    assert connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)


@pytest.mark.parametrize("number", [2**63, -(2**64), 7, -7, True])
def test_a_number_of_any_size_is_compared(connection: Connection, number: int) -> None:
    connection.executemany(ADD, [("a", -7, None, None), ("b", 1, None, None)])
    find = "SELECT number FROM notes WHERE number = ? OR number - ? = 0"
    expected = [(number,)] if number in {-7, 1} else []
    for _ in range(7):  # the statement is prepared meanwhile
        assert connection.execute(find, (number, number)).fetchall() == expected
    many = connection.begin(find, (number, number))
    assert many.fetchall() == expected


def test_several_statements_fit_in_one_text(connection: Connection) -> None:
    connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 7")
    assert connection.execute("SHOW lock_timeout").fetchall() == [("7ms",)]


def test_a_batch_keeps_the_order_of_its_rows(connection: Connection) -> None:
    rows = [(f"{n:04}", n, None, None) for n in range(2_000)]
    connection.executemany(ADD, rows)
    assert connection.execute(READ).fetchall() == rows


def test_a_batch_without_rows_sends_no_statement(connection: Connection) -> None:
    connection.executemany(batch("no statement"), [])


def test_two_values_for_one_row_are_an_error(connection: Connection) -> None:
    with pytest.raises(psycopg.errors.CardinalityViolation):
        connection.executemany(ADD, [ROWS[0], ROWS[0]])


def test_a_statement_that_reads_is_no_batch(connection: Connection) -> None:
    statement = batch(
        "INSERT INTO notes (text) SELECT text FROM notes WHERE number = ?"
    )
    with pytest.raises(ValueError, match="cannot run for a batch"):
        connection.executemany(statement, [(1,)])
