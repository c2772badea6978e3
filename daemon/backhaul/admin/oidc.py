"""Single sign-on: the client of an identity provider that speaks OpenID Connect.

It uses the authorization code flow with PKCE. The ID token comes from the provider's
token endpoint, and its signature and claims are checked all the same.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec
from msgspec import Struct

from backhaul.errors import BackhaulError
from backhaul.store.operators import ROLES, Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.settings.infrastructure import Oidc

T = TypeVar("T")
CALLBACK = "/login/oidc/callback"
DISCOVERY = "/.well-known/openid-configuration"
ANSWER_SECONDS = 10.0
DISCOVERY_SECONDS = 300.0
"""How long the discovery document is used. Keys are read for each login."""
RANDOM_BYTES = 32
_LONGEST_WORDS = 200


class SignOnFailed(BackhaulError):
    """A user cannot log in at the identity provider now; the text says what to do."""


class NoRole(SignOnFailed):
    """The identity provider gives a user no role; `identity` is the user's."""

    def __init__(self, text: str, identity: str) -> None:
        super().__init__(text)
        self.identity = identity


class Discovery(Struct, frozen=True):
    """The part of a provider's metadata that a login needs."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    code_challenge_methods_supported: tuple[str, ...] | None = None


class Begun(Struct, frozen=True):
    """What a login remembers until the browser comes back."""

    state: str
    nonce: str
    verifier: str
    path: str
    """Where the browser goes after the login."""

    @classmethod
    def new(cls, path: str) -> Begun:
        state, nonce, verifier = (secrets.token_urlsafe(RANDOM_BYTES) for _ in range(3))
        return cls(state, nonce, verifier, path)


class SignedOn(Struct, frozen=True):
    """Whom the provider let in: issuer and subject, a name, and the role."""

    identity: str
    name: str
    role: Role


class _Answer(Struct):
    """A token endpoint's answer; either a token or an error is there."""

    id_token: str = ""
    error: str = ""
    error_description: str = ""


