"""The configuration: its models, and how it is loaded and validated."""

from backhaul.settings.connections import Connector, Fields, Store
from backhaul.settings.infrastructure import Database
from backhaul.settings.jobs import Job, Jobs, PushJob, Scheduled
from backhaul.settings.listeners import Admin, Public
from backhaul.settings.loader import (
    bare_environment,
    configuration_file,
    explain,
    load_settings,
)
from backhaul.settings.schema import (
    Connect,
    Log,
    Push,
    Reconcile,
    Settings,
)
from backhaul.settings.secret_files import secret_values

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
