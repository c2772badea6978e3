"""RabbitMQ (AMQP 0-9-1): messages become records, and changes are published."""

from backhaul_connectors.amqp.connector import Amqp

__all__ = ["Amqp"]
