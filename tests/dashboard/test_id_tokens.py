"""Invalid ID tokens are refused, and the keys of the provider may rotate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from joserfc.jwk import OctKey

from scenes.identity_provider import KEYS, PUBLISHED, SECRET, sign_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from scenes.dashboard import Office
    from scenes.identity_provider import IdentityProvider

Both = tuple["Office", "IdentityProvider"]


def changed(**claims: Any) -> Callable[[IdentityProvider], None]:
    def change(provider: IdentityProvider) -> None:
        provider.claims |= claims

    return change


def later(seconds: int, *names: str) -> Callable[[IdentityProvider], None]:
    def change(provider: IdentityProvider) -> None:
        now = int(provider.clock.now().timestamp())
        provider.claims |= dict.fromkeys(names, now + seconds)

    return change


def unsigned(provider: IdentityProvider) -> None:
    provider.header = {"alg": "none", "kid": None}


def signed_by_secret(provider: IdentityProvider) -> None:
    provider.signing = OctKey.import_key(SECRET * 2, {"kid": "a"})
    provider.header = {"alg": "HS256"}


def signed_by_published_secret(provider: IdentityProvider) -> None:
    provider.signing = OctKey.import_key({"kty": "oct", "k": PUBLISHED})
    provider.header = {"alg": "HS256", "kid": "shared"}


def signed_by_other(provider: IdentityProvider) -> None:
    provider.signing, provider.header = KEYS[1], {"kid": "a"}


def unknown_key(provider: IdentityProvider) -> None:
    provider.signing = KEYS[1]


def no_key_id(provider: IdentityProvider) -> None:
    provider.published = KEYS[:2]
    provider.header = {"kid": None}


WRONG: dict[str, tuple[Callable[[IdentityProvider], None], str]] = {
    "audience": (changed(aud="other"), "the claim aud is wrong"),
    "no audience": (changed(aud=None), "the claim aud is wrong"),
    "audiences": (changed(aud=["other", "more"]), "the claim aud is wrong"),
    "party": (changed(azp="other"), "the claim azp is wrong"),
    "parties": (changed(aud=["backhaul", "x"]), "the claim azp is wrong"),
    "issuer": (changed(iss="https://evil.example"), "the claim iss is wrong"),
    "nonce": (changed(nonce="of another login"), "the claim nonce is wrong"),
    "no nonce": (changed(nonce=None), "the claim nonce is wrong"),
    "no subject": (changed(sub=None), "the claim sub is wrong"),
    "empty subject": (changed(sub=""), "the claim sub is wrong"),
    "expired": (later(-61, "exp"), "is not valid at 12:00:00 UTC"),
    "no expiry": (changed(exp=None), "the claim exp is wrong"),
    "from the future": (later(61, "iat"), "is not valid at 12:00:00 UTC"),
    "without time": (changed(iat=None), "is not valid at 12:00:00 UTC"),
    "alg none": (unsigned, "its signature is not valid"),
    "alg of a secret": (signed_by_secret, "its signature is not valid"),
    "published secret": (signed_by_published_secret, "its signature is not valid"),
    "other key": (signed_by_other, "its signature is not valid"),
    "unknown key": (unknown_key, "its signature is not valid"),
    "no key id": (no_key_id, "its signature is not valid"),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_token_is_refused(both: Both, wrong: str) -> None:
    office, provider = both
    change, said = WRONG[wrong]
    change(provider)
    browser = await office.browser()
    answer = await sign_on(browser, provider)
    inside = (await browser.get("/")).status == 200
    assert (answer.status, inside) == (403, False)
    assert said in await answer.text()
    assert provider.tokens, "it was the token that was refused"
    assert await office.store.users.find("ann-lee") is None


@pytest.mark.parametrize(("seconds", "name"), [(-59, "exp"), (59, "iat")])
async def test_clocks_may_differ_a_little(both: Both, seconds: int, name: str) -> None:
    office, provider = both
    later(seconds, name)(provider)
    assert (await sign_on(await office.browser(), provider)).status == 200


async def test_the_keys_of_the_provider_rotate(both: Both) -> None:
    office, provider = both
    assert (await sign_on(await office.browser(), provider)).status == 200
    provider.signing, provider.published = KEYS[1], [KEYS[1]]
    assert (await sign_on(await office.browser(), provider)).status == 200
    # A key that the provider withdrew is worth nothing at once.
    provider.signing = KEYS[0]
    assert (await sign_on(await office.browser(), provider)).status == 403


async def test_a_single_key_needs_no_id(both: Both) -> None:
    office, provider = both
    provider.other_keys.pop()
    provider.header = {"kid": None}
    assert (await sign_on(await office.browser(), provider)).status == 200
