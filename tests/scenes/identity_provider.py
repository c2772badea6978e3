"""An identity provider that signs ID tokens, also wrong ones, on a test's clock."""

from __future__ import annotations

import base64
import hashlib
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from aiohttp import BasicAuth, web
from aiohttp.test_utils import TestServer
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from scenes.dashboard import open_office
from scenes.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aiohttp import ClientResponse

    from scenes.clock import VirtualClock
    from scenes.dashboard import Browser, Office

CLIENT, SECRET = "backhaul", "a/secret:of+the+client"
PUBLISHED = "c2VjcmV0LXRoYXQtZXZlcnlib2R5LWNhbi1yZWFk"
"""A secret key that the provider publishes by mistake."""
KEYS = [RSAKey.generate_key(2048, {"kid": name, "use": "sig"}) for name in "abc"]
ROLES = {"viewers": ["staff"], "operators": ["warehouse"], "admins": ["it"]}


@dataclass(slots=True)
class IdentityProvider:
    """The provider's state; a test may change what it signs and answers."""

    clock: VirtualClock
    server: TestServer
    signing: RSAKey | OctKey = field(default_factory=lambda: KEYS[0])
    published: list[RSAKey] = field(default_factory=lambda: [KEYS[0]])
    other_keys: list[dict[str, str]] = field(
        default_factory=lambda: [
            {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA", "kid": "new"},
            {"kty": "oct", "k": PUBLISHED, "kid": "shared"},
        ]
    )
    """Published keys that cannot verify a token: an unknown type, a secret key."""
    header: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    """Claims that replace those of a token; None removes one."""
    more: dict[str, Any] = field(default_factory=dict)
    """Members that replace those of the discovery document."""
    methods: list[str] = field(default_factory=lambda: ["client_secret_basic"])
    answer: tuple[int, dict[str, Any]] | None = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    def allow(self, address: str, **claims: Any) -> str:
        """Log in a user who was redirected here; return the path back to Backhaul."""
        query = {
            name: one for name, (one,) in parse_qs(urlsplit(address).query).items()
        }
        assert (query["client_id"], query["response_type"]) == (CLIENT, "code")
        assert query["code_challenge_method"] == "S256"
        self.claims |= claims
        code = f"code-{len(self.codes)}-of-the-provider"
        self.codes[code] = query
        back = urlsplit(query["redirect_uri"]).path
        return f"{back}?code={code}&state={query['state']}"

    async def describe(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize?tenant=1",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "end_session_endpoint": f"{self.issuer}/logout",
                "token_endpoint_auth_methods_supported": self.methods,
                "code_challenge_methods_supported": ["S256", "plain"],
            }
            | self.more
        )

    async def publish(self, _: web.Request) -> web.Response:
        keys: list[Any] = [each.as_dict(private=False) for each in self.published]
        return web.json_response({"keys": keys + self.other_keys})

    async def issue(self, request: web.Request) -> web.Response:
        """Exchange a code for a token, once, for the client and browser that began."""
        if self.answer:
            status, members = self.answer
            return web.json_response(members, status=status)
        form = await request.post()
        if not self._is_our_client(request, form):
            return web.json_response({"error": "invalid_client"}, status=401)
        asked = self.codes.pop(str(form["code"]), None)
        digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        if (
            asked is None
            or _base64(digest) != asked["code_challenge"]
            or form["redirect_uri"] != asked["redirect_uri"]
        ):
            return web.json_response({"error": "invalid_grant"}, status=400)
        token = self.sign(asked["nonce"])
        self.tokens.append(token)
        return web.json_response({"access_token": "t", "id_token": token})

    def _is_our_client(self, request: web.Request, form: Any) -> bool:
        if "client_secret_basic" not in self.methods:
            return (form["client_id"], form["client_secret"]) == (CLIENT, SECRET)
        given = BasicAuth.decode(request.headers.get("Authorization", "Basic Og=="))
        encoded = SECRET.replace("/", "%2F").replace(":", "%3A").replace("+", "%2B")
        return (given.login, given.password) == (CLIENT, encoded)

    def sign(self, nonce: str) -> str:
        now = int(self.clock.now().timestamp())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "248289761001",
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            "preferred_username": "Ann Lee",
            "groups": ["staff"],
        } | self.claims
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": "RS256", "kid": self.signing.kid} | self.header
        header = {name: value for name, value in header.items() if value is not None}
        if header["alg"] == "none":
            parts = (msgspec.json.encode(each) for each in (header, claims))
            return ".".join([*map(_base64, parts), ""])
        return jwt.encode(header, claims, self.signing, [header["alg"]])


def _base64(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


@asynccontextmanager
async def open_provider(clock: VirtualClock) -> AsyncIterator[IdentityProvider]:
    app = web.Application()
    server = TestServer(app)
    provider = IdentityProvider(clock, server)
    app.router.add_get("/.well-known/openid-configuration", provider.describe)
    app.router.add_get("/keys", provider.publish)
    app.router.add_post("/token", provider.issue)
    await server.start_server(access_log=None)
    try:
        yield provider
    finally:
        await server.close()


@asynccontextmanager
async def open_both(
    folder: Path, clock: VirtualClock, **changed: Any
) -> AsyncIterator[tuple[Office, IdentityProvider]]:
    """Serve a dashboard whose users may log in at a provider."""
    async with open_provider(clock) as provider:
        port = free_port()
        admin = {
            "url": f"http://127.0.0.1:{port}",
            "oidc": settings_of(provider, **changed.pop("oidc", {})),
        }
        async with open_office(
            folder, clock=clock, port=port, **{**admin, **changed}
        ) as office:
            yield office, provider


def settings_of(provider: IdentityProvider, **changed: Any) -> dict[str, Any]:
    """Return the settings of `[admin.oidc]` for a provider."""
    own = {"issuer": provider.issuer, "client_id": CLIENT, "client_secret": SECRET}
    return {**own, **ROLES, **changed}


async def sent_to(browser: Browser, path: str = "/login/oidc") -> str:
    """Begin a login; return the address to which the browser is redirected."""
    answer = await browser.get(path)
    assert answer.status == 303, await answer.text()
    return answer.headers["Location"]


async def sign_on(
    browser: Browser, provider: IdentityProvider, **claims: Any
) -> ClientResponse:
    """Log in at the provider, and return to the dashboard."""
    return await browser.get(provider.allow(await sent_to(browser), **claims))
