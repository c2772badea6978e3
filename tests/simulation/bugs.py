"""The mistakes that are planted, each with what must notice it."""

from __future__ import annotations

from dataclasses import dataclass


class NotPlanted(Exception):
    """The text to be replaced is not there, or not once."""


@dataclass(frozen=True, slots=True)
class Bug:
    """A mistake somebody could make, and what notices it: a test, else the worlds."""

    name: str
    file: str
    old: str
    new: str
    test: str = ""

    @property
    def module(self) -> str:
        """The module that the mistake is made in."""
        _, *names = self.file.removesuffix(".py").split("/")
        return ".".join(names)

    def planted_in(self, source: str) -> str:
        """Return the source with the mistake. Raises NotPlanted."""
        if source.count(self.old) != 1:
            raise NotPlanted(f"{self.name}: {self.file} lacks {self.old!r}")
        return source.replace(self.old, self.new)


NO_BUG = Bug(
    "all is well",
    "daemon/backhaul/push/resolver.py",
    "if checks < len(times) and",
    "if checks < len(times) and",
)
"""What must not be caught: else what catches the others catches anything."""
BUGS = (
    Bug(
        "nothing is written down before a command is sent",
        "daemon/backhaul/store/sql/commands/repository.py",
        "            _begin_attempt(connection, command, step, now)\n",
        "            pass\n",
    ),
    Bug(
        "a command without an answer is sent again",
        "daemon/backhaul/platform/transport.py",
        "lambda error: isinstance(error, NotSent) and may_send()",
        "lambda error: isinstance(error, NotSent | OutcomeUnknown) and may_send()",
    ),
    Bug(
        "a timeout counts as never sent",
        "daemon/backhaul/platform/transport.py",
        "    httpx.ConnectTimeout,\n",
        "    httpx.ConnectTimeout,\n    httpx.ReadTimeout,\n",
    ),
    Bug(
        "a webhook is acknowledged before its commit",
        "daemon/backhaul/ingest/receiver.py",
        "            await self._inbox.append(arrival)\n",
        # A database that refuses is part of the bug, and no error of asyncio's.
        "            kept = self._inbox.append(arrival)\n"
        "            kept.add_done_callback(\n"
        "                lambda one: one.cancelled() or one.exception()\n"
        "            )\n",
    ),
    Bug(
        "what was being sent at a death counts as never sent",
        "daemon/backhaul/push/response_classifier.py",
        "        causes=CAUSES[Outcome.UNCERTAIN],\n",
        "        causes=CAUSES[Outcome.NEVER_SENT],\n",
        # A world rarely notices: what was sent is proved before it is sent again.
        "tests/push/test_interruptions.py::"
        "test_a_command_under_way_at_a_kill_is_uncertain_with_its_evidence",
    ),
    Bug(
        "absence is believed at the first look",
        "daemon/backhaul/push/resolver.py",
        "if checks < len(times) and",
        "if checks < 1 and",
        # Few commands land so late that a world notices.
        "tests/push/test_resolver.py::test_absence_is_believed_at_the_last_check_only",
    ),
    Bug(
        "a file is put away before its rows are kept",
        "daemon/backhaul/connect/host.py",
        "    async def _take(self, batch: Batch) -> None:\n",
        "    async def _take(self, batch: Batch) -> None:\n        await batch.ack()\n",
        # Few deaths come just then.
        "tests/connect/test_host.py::test_a_batch_is_acknowledged_after_its_commit_only",
    ),
    Bug(
        "a 5xx counts as a refusal",
        "daemon/backhaul/core/outcome.py",
        "        return _judge_refusal(kind, status, problem, said)\n"
        "    return Verdict(Outcome.UNCERTAIN, said)\n",
        "        return _judge_refusal(kind, status, problem, said)\n"
        "    return Verdict(Outcome.REJECTED, said)\n",
    ),
    Bug(
        "a commit survives no power loss",
        "daemon/backhaul/store/sqlite/connections.py",
        'connection.execute("PRAGMA synchronous=FULL")',
        'connection.execute("PRAGMA synchronous=NORMAL")',
        "tests/store/test_opening.py::test_the_writer_survives_a_power_loss",
    ),
    Bug(
        "a known cause is planned anew",
        "daemon/backhaul/core/identity.py",
        '    text = "".join(f"{len(part)}:{part}" for part in parts)\n',
        '    text = "".join(f"{len(part)}:{part}" for part in parts)\n'
        '    text += __import__("secrets").token_hex()\n',
        "tests/connect/test_records.py"
        "::test_a_cause_makes_one_command_even_if_its_record_is_lost",
    ),
    Bug(
        "older overwrites newer",
        "daemon/backhaul/core/fold.py",
        "    return VersionComparison.NEWER if wins else VersionComparison.STALE\n",
        "    return VersionComparison.NEWER\n",
        "tests/ingest/test_topics.py::test_older_never_overwrites_newer",
    ),
    Bug(
        "whoever calls is believed",
        "daemon/backhaul/ingest/receiver.py",
        "        if not self._signed(store, request.headers, body, now):\n",
        "        if not store:\n",
        "tests/ingest/test_receiver_refusals.py",
    ),
    Bug(
        "an echo is forwarded as somebody else's news",
        "daemon/backhaul/store/sql/commands/echoes.py",
        "        return is_first, owner.instance\n",
        "        return is_first, None\n",
        "tests/push/test_echoes.py::"
        "test_the_first_event_that_shows_the_effect_is_the_echo",
    ),
    Bug(
        "a restored database sends at once",
        "daemon/backhaul/push/history_audit.py",
        "        self._switch.hold_for_audit(OPENING)\n",
        "        self._switch.release()\n",
        "tests/push/test_history_audit.py::test_nothing_is_sent_before_the_history_is_read",
    ),
    Bug(
        "a 429 counts as a failure",
        "daemon/backhaul/push/response_classifier.py",
        "BACKING_OFF = frozenset({",
        "BACKING_OFF = frozenset({Outcome.THROTTLED, ",
        "tests/push/test_transitions.py::test_each_outcome_leads_to_its_state",
    ),
    Bug(
        "each attempt has a key of its own",
        "daemon/backhaul/push/resolver.py",
        "            idempotency_key(command.id),\n",
        '            idempotency_key(command.id + "again"),\n',
        "tests/push/test_idempotency_keys.py::test_under_its_key_it_is_sent_again_at_once",
    ),
    Bug(
        "other bytes leave under the same key",
        "daemon/backhaul/push/resolver.py",
        "            uncertain.request,\n",
        '            uncertain.request + b" ",\n',
        "tests/push/test_idempotency_keys.py::test_under_its_key_it_is_sent_again_at_once",
    ),
    Bug(
        "a key is used again that has lost its worth",
        "daemon/backhaul/push/resolver.py",
        "return is_ours and self._allows(uncertain) and self._may_resend(uncertain)",
        "return is_ours and self._allows(uncertain)",
        "tests/push/test_idempotency_keys.py::"
        "test_a_key_that_lost_its_worth_in_the_wait_for_room_is_not_used_again",
    ),
    Bug(
        "a platform is believed to take keys for ever",
        "daemon/backhaul/push/resolver.py",
        "return await self.record(facts) == since",
        "return True",
        "tests/push/test_key_support.py::"
        "test_a_platform_that_stopped_accepting_keys_is_checked_by_reads",
    ),
    Bug(
        "a lane is not held while its command is in doubt",
        "daemon/backhaul/store/sql/commands/repository.py",
        # All of it: what passes over those who wait, and what makes sure of them.
        """c
    WHERE state = 'planned' AND store = :store AND kind = :kind
      AND due_at <= :now AND created_at <= :planned_by AND hold_reason IS NULL
      AND behind = 0 AND NOT EXISTS (
        SELECT 1 FROM commands o
        WHERE o.store = c.store AND o.lane = c.lane
          AND o.state IN ('sending', 'uncertain')
    ) AND NOT EXISTS (
        SELECT 1 FROM commands o
        WHERE o.store = c.store AND o.lane = c.lane AND o.seq < c.seq
          AND o.state IN ('planned', 'sending', 'uncertain')
""",
        """c
    WHERE state = 'planned' AND store = :store AND kind = :kind
      AND due_at <= :now AND created_at <= :planned_by AND hold_reason IS NULL
      AND NOT EXISTS (
        SELECT 1 FROM commands o
        WHERE o.store = c.store AND o.lane = c.lane AND o.seq < c.seq
          AND o.state IN ('planned', 'sending')
""",
        "tests/store/test_sqlite_conformance.py"
        "::TestCommands::test_which_states_block_an_ordering_key",
    ),
    Bug(
        "any tag proves any command",
        "daemon/backhaul/core/effect_proof.py",
        "if move.note == wanted.tag)",
        "if move.note)",
        "tests/core/test_effect_proof.py::test_finding",
    ),
    Bug(
        "what was deleted comes back with late news",
        "daemon/backhaul/store/sql/mirror/write.py",
        'if found is None and self._has_tombstones and kind != "product":',
        'if not kind and self._has_tombstones and kind != "product":',
        "tests/ingest/test_conflicts.py",
    ),
    Bug(
        "the fold cursor runs ahead",
        "daemon/backhaul/store/sql/inbox/fold.py",
        "kv.put(connection, CURSOR, str(ids[-1]))",
        "kv.put(connection, CURSOR, str(ids[-1] + 1))",
        "tests/ingest/test_fold_worker.py",
    ),
    Bug(
        "a second daemon sends from the same database",
        "daemon/backhaul/store/sql/commands/repository.py",
        "if row is None or int(row[0]) != self._epoch:",
        "if row is None:",
        "tests/store/test_sqlite_conformance.py"
        "::TestCommands::test_only_the_last_epoch_may_claim",
    ),
)
