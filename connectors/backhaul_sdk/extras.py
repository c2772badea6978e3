"""Libraries that only some settings need, which are extras of the package."""

from __future__ import annotations

from importlib.util import find_spec

LIBRARIES = {
    "amqp": ("aio-pika", "aio_pika"),
    "azure": ("obstore", "obstore"),
    "edi": ("pydifact", "pydifact"),
    "excel": ("python-calamine", "python_calamine"),
    "ftp": ("aioftp", "aioftp"),
    "gcs": ("obstore", "obstore"),
    "imap": ("imapclient", "imapclient"),
    "login": ("joserfc", "joserfc"),
    "mail": ("aiosmtplib", "aiosmtplib"),
    "mqtt": ("aiomqtt", "aiomqtt"),
    "mysql": ("pymysql", "pymysql"),
    "nats": ("nats-py", "nats"),
    "otel": (
        "opentelemetry-exporter-otlp-proto-http",
        "opentelemetry.exporter.otlp.proto.http",
    ),
    "postgres": ("psycopg", "psycopg"),
    "s3": ("obstore", "obstore"),
    "sftp": ("asyncssh", "asyncssh"),
    "sql": ("sqlalchemy", "sqlalchemy"),
    "webdav": ("defusedxml", "defusedxml"),
}
"""The package and the module whose absence shows that an extra is not installed."""


def missing_extra(extra: str) -> str | None:
    """Return "package …, which is not installed; install it with …", or None."""
    package, module = LIBRARIES[extra]
    try:
        if find_spec(module) is not None:
            return None
    except ModuleNotFoundError:  # the package that contains the module
        pass
    return (
        f"the package {package}, which is not installed; install it with:"
        f" pip install 'backhaul[{extra}]'"
    )


def require_extra(extra: str, *, user: str = "") -> None:
    """Raise ValueError if an extra is not installed.

    The message begins with `user`, what needs it, or with "needs" for a setting.
    """
    if missing := missing_extra(extra):
        raise ValueError(f"{user} needs {missing}".strip())
