"""NATS JetStream: messages become records, and changes are published."""

from backhaul_connectors.nats.connector import Nats

__all__ = ["Nats"]
