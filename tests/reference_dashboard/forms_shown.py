"""The forms that a page shows, as a browser would send them untouched."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

TYPED = {"text", "email", "url", "number", "datetime-local", "search", "password"}


@dataclass(slots=True)
class Shown:
    """One form: what stands in its fields, and those into which one types."""

    values: dict[str, list[str]] = field(default_factory=dict)
    typed: list[str] = field(default_factory=list)


class Reading(HTMLParser):
    """Collects the forms of a page by the address they are sent to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: dict[str, Shown] = {}
        self._form: Shown | None = None
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form" and found.get("method") == "post":
            self._form = self.forms.setdefault(found["action"], Shown())
        elif self._form is not None:
            self._take(self._form, tag, found)

    def _take(self, form: Shown, tag: str, found: dict[str, str]) -> None:
        name, kind = found.get("name", ""), found.get("type", "text")
        if tag in {"select", "textarea"}:
            self._open, form.values[name] = name, []
        elif tag == "option" and self._chooses(form, found):
            form.values[self._open] = [found.get("value", "")]
        elif tag == "input" and (
            kind not in {"checkbox", "radio"} or "checked" in found
        ):
            form.values.setdefault(name, []).append(found.get("value", "on"))
        if tag == "textarea" or (tag == "input" and kind in TYPED):
            form.typed.append(name)

    def _chooses(self, form: Shown, option: dict[str, str]) -> bool:
        """Tell whether a choice is the one that is made, or the first of all."""
        chosen = form.values.get(self._open)
        return chosen is not None and ("selected" in option or not chosen)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        if tag in {"select", "textarea"}:
            self._open = ""

    def handle_data(self, data: str) -> None:
        if self._form is not None and self._open in self._form.typed:
            self._form.values[self._open] = [data]
