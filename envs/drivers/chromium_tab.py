"""One page of the browser: what an agent's hands and eyes can do to it, and what answers its requests.

Nothing that the page asks for leaves the browser. Each request is stopped before a name is looked up and handed to
`answer`, redirect hops one by one, and what that says is what the page gets.
"""

import base64
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from envos.envs.drivers.chromium_browser import Browser
from envos.envs.drivers.chromium_pipe import Message, Session
from envos.envs.screen import HEIGHT, WIDTH
from envos.errors import BrowserError

_WORLD, _BINDING = "envos", "envosDeliver"
_KEPT = 60
"""Pages that may be kept in memory from one episode to the next."""
_FRAMES = 10
"""Frames in which a page must have been painted."""


class Asked(NamedTuple):
    """A request of the page; `navigates`: for a new document in its place; `redirected`: it follows a 303."""

    method: str
    url: str
    body: str
    kind: str
    navigates: bool
    redirected: bool


class Answer(NamedTuple):
    """What a request gets."""

    status: int
    headers: Mapping[str, str]
    body: str = ""


Seen = dict[str, Any]
"""A page as chromium.js reads it: url, text, notice, elements and forms."""


class Tab:
    """A page in a context of its own; `answer` says what each request gets, None that it is refused.

    Every operation raises BrowserError when the browser does not do it.
    """

    def __init__(self, browser: Browser, answer: Callable[[Asked], Answer | None]) -> None:
        self.browser = browser
        # Painted sixty times a second, a page waits three frames for its picture.
        self._still = browser.paints_when_told
        self._answer = answer
        self._seen: Seen | None = None
        self._world = 0
        self._refused = False
        self._kept = 0
        self.strays: list[str] = []
        """What the page tried to open or load and the browser itself held back."""
        self._context = browser.call("Target.createBrowserContext", disposeOnDetach=True)["browserContextId"]
        self._target = browser.call(
            "Target.createTarget",
            url="about:blank",
            browserContextId=self._context,
            width=WIDTH,
            height=HEIGHT,
            **({"enableBeginFrameControl": True} if self._still else {}),
        )["targetId"]
        name = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        self._session = Session(
            browser.pipe,
            name,
            {
                "Fetch.requestPaused": self._on_request,
                "Runtime.bindingCalled": self._on_page,
                "Page.javascriptDialogOpening": self._on_dialog,
                "Page.windowOpen": lambda event: self.strays.append(f"a window at {event['url'][:200]}"),
                "Inspector.targetCrashed": self._on_crash,
                "Inspector.detached": self._on_crash,
            },
        )
        self._set_up()

    def _set_up(self) -> None:
        cast = self._session.cast
        cast("Page.enable")
        cast("Runtime.enable")
        cast("Inspector.enable")
        cast("Fetch.enable", patterns=[{"urlPattern": "*"}])
        cast("Runtime.addBinding", name=_BINDING, executionContextName=_WORLD)
        cast("Page.addScriptToEvaluateOnNewDocument", source=_script(), worldName=_WORLD)
        if not self._still:
            cast("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        cast("Emulation.setFocusEmulationEnabled", enabled=True)
        self.browser.call("Browser.setDownloadBehavior", behavior="deny", browserContextId=self._context)
        self._session.call("Page.getNavigationHistory")

    def visit(self, url: str) -> Seen | None:
        """Open an address; the page, or None when the request was refused."""
        self._seen, self._refused = None, False
        error = self._session.call("Page.navigate", url=url).get("errorText")
        if error and not self._refused:
            raise BrowserError(f"the browser could not open {url[:200]!r}: {error}")
        return self._arrived()

    def revisit(self, url: str) -> Seen | None:
        """Go back in the history to the last page before this one, which must be at `url`."""
        history = self._session.call("Page.getNavigationHistory")
        entries, current = history["entries"], history["currentIndex"]
        here = entries[current]["url"]
        before = [entry for entry in entries[:current] if entry["url"] != here]
        if not before or before[-1]["url"] != url:
            raise BrowserError(f"the browser's history does not lead back to {url[:200]!r}")
        self._seen, self._refused = None, False
        self._session.cast("Page.navigateToHistoryEntry", entryId=before[-1]["id"])
        return self._arrived()

    def catch_up(self) -> None:
        """Deal with what has happened since the last operation, and close every window that the page has opened."""
        self._session.catch_up()
        if self.strays:
            for target in self.browser.call("Target.getTargets")["targetInfos"]:
                if target.get("browserContextId") == self._context and target["targetId"] != self._target:
                    self.browser.call("Target.closeTarget", targetId=target["targetId"])

    def start_history(self) -> None:
        """Forget the pages before this one, and now and then free them: each keeps a megabyte, up to a thousand."""
        self._session.cast("Page.resetNavigationHistory")
        if self._kept > _KEPT:
            self._kept = 0
            self._session.cast("HeapProfiler.collectGarbage")

    def press(self, index: int, navigates: bool) -> Seen | None:
        """Click an element with the mouse; the page after it, or None when it asked for something that was refused."""
        self._seen, self._refused = None, False
        released = self._click(index)
        if navigates:
            return self._arrived()
        self._session.settle(released)
        return self.read()

    def type(self, index: int, text: str) -> Seen:
        """Click a text field, select what it holds, and type over it."""
        self._click(index)
        cast = self._session.cast
        key = {"key": "a", "code": "KeyA", "windowsVirtualKeyCode": 65, "modifiers": 2}
        cast("Input.dispatchKeyEvent", type="rawKeyDown", commands=["selectAll"], **key)
        cast("Input.dispatchKeyEvent", type="keyUp", **key)
        if text:
            last = cast("Input.insertText", text=text)
        else:
            key = {"key": "Delete", "code": "Delete", "windowsVirtualKeyCode": 46}
            cast("Input.dispatchKeyEvent", type="rawKeyDown", commands=["deleteForward"], **key)
            last = cast("Input.dispatchKeyEvent", type="keyUp", **key)
        # Input and scripts reach a page by different ways: what is read before the last key has arrived may be old.
        self._session.settle(last)
        return self.read()

    def choose(self, index: int, place: int) -> Seen:
        """Choose an option of a drop-down list by its place."""
        seen: Seen = json.loads(self._run(f"envos.choose({index}, {place})"))
        return seen

    def read(self) -> Seen:
        """The page as it stands."""
        seen: Seen = json.loads(self._run("envos.read()"))
        return seen

    def picture(self) -> bytes:
        """The window as PNG."""
        kind = {"format": "png", "optimizeForSpeed": True}
        if not self._still:
            return base64.b64decode(self._session.call("Page.captureScreenshot", **kind)["data"])
        for _ in range(_FRAMES):
            frame = self._session.call("HeadlessExperimental.beginFrame", screenshot=kind)
            if "screenshotData" in frame:
                return base64.b64decode(frame["screenshotData"])
        raise BrowserError(f"the page was not painted in {_FRAMES} frames")

    def close(self) -> None:
        """Close the page and its context."""
        self._session.close()
        if not self.browser.gone:
            self.browser.call("Target.disposeBrowserContext", browserContextId=self._context)

    def _click(self, index: int) -> int:
        place = self._run(f"envos.locate({index})")
        if place is None:
            raise BrowserError(f"element {index} cannot be clicked: something lies on top of it")
        point = {"x": place[0], "y": place[1]}
        cast = self._session.cast
        if self._still:
            # Before its first frame a page takes no input.
            self._session.call("HeadlessExperimental.beginFrame", noDisplayUpdates=True)
        cast("Input.dispatchMouseEvent", type="mouseMoved", **point)
        cast("Input.dispatchMouseEvent", type="mousePressed", button="left", buttons=1, clickCount=1, **point)
        return cast("Input.dispatchMouseEvent", type="mouseReleased", button="left", buttons=0, clickCount=1, **point)

    def _run(self, expression: str) -> Any:
        found = self._session.call("Runtime.evaluate", expression=expression, contextId=self._world, returnByValue=True)
        if "exceptionDetails" in found:
            raise BrowserError(f"{expression}: {found['exceptionDetails'].get('text', '')}")
        return found["result"].get("value")

    def _arrived(self) -> Seen | None:
        self._session.wait(lambda: self._seen is not None or self._refused, "a page")
        return self._seen

    def _on_page(self, event: Message) -> None:
        if event["name"] != _BINDING:
            return
        told = json.loads(event["payload"])
        if "blocked" in told:
            self.strays.append(f"{told['directive']} {told['blocked'][:200]}")
        else:
            self._seen, self._world = told, event["executionContextId"]
            self._kept += 1

    def _on_request(self, event: Message) -> None:
        """Answer a request; whatever goes wrong in that, the page is not left waiting."""
        number, request = event["requestId"], event["request"]
        navigates = event["resourceType"] == "Document" and event["frameId"] == self._target
        asked = Asked(
            request["method"],
            request["url"] + request.get("urlFragment", ""),
            _body(request),
            event["resourceType"],
            navigates,
            "redirectedRequestId" in event,
        )
        answer = None
        try:
            answer = self._answer(asked)
        finally:
            if answer is None:
                self._refused = self._refused or navigates
                # Aborted, a navigation leaves the page as it is; another reason would put an error page in its place.
                reason = "Aborted" if navigates else "BlockedByClient"
                self._session.cast("Fetch.failRequest", requestId=number, errorReason=reason)
        if answer is not None:
            self._session.cast(
                "Fetch.fulfillRequest",
                requestId=number,
                responseCode=answer.status,
                responseHeaders=[{"name": name, "value": value} for name, value in answer.headers.items()],
                body=base64.b64encode(answer.body.encode()).decode(),
            )

    def _on_dialog(self, event: Message) -> None:
        self._session.cast("Page.handleJavaScriptDialog", accept=event.get("type") == "beforeunload")

    def _on_crash(self, event: Message) -> None:
        raise BrowserError("the page crashed")


def _body(request: Message) -> str:
    parts = request.get("postDataEntries") or ()
    return b"".join(base64.b64decode(part.get("bytes", "")) for part in parts).decode("utf-8", "replace")


@cache
def _script() -> str:
    return Path(__file__).with_name("chromium.js").read_text("utf-8")
