"""Bodies of the control API."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from backhaul_reference.documents import Document
from backhaul_reference.problems import Flaw, invalid
from backhaul_reference.state.keys import Scope
from backhaul_reference.state.stores import PAYMENT_OFF, PICTURE
from backhaul_reference.web.bodies import (
    Body,
    Country,
    Email,
    Instant,
    LongText,
    Money,
    OptionalText,
    Printable,
    Text,
    Upper,
)

Subdomain = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$")
]
Picture = Annotated[
    str,
    StringConstraints(max_length=200_000, pattern=PICTURE.pattern),
    Printable,
]
TrackingPage = Annotated[
    str, StringConstraints(max_length=2048, pattern=r"^https?://\S*\{token\}\S*$")
]
Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]


class Payment(Body):
    enabled: bool = False
    fee: Money = 0
    instructions: LongText | None = None

    def stored(self) -> Document:
        return {**PAYMENT_OFF, **self.model_dump()}


class QrPayment(Payment):
    qr: Picture | None = None


class PaymentSettings(Body):
    cod: Payment | None = None
    custom_qr: QrPayment | None = None


class CustomerAccounts(Body):
    mode: Annotated[Literal["OPTIONAL", "REQUIRED", "GUEST_ONLY"], Upper]


CLEARABLE = {"logo", "seo_title", "seo_description", "merchant_email", "tracking_page"}


class StoreSettings(Body):
    store_name: Text | None = None
    active: bool | None = None
    cod_confirmation: bool | None = None
    payment_settings: PaymentSettings | None = None
    customer_accounts: CustomerAccounts | None = None
    timezone: Text | None = None
    locale: Text | None = None
    country: Country | None = None
    logo: Picture | None = None
    seo_title: OptionalText | None = None
    seo_description: LongText | None = None
    merchant_email: Email | None = None
    tracking_page: TrackingPage | None = None

    def columns(self) -> dict[str, Any]:
        """The members sent, as the store's columns; null clears what may be empty."""
        sent = self.model_dump(
            exclude_unset=True, exclude={"payment_settings", "customer_accounts"}
        )
        columns: dict[str, Any] = {
            "name" if name == "store_name" else name: value
            for name, value in sent.items()
            if value is not None or name in CLEARABLE
        }
        if self.customer_accounts is not None:
            columns["account_mode"] = self.customer_accounts.mode
        payment = self.payment_settings or PaymentSettings()
        if payment.cod is not None:
            columns["cod"] = payment.cod.stored()
        if payment.custom_qr is not None:
            columns["custom_qr"] = payment.custom_qr.stored()
        return columns


class NewStore(StoreSettings):
    subdomain: Subdomain
    currency: Currency = "INR"
    fixture: Literal["demo", "fresh", "empty", "large"] = "empty"


class NewKey(Body):
    name: Text = "key"
    scopes: Annotated[list[Scope], Field(max_length=9)] | None = None
    expires_at: Instant | None = None

    def require_future(self, now_ms: int) -> None:
        if self.expires_at is not None and self.expires_at <= now_ms:
            raise invalid([Flaw("/expiresAt", "OUT_OF_RANGE", "is over already")])
