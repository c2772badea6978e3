"""What every table of the configuration has in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table: frozen, without unknown keys, and silent about its input in errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
