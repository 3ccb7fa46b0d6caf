"""The page of a session, for one person on one machine, with the HTTP server of the standard library.

For a dozen fixed addresses, one user and no network the standard library is enough, and the protection against others
would have to be written here with any library:

    127.0.0.1 only; every address begins with a random token, else 403
    Host must be this server's own (against DNS rebinding), else 403
    Origin and Sec-Fetch-Site, where a browser sends them, must be this page's own, else 403; posts are JSON
    only the page itself may be opened by a link, or by a file, that has the token
    a content security policy that lets the page load nothing but these addresses, and run no script but its own files
    rows and pictures are requested by number, and page files are a fixed list: no address is ever used as a path
    a bounded number of connections; for one more, the oldest that has not sent the token is closed
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from threading import Semaphore
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .session import Refused, Session

HOST = "127.0.0.1"
LARGEST = 10_000  # bytes of a request's body
PATIENCE = 20.0  # seconds that a request for the state waits for a change
CONNECTIONS = 32  # connections at once, each with a thread; a browser opens six
TOKEN_WAIT = 3.0  # seconds after which a silent connection is closed that has not sent the token
IDLE = 60.0  # seconds after which any other silent connection is closed
CLOSING = 1.0  # seconds that a new connection waits for the end of another one, if there are too many
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
FILES = ("label.html", "common.css", "label.css", "common.js", "map.js", "label.js")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class RefusedRequest(Exception):
    """A request that is refused with a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class LabelServer(ThreadingHTTPServer):
    """Serves one session at `address`. If the port is 0, a free port is used."""

    daemon_threads = True
    request_queue_size = CONNECTIONS
    allow_reuse_address = os.name == "posix"  # on Windows another program could then use the port of a running server

    def __init__(self, session: Session, setup: dict[str, Any], token: str, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.session, self.token = session, token
        self.free = Semaphore(CONNECTIONS)
        self.unverified: dict[Any, None] = {}  # connections that have not sent the token, the oldest first
        self.opened: Callable[[], None] = lambda: None  # called whenever the page itself is requested
        self.setup = _dumps(setup)
        page = resources.files(__name__.split(".labelling")[0]) / "report" / "page"
        self.files = {name: (page / name).read_bytes() for name in FILES}
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in its own thread; if there are too many, the oldest without the token is closed."""
        if not self.free.acquire(blocking=False):
            for oldest in list(self.unverified)[:1]:
                with suppress(OSError):  # it was closed in the meantime
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread ends
            if not self.free.acquire(timeout=CLOSING):
                self.shutdown_request(request)
                return
        self.unverified[request] = None
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._ended(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection, and make room for another one when it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._ended(request)

    def _ended(self, request: Any) -> None:
        self.unverified.pop(request, None)
        self.free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that a page closes during an answer."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: LabelServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "gpum", ""
    timeout = TOKEN_WAIT

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def log_message(self, *args: Any) -> None:
        """Log nothing: addresses contain the token."""

    def _answer(self, find: Callable[[str, dict[str, list[str]]], tuple[str, bytes]]) -> None:
        try:
            name, query = self._admitted()
            self.server.unverified.pop(self.connection, None)
            self.connection.settimeout(IDLE)
            status, (kind, body) = 200, find(name, query)
        except RefusedRequest as error:
            self.close_connection = True  # the rest of the request was not read
            status, kind, body = error.status, "text/plain; charset=utf-8", str(error).encode()
        except Refused as error:
            status, (kind, body) = 409 if error.conflict else 400, _json({"error": str(error)})
        except ValueError as error:
            status, (kind, body) = 400, _json({"error": str(error)})
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _admitted(self) -> tuple[str, dict[str, list[str]]]:
        """The address after the token, and its query; raises if the request is not allowed."""
        if len(self.headers.get_all("Host", [])) != 1 or self.headers["Host"] not in self.server.hosts:
            raise RefusedRequest(403, "This server answers to its own name only.")
        origin = self.headers["Origin"]
        if origin is not None and origin.removeprefix("http://") not in self.server.hosts:
            raise RefusedRequest(403, "Requests from other web pages are refused.")
        address = urlsplit(self.path)
        _, token, *rest = address.path.split("/", 2)
        if self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none") and not self._led(rest):
            raise RefusedRequest(403, "Requests from other web pages are refused.")
        if not rest or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise RefusedRequest(403, "Open the address that gpum label printed: it holds a token that this one lacks.")
        return rest[0], parse_qs(address.query)

    def _led(self, rest: list[str]) -> bool:
        """Whether a link, or a file, led a browser to the page itself."""
        how = self.command, self.headers.get("Sec-Fetch-Mode"), self.headers.get("Sec-Fetch-Dest")
        return rest == [""] and how == ("GET", "navigate", "document")

    def _get(self, name: str, query: dict[str, list[str]]) -> tuple[str, bytes]:
        session = self.server.session
        if not name:
            self.server.opened()
        name = name or "label.html"
        if name in self.server.files:
            return f"{KINDS[name[name.rindex('.') :]]}; charset=utf-8", self.server.files[name]
        if name == "setup":
            return "application/json", self.server.setup
        if name == "state":
            version, belief = (query.get(name, [""])[0] for name in ("version", "belief"))
            return _json(session.wait(version, belief, PATIENCE))
        what, _, number = name.partition("/")
        if what in ("row", "picture") and number.isdecimal():
            return self._about(what, number)
        raise RefusedRequest(404, "There is nothing at this address.")

    def _about(self, what: str, number: str) -> tuple[str, bytes]:
        """Data of a row, or its picture."""
        session, last = self.server.session, len(self.server.session.work.X) - 1
        if len(number) > len(str(last)) or int(number) > last:
            raise RefusedRequest(404, f"There is no row {number[:20]}; rows are 0 to {last}.")
        row, pictures = int(number), session.work.pictures
        if what == "row":
            return _json(session.about(row))
        if pictures is None or not pictures.has(row):
            raise RefusedRequest(404, "This row has no picture.")
        try:
            return pictures.get(row)
        except OSError as error:
            name = Path(error.filename or "").name
            raise RefusedRequest(404, f"The picture of this row, {name}, cannot be read any more.") from None

    def _post(self, name: str, query: dict[str, list[str]]) -> tuple[str, bytes]:
        session, asked = self.server.session, self._body()
        id = asked.get("id")
        if not (isinstance(id, str) and 8 <= len(id) <= 64 and id.isascii() and id.replace("-", "").isalnum()):
            raise RefusedRequest(400, "A request needs its own id.")
        done = ""
        if name == "label":
            value, previous = str(asked.get("value", "")), str(asked.get("previous", ""))
            session.label(id, asked.get("row"), value, previous)
        elif name == "undo":
            session.undo(id, str(asked.get("of")))
        elif name == "skip":
            session.skip(id, asked.get("row"))
        elif name == "goal":
            session.aim(str(asked.get("goal")), str(asked.get("level", "")))
        elif name == "export":
            done = session.export()
        else:
            raise RefusedRequest(404, "There is nothing at this address.")
        return _json({"done": done, **session.state(str(asked.get("belief")))})

    def _body(self) -> dict[str, Any]:
        """The JSON object that was posted."""
        if self.headers.get_content_type() != "application/json" or "Transfer-Encoding" in self.headers:
            raise RefusedRequest(415, "Requests are JSON of a known length.")
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal():
            raise RefusedRequest(411, "Requests are JSON of a known length.")
        if int(size) > LARGEST:
            raise RefusedRequest(413, f"A request has at most {LARGEST} bytes.")
        try:
            found = json.loads(self.rfile.read(int(size)))
        except (ValueError, RecursionError):
            raise RefusedRequest(400, "The request is not JSON.") from None
        if not isinstance(found, dict):
            raise RefusedRequest(400, "The request is not a JSON object.")
        return found


def _json(content: Any) -> tuple[str, bytes]:
    return "application/json", _dumps(content)


def _dumps(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
