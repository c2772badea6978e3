"""The configuration: what can be set, and how it is read and checked."""

from backhaul.settings.connectors import Connector
from backhaul.settings.explaining import explain
from backhaul.settings.jobs import Job, Jobs, PushJob
from backhaul.settings.loading import (
    bare_environment,
    configuration_file,
    load_settings,
)
from backhaul.settings.schedules import Scheduled
from backhaul.settings.schema import (
    Admin,
    Connect,
    Database,
    Log,
    Public,
    Push,
    Reconcile,
    Settings,
)
from backhaul.settings.secret_files import secret_values
from backhaul.settings.stores import Fields, Store

__all__ = [
    "Admin",
    "Connect",
    "Connector",
    "Database",
    "Fields",
    "Job",
    "Jobs",
    "Log",
    "Public",
    "Push",
    "PushJob",
    "Reconcile",
    "Scheduled",
    "Settings",
    "Store",
    "bare_environment",
    "configuration_file",
    "explain",
    "load_settings",
    "secret_values",
]