class Provider:
    """One identity provider; `url` is the address of the dashboard."""

    def __init__(self, settings: Oidc, url: str, clock: Clock) -> None:
        self._settings = settings
        self._issuer = settings.issuer or ""
        self._client_id = settings.client_id or ""
        self._url = url
        self._clock = clock
        self._discovery: tuple[float, Discovery] | None = None
        self.button = settings.button

    async def discovery(self) -> Discovery:
        """Return the provider's metadata. Raises SignOnFailed."""
        now = self._clock.monotonic()
        if self._discovery and now - self._discovery[0] < DISCOVERY_SECONDS:
            return self._discovery[1]
        url = f"{self._issuer}{DISCOVERY}"
        found = _decode(await self._get(url), Discovery, url)
        self._check(found, url)
        self._discovery = now, found
        return found

    def _check(self, found: Discovery, url: str) -> None:
        if found.issuer.rstrip("/") != self._issuer:
            raise SignOnFailed(
                f"{url} belongs to the issuer {found.issuer}; in [admin.oidc], set"
                f" issuer to {found.issuer}"
            )
        methods = found.code_challenge_methods_supported
        if methods is not None and "S256" not in methods:
            raise SignOnFailed(
                f"the identity provider {self._issuer} does not support PKCE with"
                " S256, which Backhaul requires; enable it there"
            )
        used = (found.authorization_endpoint, found.token_endpoint, found.jwks_uri)
        if self._issuer.startswith("https:") and not all(
            each.startswith("https:") for each in used
        ):
            raise SignOnFailed(
                f"{url} names an address without https; correct the identity provider"
            )

    async def address(self, begun: Begun) -> str:
        """Return where the browser has to go. Raises SignOnFailed."""
        found = await self.discovery()
        digest = hashlib.sha256(begun.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": f"{self._url}{CALLBACK}",
            "scope": " ".join(self._settings.scopes),
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return _with_query(found.authorization_endpoint, query)

    async def logout_address(self) -> str | None:
        """Return where the browser logs out at the provider, if it offers that."""
        try:
            end = (await self.discovery()).end_session_endpoint
        except SignOnFailed:
            return None
        back = {
            "client_id": self._client_id,
            "post_logout_redirect_uri": f"{self._url}/login",
        }
        return end and _with_query(end, back)

    async def finish(self, code: str, begun: Begun) -> SignedOn:
        """Exchange the code, check the ID token, and return the user.

        Raises SignOnFailed, and NoRole if the claims give no role.
        """
        found = await self.discovery()
        token = await self._token(found, code, begun)
        from backhaul.admin.id_tokens import IdTokenCheck, TokenRefused  # slow

        check = IdTokenCheck(
            issuer=found.issuer,
            client_id=self._client_id,
            clock_skew=int(self._settings.clock_skew),
            keys=_decode(await self._get(found.jwks_uri), object, found.jwks_uri),
            keys_url=found.jwks_uri,
        )
        try:
            claims = check.claims(token, begun.nonce, self._clock.now())
        except TokenRefused as error:
            raise SignOnFailed(str(error)) from None
        return self._user(claims)

    async def _token(self, found: Discovery, code: str, begun: Begun) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": f"{self._url}{CALLBACK}",
            "code_verifier": begun.verifier,
            "client_id": self._client_id,
        }
        auth, secret = None, ""
        if self._settings.client_secret:
            secret = self._settings.client_secret.get_secret_value()
            methods = found.token_endpoint_auth_methods_supported
            if "client_secret_basic" in methods or "client_secret_post" not in methods:
                auth = httpx.BasicAuth(*map(_form_encoded, (self._client_id, secret)))
            else:
                form["client_secret"] = secret
        url = found.token_endpoint
        answer = await self._request("POST", url, data=form, auth=auth)
        is_words = answer.is_success or answer.is_client_error
        said = _decode(answer.content, _Answer, url) if is_words else _Answer()
        if answer.is_success and said.id_token:
            return said.id_token
        hidden = (code, begun.verifier, secret)
        raise SignOnFailed(self._refusal(answer.status_code, said, hidden))

    def _refusal(self, status: int, said: _Answer, secret: Sequence[str]) -> str:
        """Return what the token endpoint said, without the secrets sent to it."""
        if status == httpx.codes.UNAUTHORIZED or said.error == "invalid_client":
            return (
                f"the identity provider {self._issuer} does not accept our client_id"
                " and client_secret; correct both in [admin.oidc] and restart the"
                " daemon"
            )
        if said.error:
            words = printed(said.error, said.error_description)
            for hidden in filter(None, secret):
                words = words.replace(hidden, "…")
            return (
                f"the identity provider {self._issuer} refused the login: {words}; log"
                f" in again, and check that the redirect URI {self._url}{CALLBACK} is"
                " registered there"
            )
        return (
            f"the identity provider {self._issuer} answered {status} without an ID"
            " token; read its log, and check scopes in [admin.oidc]"
        )

    def _user(self, claims: Mapping[str, Any]) -> SignedOn:
        identity = f"{self._issuer} {claims['sub']}"
        name = _login_name(claims.get(self._settings.name_claim) or claims["sub"])
        given = _values(claims, self._settings.role_claim)
        for role in sorted(Role, reverse=True):
            if given & set(getattr(self._settings, f"{role.word}s")):
                return SignedOn(identity, name, role)
        raise NoRole(
            f"the identity provider {self._issuer} let {name} in, but its claim"
            f" {self._settings.role_claim} gives none of the roles {', '.join(ROLES)};"
            " an administrator can add the user to a group there, or a group to"
            " viewers, operators or admins in [admin.oidc]",
            identity,
        )

    async def _get(self, url: str) -> bytes:
        answer = await self._request("GET", url)
        if answer.is_success:
            return answer.content
        raise SignOnFailed(
            f"the identity provider answered {answer.status_code} to GET {url}; check"
            " issuer in [admin.oidc]"
        )

    async def _request(self, method: str, url: str, **more: Any) -> httpx.Response:
        # It reads the certificates of the machine, which takes a while.
        trusted = await asyncio.to_thread(httpx.create_ssl_context)
        headers = {"Accept": "application/json"}
        try:
            async with httpx.AsyncClient(
                verify=trusted, timeout=ANSWER_SECONDS, headers=headers
            ) as client:
                return await client.request(method, url, **more)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            words = str(error) or type(error).__name__
            raise SignOnFailed(
                f"the identity provider cannot be reached at {url}: {words}; check"
                " issuer in [admin.oidc], the network and the provider, and try again"
            ) from None


def printed(*words: str) -> str:
    """Return words from outside for the log and a page: short, and on one line."""
    text = " ".join(" ".join(words).split())
    return text[:_LONGEST_WORDS]


def _decode(content: bytes, kind: type[T], url: str) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise SignOnFailed(
            f"{url} does not answer as an identity provider does: {error}; check issuer"
            " in [admin.oidc]"
        ) from None


def _with_query(address: str, query: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"


def _form_encoded(text: str) -> str:
    """Encode a part of the Authorization header as RFC 6749 (2.3.1) asks."""
    return quote(text, safe="")


def _values(claims: Mapping[str, Any], path: str) -> set[str]:
    """Return the texts of a claim; the name of a claim may itself have dots."""
    found: object = claims.get(path)
    if found is None:
        found = claims
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
    texts = found if isinstance(found, list) else [found]
    return {text for text in texts if isinstance(text, str)}


_MAX_NAME = 64
_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._@-")


def _login_name(text: object) -> str:
    """Return a name for the audit log and the pages, from what the provider says."""
    known = (each if each in _IN_NAMES else "-" for each in str(text).lower())
    return "".join(known).strip("._@-")[:_MAX_NAME] or "user"
