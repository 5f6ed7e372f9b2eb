"""The driver of tool episodes: a call is one request to the application, and its result is the page as JSON."""

from envos.envs.action import Action
from envos.envs.drivers.inprocess import InProcess
from envos.envs.page import TEXT_LIMIT, View
from envos.envs.result import Size, result
from envos.envs.toolbox import Toolbox


class Tools(InProcess):
    """Talks to the application by function call; one call of a tool is one request."""

    __slots__ = ("_box", "_size")

    def __init__(self, box: Toolbox, limit: int = TEXT_LIMIT, size: Size = len) -> None:
        super().__init__(limit)
        self._box, self._size = box, size

    def call(self, action: Action) -> str:
        """Carry out a call that the toolbox has read; returns "" or one error line, and then nothing was asked for.

        As on a page, a notice comes first: nothing else can be done before it is acknowledged, and there is nothing to
        acknowledge without one.
        """
        box, modal = self._box, self._reply.page.modal
        tool = box.tools[action.verb]
        method, url, form = box.request(action)
        if modal is None:
            if tool.answers_notice:
                return f"{tool.name}: there is no notice to acknowledge"
        elif url != modal.form.action or not tool.answers_notice:
            offer = box.form(modal.form)
            expected = f"call {offer.tool.name} with {offer.arguments}" if offer else "it has no tool"
            return f"{tool.name}: the notice comes first: {expected}"
        else:
            form |= {field.name: field.value for field in modal.form.fields}
        self._show(self._app.ask(method, url, form))
        return ""

    def _look(self) -> View:
        return result(self._reply.page, self._box, self._limit, self._size)
