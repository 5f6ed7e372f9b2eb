"""A web page for one person on this machine: bound to loopback, behind a random token, and to nobody else's use.

Only requests that name this server as their host are answered, so that no other site can reach it by a name of its own;
what changes something is a POST that the page itself has sent. Requests are answered one after the other.
"""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import parse_qsl

from envos.errors import EnvOSError, UsageError

HOST = "127.0.0.1"
BODY_LIMIT = 65_536
"""Bytes of a request's body."""
_WAIT = 0.2
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class Call:
    """A request: the path after the token ("/", "/act"), its query, and the JSON object of a POST."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Response:
    """What a request gets; `policy` is the content security policy of a page."""

    status: int
    kind: str
    body: str
    policy: str = "default-src 'none'"


Answer = Callable[[Call], Response]


def text(status: int, said: str) -> Response:
    """A plain text."""
    return Response(status, "text/plain", said)


def data(found: Mapping[str, Any]) -> Response:
    """A JSON document."""
    return Response(200, "application/json", json.dumps(found))


class Server(ThreadingHTTPServer):
    """Serves `answer` on a port of the loopback interface (0: any that is free). Raises UsageError for a taken one."""

    daemon_threads = True

    def __init__(self, answer: Answer, port: int = 0) -> None:
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UsageError(f"port {port} of {HOST} cannot be used: {error}") from error
        self.answer = answer
        self.token = secrets.token_urlsafe(16)
        self.turn = Lock()
        self._thread = Thread(target=self.serve_forever, args=(_WAIT,), name="envos-web", daemon=True)
        self._thread.start()

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that a browser on this machine has for this server."""
        return tuple(f"{name}:{self.server_address[1]}" for name in (HOST, "localhost"))

    @property
    def url(self) -> str:
        """The address of the first page."""
        return f"http://{self.hosts[0]}/{self.token}/"

    def stop(self) -> None:
        """Serve no more."""
        self.shutdown()
        self._thread.join()
        self.server_close()

    def until(self, done: Event) -> None:
        """Serve until `done` is set, or the person stops it with Ctrl-C."""
        try:
            while not done.wait(_WAIT):
                pass
        except KeyboardInterrupt:
            pass
        finally:
            self.stop()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that hangs up is no error."""


class _Handler(BaseHTTPRequestHandler):
    timeout = 30
    server: Server

    def do_GET(self) -> None:
        self._reply(self._answered("GET"))

    def do_POST(self) -> None:
        self._reply(self._answered("POST"))

    def _answered(self, method: str) -> Response:
        server, host = self.server, self.headers.get("Host", "")
        if host not in server.hosts:
            return text(403, "This server answers to its own address only.")
        path, _, query = self.path.partition("?")
        first, _, rest = path.removeprefix("/").partition("/")
        if not secrets.compare_digest(first.encode("utf-8", "replace"), server.token.encode()):
            return text(404, "There is no such page.")
        body: Any = {}
        if method == "POST":
            if self.headers.get("Origin") != f"http://{host}" or self.headers.get("Sec-Fetch-Site") not in _SAME:
                return text(403, "Only this server's own page may ask for that.")
            try:
                body = self._body()
            except ValueError as error:
                return text(400, str(error))
        call = Call(method, f"/{rest}", dict(parse_qsl(query)), body)
        try:
            with server.turn:
                return server.answer(call)
        except EnvOSError as error:
            return text(400, str(error))
        except Exception as error:  # noqa: BLE001 - the person is told, and the server goes on
            return text(500, f"internal error: {type(error).__name__}: {error}")

    def _body(self) -> Mapping[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal() and int(length) <= BODY_LIMIT):
            raise ValueError(f"a request holds at most {BODY_LIMIT} bytes")
        if self.headers.get_content_type() != "application/json":
            raise ValueError("a request holds JSON")
        try:
            found = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise ValueError("a request holds JSON") from error
        if not isinstance(found, dict):
            raise ValueError("a request holds a JSON object")
        return found

    def _reply(self, response: Response) -> None:
        body = response.body.encode("utf-8", "backslashreplace")
        self.send_response(response.status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", f"{response.policy}; frame-ancestors 'none'")
        self.send_header("Content-Type", f"{response.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """What this is, without versions."""
        return "envos"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the token stands in every path."""


_SAME = (None, "same-origin")
