"""A connector that writes the store's orders to a ledger, one line for each."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from backhaul_sdk import (
    Absent,
    Applied,
    Capability,
    Change,
    CheckFailed,
    Connector,
    Found,
    LookedUp,
    NotSent,
    Pushed,
    Spec,
    Uncertain,
    Unknown,
)


class Settings(BaseModel):
    """`[connectors.NAME]`, without the settings that every connection has."""

    model_config = ConfigDict(extra="forbid")

    path: Path = Field(description="The ledger file; its folder must exist.")


class Ledger(Connector[Settings]):
    """One line of JSON for each order: the change's id, and the order's number."""

    spec = Spec(
        name="ledger",
        version="1.0.0",
        summary="Writes orders into a ledger.",
        capabilities=frozenset({Capability.PUSH}),
        settings=Settings,
        topics=frozenset({"order.placed"}),
    )

    async def check(self) -> None:
        if not self.settings.path.parent.is_dir():
            raise CheckFailed(f"{self.settings.path.parent} does not exist: create it")

    async def push(self, change: Change) -> Pushed:
        line = {"id": change.id, "order": change.document["name"]}
        try:
            ledger = self.settings.path.open("a", encoding="utf-8")
        except OSError as error:
            return NotSent(f"the ledger cannot be opened: {error.strerror}")
        try:
            with ledger:
                ledger.write(json.dumps(line) + "\n")
                ledger.flush()
                os.fsync(ledger.fileno())
        except OSError as error:
            return Uncertain(f"the line may have been written: {error.strerror}")
        return Applied(change.id)

    async def lookup(self, change: Change) -> LookedUp:
        try:
            lines = self.settings.path.read_text("utf-8").splitlines()
        except OSError as error:
            return Unknown(f"the ledger cannot be read: {error.strerror}")
        known = {json.loads(line)["id"] for line in lines}
        return Found(change.id) if change.id in known else Absent()
