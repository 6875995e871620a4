"""Access to the studio: only for the browser on this machine that opened its first address.

Every request passes `Guard` before any page sees it. Host and Origin are checked against the
addresses of this studio (DNS rebinding, pages of other sites), then the cookie, which is given once
for the token in the first address. Bodies are counted while they arrive, every request has a time
limit, and the headers of each answer let a browser load nothing from anywhere else.
"""

import asyncio
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from secrets import compare_digest
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from undertow.serving.http import announced, counted, with_headers
from undertow_studio.studio import Settings
from undertow_studio.tables import onwards

__all__ = ["Guard"]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # not no-referrer: browsers then send "Origin: null" with forms, and there is nothing to check
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}
"""What every answer carries."""

_OWN_SITES = ("same-origin", "none")
"""Sec-Fetch-Site of a page of the studio itself, and of an address that was typed."""

_READING = ("GET", "HEAD")

UPLOADS = "/upload"
"""How the paths end that take files."""


class Guard:
    """The ASGI application around the studio that lets the right requests through.

    The token is good for one exchange, after which ``exchanged`` is called; whoever has the cookie
    may use its address again. The first address may be opened from a file of this machine, which
    to a browser is another site: with the right token, and as a page of its own, that is let
    through.
    """

    def __init__(
        self, app: ASGIApp, settings: Settings, exchanged: Callable[[], object] = lambda: None
    ) -> None:
        self.app, self.settings = app, settings
        self._spent, self._exchanged = False, exchanged

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say why not."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, with_headers(send, HEADERS))
            return
        upload = scope["path"].endswith(UPLOADS)
        most = self.settings.upload if upload else self.settings.body
        seconds = self.settings.upload_seconds if upload else self.settings.seconds
        if announced(headers) > most:
            await _too_large(most)(scope, receive, with_headers(send, HEADERS))
            return
        sending = _Sending(with_headers(send, HEADERS))
        try:
            async with asyncio.timeout(seconds):
                await self.app(scope, counted(receive, most, _size_words(most)), sending)
        except TimeoutError:
            if not sending.begun:
                await _said(503, "this took longer than a request may take; try again")(
                    scope, receive, sending
                )

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Return why a request is not let through (or where it is sent), None if it is."""
        settings, hosts = self.settings, headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in settings.hosts:
            return _said(421, "this studio answers under its own address only")
        own = f"http://{hosts[0].lower()}"
        origins = headers.getlist("origin")
        if any(origin != own for origin in origins):
            return _said(403, "this request came from a page of another origin")
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        first = scope["path"] == "/" and bool(given) and scope["method"] == "GET"
        site = headers.get("sec-fetch-site")
        if site is not None and site not in _OWN_SITES:
            page = headers.get("sec-fetch-mode") == "navigate"
            page = page and headers.get("sec-fetch-dest") == "document"
            if not (first and page and self._right(given)):
                return _said(403, "this request came from another site")
            return self._exchange(given, known=False, foreign=True)
        if scope["method"] not in _READING and not origins and site != "same-origin":
            return _said(403, "a form must say which page it was sent from")
        if scope["path"].startswith("/static/") and scope["method"] in _READING:
            return None
        known = self._known(headers)
        if first:
            return self._exchange(given, known=known)
        return None if known else _said(403, _NO_COOKIE)

    def _known(self, headers: Headers) -> bool:
        """Return whether a request carries the cookie of this run."""
        for name, value in _cookies(headers.getlist("cookie")):
            if name == self.settings.cookie_name:
                return compare_digest(value.encode(), self.settings.cookie.encode())
        return False

    def _right(self, given: list[str]) -> bool:
        """Return whether a token is the one of this run."""
        return len(given) == 1 and compare_digest(given[0].encode(), self.settings.token.encode())

    def _exchange(self, given: list[str], *, known: bool, foreign: bool = False) -> Response:
        """Give the cookie for the token, once, and send the browser to an address without it.

        A browser that comes from a ``foreign`` page does not send the cookie where it is
        redirected to, so it is given a page that goes on by itself.
        """
        if known:
            return RedirectResponse("/", 303)
        if not self._right(given):
            return _said(403, "this address has the wrong token; use the one that was printed")
        if self._spent:
            return _said(403, _USED)
        self._spent = True
        self._exchanged()
        answer = HTMLResponse(_ONWARDS) if foreign else RedirectResponse("/", 303)
        answer.set_cookie(
            self.settings.cookie_name, self.settings.cookie, httponly=True, samesite="strict"
        )
        return answer


_ONWARDS = onwards("/")
_NO_COOKIE = (
    "this browser has not opened the studio; open the address that 'undertow studio' printed"
)
_USED = (
    "the address with the token was opened already, and is good for one browser; if that was not "
    "you, end 'undertow studio' with Ctrl-C; else use that browser, or start the studio again"
)


class _Sending:
    """Sends an answer, and knows whether it has begun."""

    def __init__(self, send: Send) -> None:
        self.send, self.begun = send, False

    async def __call__(self, message: Message) -> None:
        self.begun = True
        await self.send(message)


def _cookies(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for line in lines:
        for part in line.split(";"):
            read: SimpleCookie = SimpleCookie()
            try:
                read.load(part.strip())
            except CookieError:  # somebody else's: cookies are shared between ports
                continue
            for name, morsel in read.items():
                yield name, morsel.value


def _too_large(most: int) -> Response:
    return _said(413, _size_words(most))


def _size_words(most: int) -> str:
    return (
        f"at most {most / 2**20:g} MiB are taken; name a larger file on the command line: "
        "undertow studio FILE"
    )


def _said(status: int, words: str) -> Response:
    return PlainTextResponse(f"undertow studio: {words}\n", status)
