"""Request body schemas; reports every validation error at once."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError, core_schema

from backhaul_reference.platform import formats, money
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Flaw, invalid

B = TypeVar("B", bound="Body")
MAX_FLAWS = 100
MONEY_SENT: Document = {
    "anyOf": [
        {"type": "string", "pattern": r"^[0-9]{1,12}(\.[0-9]{1,3})?$"},
        {
            "type": "number",
            "minimum": 0,
            "exclusiveMaximum": 10**money.WHOLE_DIGITS,
            "multipleOf": 0.001,
        },
    ],
    "examples": ["1499.00"],
    "description": "At most as many fraction digits as the store's currency has, and"
    " no exponent: 2 for INR, 0 for JPY, 3 for KWD; more are refused with 422.",
}
INSTANT_SENT: Document = {
    "type": "string",
    "format": "date-time",
    "pattern": "^(19[7-9][0-9]|[2-9][0-9]{3})-",
}
# What \s means differs between languages, so its members are named.
SPACE = r"\x00-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f\u3000\ufeff"
PART = f"[^@.{SPACE}]"
EMAIL = re.compile(f"[^@{SPACE}]{{1,64}}@{PART}+(?:\\.{PART}+)+")

CODES = {
    "missing": "REQUIRED",
    "string_type": "WRONG_TYPE",
    "int_type": "WRONG_TYPE",
    "bool_type": "WRONG_TYPE",
    "list_type": "WRONG_TYPE",
    "tuple_type": "WRONG_TYPE",
    "dict_type": "WRONG_TYPE",
    "model_type": "WRONG_TYPE",
    "string_too_short": "TOO_SHORT",
    "too_short": "TOO_SHORT",
    "string_too_long": "TOO_LONG",
    "too_long": "TOO_LONG",
    "greater_than": "TOO_SMALL",
    "greater_than_equal": "TOO_SMALL",
    "less_than": "TOO_BIG",
    "less_than_equal": "TOO_BIG",
    "string_pattern_mismatch": "BAD_FORMAT",
    "literal_error": "NOT_ALLOWED",
}


class Body(BaseModel):
    """A JSON object; members it does not name are ignored."""

    model_config = ConfigDict(
        strict=True, extra="ignore", alias_generator=to_camel, frozen=True
    )


def parse(model: type[B], document: Document, exponent: int = 2) -> B:
    """Check a document against its schema; 422 with every flaw."""
    try:
        return model.model_validate(document, context={"exponent": exponent})
    except ValidationError as error:
        raise invalid([_flaw(one) for one in _details(error)]) from None


def _details(error: ValidationError) -> list[Any]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return found[:MAX_FLAWS]


def _flaw(detail: Any) -> Flaw:
    kind = detail["type"]
    code = kind if kind.isupper() else CODES.get(kind, "INVALID")
    return Flaw(pointer(detail["loc"]), code, detail["msg"])


def pointer(path: tuple[int | str, ...]) -> str:
    """The JSON pointer (RFC 6901) of a path."""
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return "".join(f"/{part}" for part in parts)


def _printable(text: str) -> str:
    if "\x00" in text:
        raise PydanticCustomError("BAD_FORMAT", "must not hold a null character")
    return text


@dataclass(frozen=True, slots=True)
class _Printable:
    """Text without null characters, here and in the published schema."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(_printable, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> Document:
        return {"pattern": r"^[^\x00]*$", **handler(schema)}


def _minor(value: Any, info: ValidationInfo) -> int:
    exponent = (info.context or {}).get("exponent", money.DEFAULT_EXPONENT)
    try:
        return money.to_minor(value, exponent)
    except ValueError as error:
        message = str(error).replace("{", "").replace("}", "")
        raise PydanticCustomError("BAD_MONEY", "{why}", {"why": message}) from None


def _whole(value: Any) -> Any:
    """1.0 is an integer in JSON, however it is written."""
    integral = isinstance(value, Decimal) and value == value.to_integral_value()
    return int(value) if integral else value


def at_least_one(*choices: Document) -> Document:
    """Return the rule that a body fits one of these schemas.

    It is written without `anyOf`: generators of clients take that for different
    bodies, and lose the members that all of them share.
    """
    first, *others = choices
    return {"if": {"not": first}, "then": at_least_one(*others)} if others else first


def any_case(schema: Document) -> Document:
    """The schema of a word of an enumeration, however it is written."""
    words = schema.get("enum") or [schema["const"]]
    spelt = "|".join(
        "".join(
            f"[{one.upper()}{one.lower()}]" if one.isalpha() else one for one in word
        )
        for word in words
    )
    return {"anyOf": [schema, {"type": "string", "pattern": f"^({spelt})$"}]}


@dataclass(frozen=True, slots=True)
class _Folded:
    """Text in one case, however it was sent, here and in the published schema."""

    fold: Callable[[str], str]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(
            lambda value: self.fold(value) if isinstance(value, str) else value,
            handler(source),
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> Document:
        found = handler(schema)
        return any_case(found) if {"enum", "const"} & found.keys() else found


def _email(text: str) -> str:
    if not EMAIL.fullmatch(text):
        raise PydanticCustomError("BAD_FORMAT", "must be an email address")
    return text


def _instant(value: Any) -> int:
    try:
        return formats.from_text(value if isinstance(value, str) else "")
    except ValueError:
        message = "must be an RFC 3339 instant"
        raise PydanticCustomError("BAD_FORMAT", message) from None


Printable = _Printable()
WHOLE = BeforeValidator(_whole)
Upper = _Folded(str.upper)
Lower = _Folded(str.lower)
Text = Annotated[str, StringConstraints(min_length=1, max_length=255), Printable]
OptionalText = Annotated[str, StringConstraints(max_length=255), Printable]
LongText = Annotated[str, StringConstraints(max_length=20_000), Printable]
Identifier = Annotated[str, StringConstraints(min_length=1, max_length=64), Printable]
Url = Annotated[
    str,
    StringConstraints(max_length=2048, pattern=f"^https?://[^{SPACE}]+$"),
    Printable,
]
Email = Annotated[
    str,
    StringConstraints(max_length=254),
    AfterValidator(_email),
    Field(json_schema_extra={"pattern": f"^{EMAIL.pattern}$"}),
]
Phone = Annotated[str, StringConstraints(pattern=r"^[+0-9 ()./-]{3,32}$")]
Country = Annotated[
    str,
    Upper,
    StringConstraints(pattern=r"^[A-Z]{2}$"),
    Field(json_schema_extra={"pattern": "^[A-Za-z]{2}$"}),
]
Money = Annotated[
    int,
    BeforeValidator(_minor),
    WithJsonSchema(MONEY_SENT),
]
Instant = Annotated[
    int,
    BeforeValidator(_instant),
    WithJsonSchema(INSTANT_SENT),
]
Tags = Annotated[list[Text], Field(max_length=100)]
