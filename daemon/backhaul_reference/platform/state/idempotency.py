"""Responses stored by Idempotency-Key, with the effects they report."""

from dataclasses import dataclass

from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state.writer import Tx

KEEP_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Claim:
    """One use of a key: store, client, route and a digest of the request."""

    store_id: str
    principal: str
    route: str
    key: str
    fingerprint: str

    def scope(self) -> tuple[str, str, str, str]:
        return (self.store_id, self.principal, self.route, self.key)


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored response without its tracking token, which is rendered again."""

    status: int
    body: bytes
    location: str | None
    token_order_id: str | None
    replayed: bool = False


def recall(tx: Tx, claim: Claim) -> Kept | None:
    """Return the stored response, if any; 422 if the key had another request."""
    row = tx.one(
        "SELECT * FROM idempotency WHERE store_id = ? AND principal = ? AND route = ?"
        " AND key = ? AND created_ms > ?",
        (*claim.scope(), tx.now_ms() - KEEP_MS),
    )
    if row is None:
        return None
    if row["fingerprint"] != claim.fingerprint:
        raise Problem(
            422, "IDEMPOTENCY_KEY_REUSED", "the key was used for another request"
        )
    return Kept(
        row["status"], row["body"], row["location"], row["token_order_id"], True
    )


def keep(tx: Tx, claim: Claim, answer: Kept) -> None:
    prune(tx)
    tx.insert(
        "idempotency",
        {
            "store_id": claim.store_id,
            "principal": claim.principal,
            "route": claim.route,
            "key": claim.key,
            "fingerprint": claim.fingerprint,
            "status": answer.status,
            "location": answer.location,
            "body": answer.body,
            "token_order_id": answer.token_order_id,
            "created_ms": tx.now_ms(),
        },
    )


def prune(tx: Tx) -> None:
    """Delete stored responses that are too old to be repeated."""
    tx.run("DELETE FROM idempotency WHERE created_ms <= ?", (tx.now_ms() - KEEP_MS,))
