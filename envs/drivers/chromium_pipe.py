"""Talking to a browser: commands go down one pipe, replies and events come up another (Chrome DevTools Protocol).

One thread reads and sorts messages into an inbox for each session; it does nothing else. Everything that a message
calls for, the answer to a page's request included, is done by the thread that waits for it. So no environment needs an
event loop, and nothing of an environment ever happens between two calls of it.
"""

import json
import os
from collections.abc import Callable, Mapping
from itertools import count
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import monotonic
from typing import Any

from envos.errors import BrowserError

TIMEOUT = 60.0
"""Seconds that one operation may take before the browser counts as hung."""
_CHUNK = 2**20

Message = dict[str, Any]
Inbox = SimpleQueue[Message | None]


class Pipe:
    """The two ends of a browser's pipes: `reader` and `writer` are file descriptors."""

    def __init__(self, reader: int, writer: int) -> None:
        self.gone = False
        self._reader, self._writer = reader, writer
        self._lock = Lock()
        self._numbers = count(1)
        self._inboxes: dict[str, Inbox] = {}
        self._thread = Thread(target=self._read, name="envos-chromium", daemon=True)
        self._thread.start()

    def register(self, session: str) -> Inbox:
        """Where the messages of a session arrive ("" is the browser's own); None means that the browser is gone."""
        inbox: Inbox = SimpleQueue()
        self._inboxes[session] = inbox
        if self.gone:
            inbox.put(None)
        return inbox

    def forget(self, session: str) -> None:
        """Drop what still comes for a session."""
        self._inboxes.pop(session, None)

    def send(self, session: str, method: str, params: Mapping[str, Any]) -> int:
        """Send a command; returns the number that its reply will have. Raises BrowserError."""
        with self._lock:
            if self.gone:
                raise BrowserError("the browser is gone")
            number = next(self._numbers)
            message: Message = {"id": number, "method": method, "params": params}
            if session:
                message["sessionId"] = session
            data = memoryview(json.dumps(message).encode() + b"\0")
            try:
                while data:
                    data = data[os.write(self._writer, data) :]
            except OSError as error:
                raise BrowserError("the browser is gone") from error
        return number

    def join(self) -> None:
        """Wait for the reading thread, which ends with the browser."""
        self._thread.join(TIMEOUT)
        self.gone = True

    def _read(self) -> None:
        rest = b""
        while True:
            try:
                data = os.read(self._reader, _CHUNK)
            except OSError:
                break
            if not data:
                break
            *whole, rest = (rest + data).split(b"\0")
            for part in whole:
                message = json.loads(part)
                inbox = self._inboxes.get(message.get("sessionId", ""))
                if inbox is not None:
                    inbox.put(message)
        self.gone = True
        for inbox in list(self._inboxes.values()):
            inbox.put(None)


class Session:
    """One target's side of the pipe, used by one thread at a time; `on` maps names of events to what they call for."""

    def __init__(self, pipe: Pipe, name: str, on: Mapping[str, Callable[[Message], None]]) -> None:
        self.name = name
        self._pipe, self._on = pipe, on
        self._inbox = pipe.register(name)
        self._sent: dict[int, str] = {}
        self._replies: dict[int, Message] = {}
        self._awaited: set[int] = set()

    def cast(self, method: str, **params: Any) -> int:
        """Send a command and go on; an error that it meets is raised by a later call."""
        number = self._pipe.send(self.name, method, params)
        self._sent[number] = method
        return number

    def call(self, method: str, **params: Any) -> Message:
        """Send a command and wait for its result. Raises BrowserError."""
        number = self.cast(method, **params)
        self._awaited.add(number)
        try:
            self.settle(number)
        finally:
            self._awaited.discard(number)
        return self._replies.pop(number)

    def settle(self, number: int) -> None:
        """Wait until a command has been carried out. Raises BrowserError."""
        self.wait(lambda: number not in self._sent, self._sent.get(number, ""))

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Take messages until `done`. Raises BrowserError when that takes too long, or the browser is gone."""
        end = monotonic() + TIMEOUT
        while not done():
            try:
                message = self._inbox.get(timeout=max(0.0, end - monotonic()))
            except Empty:
                raise BrowserError(f"the browser did not answer within {TIMEOUT:.0f} seconds: {what}") from None
            self._take(message)

    def catch_up(self) -> None:
        """Take the messages that have come so far."""
        while not self._inbox.empty():
            self._take(self._inbox.get())

    def close(self) -> None:
        """Listen no more."""
        self._pipe.forget(self.name)

    def _take(self, message: Message | None) -> None:
        if message is None:
            # For whoever waits next.
            self._inbox.put(None)
            raise BrowserError("the browser is gone")
        if "method" in message:
            act = self._on.get(message["method"])
            if act is not None:
                act(message["params"])
            return
        number = message["id"]
        method = self._sent.pop(number, "")
        if "error" in message:
            # A request that was given up meanwhile cannot be answered any more, which is no fault.
            if not method.startswith("Fetch."):
                raise BrowserError(f"{method}: {message['error'].get('message', '')}")
        elif number in self._awaited:
            self._replies[number] = message["result"]
