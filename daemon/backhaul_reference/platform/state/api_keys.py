"""API keys: hashes, scopes, expiry and last use."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from backhaul_reference.platform import formats
from backhaul_reference.platform.clock import Clock
from backhaul_reference.platform.formats import sha256_hex
from backhaul_reference.platform.json_codec import Document, decode_stored, encode_text
from backhaul_reference.platform.problems import not_found
from backhaul_reference.platform.state.database import Rows
from backhaul_reference.platform.state.writer import Tx, Writer

Scope = Literal[
    "orders:read",
    "orders:write",
    "products:read",
    "products:write",
    "inventory:read",
    "inventory:write",
    "customers:read",
    "customers:write",
    "store:read",
]
SCOPES: tuple[Scope, ...] = get_args(Scope)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that is not revoked."""

    id: str
    store_id: str
    scopes: frozenset[str]
    expires_ms: int | None

    def has_ended(self, now_ms: int) -> bool:
        return self.expires_ms is not None and self.expires_ms <= now_ms


def find(rows: Rows, presented: str) -> ApiKey | None:
    digest = sha256_hex(presented)
    row = rows.one(
        "SELECT id, store_id, hash, scopes, expires_ms FROM api_key"
        " WHERE hash = ? AND revoked_ms IS NULL",
        (digest,),
    )
    if row is None or not hmac.compare_digest(row["hash"], digest):
        return None
    scopes = frozenset(decode_stored(row["scopes"]))
    return ApiKey(row["id"], row["store_id"], scopes, row["expires_ms"])


def add(
    tx: Tx,
    store_id: str,
    secret: str,
    *,
    name: str,
    scopes: Sequence[str] = SCOPES,
    expires_ms: int | None = None,
) -> Document:
    """Add a key; only the return value contains its text."""
    created_ms = tx.now_ms()
    values = {
        "id": tx.ids.new("key"),
        "store_id": store_id,
        "hash": sha256_hex(secret),
        "last4": secret[-4:],
        "name": name,
        "scopes": encode_text(sorted(scopes)),
        "created_ms": created_ms,
        "expires_ms": expires_ms,
    }
    tx.insert("api_key", values)
    return {
        "id": values["id"],
        "key": secret,
        "name": name,
        "last4": secret[-4:],
        "scopes": sorted(scopes),
        "createdAt": formats.to_text(created_ms),
        "expiresAt": formats.to_text_or_none(expires_ms),
    }


def used(tx: Tx, key_id: str, now_ms: int) -> None:
    tx.run("UPDATE api_key SET used_ms = ? WHERE id = ?", (now_ms, key_id))


def revoke(tx: Tx, store_id: str, key_id: str) -> None:
    changed = tx.run(
        "UPDATE api_key SET revoked_ms = ?"
        " WHERE id = ? AND store_id = ? AND revoked_ms IS NULL",
        (tx.now_ms(), key_id, store_id),
    )
    if not changed:
        raise not_found("KEY")


MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class KeyUses:
    """Records the last use of keys in the background, at most once a minute each."""

    writer: Writer
    clock: Clock
    _written: dict[str, int] = field(default_factory=dict)

    def note(self, key_id: str) -> None:
        """Record that the key was used now."""
        now_ms = self.clock.now_ms()
        if now_ms // MINUTE_MS != self._written.get(key_id):
            self._written[key_id] = now_ms // MINUTE_MS
            self.writer.post(lambda tx: used(tx, key_id, now_ms))
