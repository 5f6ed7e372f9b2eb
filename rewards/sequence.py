"""Whether the ledger is one whole trajectory: nothing missing, truncated, reordered, swapped or surplus."""

from collections.abc import Callable

from envos.envs import action as grammar
from envos.envs.evidence import (
    Action,
    End,
    Fault,
    Fire,
    Frame,
    Record,
    Report,
    Request,
    Start,
    Write,
    frame_sha256,
)
from envos.envs.perturbation import Plan
from envos.envs.roles import World
from envos.envs.toolbox import Call, said
from envos.rewards.trace import Reason, Trace

ACTORS = ("agent", "harness")
"""Who may ask; a request of anyone else is unauthorised access."""
_ENDS = ("report", "budget", "fault")
_QUIET = ("", "fill", "select_option", "memo", "noop", "report")
"""Verbs that ask the application for nothing; "" is a reply that was no action."""


class _Walk:
    """Goes through the records once and notes whatever is out of place."""

    def __init__(self, trace: Trace, plan: Plan, world: World) -> None:
        self.trace = trace
        self.plan = plan
        self.resolve = world.routes.resolve
        self.found: list[Reason] = []
        self.requests = self.actions = self.frames = 0
        self.by_agent: list[int] = []
        self.latest: Frame | None = None
        self.answered = -1
        self.session: str | None = None
        self.location = ""
        self.pending: list[tuple[int, Write]] = []
        self.place = 0

    def note(self, code: str, detail: str) -> None:
        self.found.append(Reason(code, self.place, detail))

    def start(self, record: Start) -> None:
        if self.place:
            self.note("second_start", f"record {self.place} is another start")
            return
        identity = record.identity
        asked, resolved = identity.get("model") or "", identity.get("model_resolved") or ""
        if asked != resolved:
            self.note("wrong_model", f"{asked!r} was asked for, {resolved!r} answered")
        for name, planned in (("condition", self.plan.condition), ("anchor", self.plan.anchor)):
            if identity.get(name, planned) != planned:
                self.note("identity_differs", f"{name} is {identity[name]!r}, the plan's is {planned!r}")

    def request(self, record: Request) -> None:
        if record.number != self.requests + 1:
            self.note("request_gap", f"request {record.number} follows {self.requests}")
        self.requests = record.number
        step = self.actions + 1 if self.latest else 0
        if record.step != step:
            self.note("request_step", f"request {record.number} is of step {record.step}, not {step}")
        if record.actor not in ACTORS:
            self.note("unauthorised_request", f"request {record.number} is of {record.actor!r}")
        if record.actor == "agent":
            self.by_agent.append(record.number)
        if self.session is None:
            self.session = record.session
        elif record.session != self.session:
            self.note("foreign_session", f"request {record.number} is of session {record.session!r}")
        if record.route != self.resolve(record.path)[0]:
            self.note("route_differs", f"request {record.number} for {record.path!r} went to {record.route!r}")
        # A redirect is followed at once, and to where it points; nothing else is a redirect.
        due = self.location.partition("?")[0]
        if (record.via == "redirect") != bool(due) or (due and record.path != due):
            self.note("redirect_differs", f"{due!r} is followed by a {record.via} request for {record.path!r}")
        if (record.status == 303) != bool(record.location):
            self.note("redirect_differs", f"status {record.status} leads to {record.location!r}")
        self.location = record.location
        for place, write in self.pending:
            # The perturbation's writes are judged by the trigger rules; nobody else may write but the agent.
            if write.actor != "perturbation" and (write.actor != record.actor or write.actor != "agent"):
                self.found.append(
                    Reason("write_actor", place, f"{write.actor!r} wrote in a request of {record.actor!r}")
                )
        self.pending.clear()

    def write(self, record: Write) -> None:
        if record.request != self.requests + 1:
            self.note("write_request", f"a write of request {record.request} stands in {self.requests + 1}")
        self.pending.append((self.place, record))

    def fire(self, record: Fire) -> None:
        if record.request != self.requests + 1:
            self.note("fire_request", f"a firing of request {record.request} stands in {self.requests + 1}")

    def frame(self, record: Frame) -> None:
        number, step, asked, url, page, elements, notice, error, memo, left, delivered, _, digest = record
        if number != self.frames:
            self.note("frame_gap", f"frame {number} stands where {self.frames} is due")
        self.frames = number + 1
        if step != self.actions:
            self.note("frame_step", f"frame {number} is of step {step}, not {self.actions}")
        if left != self.plan.budget - step:
            self.note("budget_left", f"frame {number} says that {left} actions are left")
        if digest != frame_sha256(url, page, elements, notice, error, memo, left):
            self.note("frame_digest", f"frame {number} is not what its digest covers")
        if self.pending:
            self.orphans()
        self.latest = record
        request = self.trace.asked.get(asked)
        if request is None or asked != self.requests:
            self.note("frame_request", f"frame {number} shows request {asked}, not {self.requests}")
            return
        if url.partition("?")[0] != request.path:
            self.note("frame_url", f"frame {number} stands at {url!r}, its request at {request.path!r}")
        for item in delivered:
            if item[:4] not in request.served:
                self.note("delivered_unserved", f"frame {number} marks {item.text!r}, which was not served")
            if not item.text or not page.startswith(item.text, item.offset) or item.offset < 0:
                self.note("delivered_unseen", f"frame {number} has no {item.text!r} at {item.offset}")

    def action(self, record: Action) -> None:
        if record.step != self.actions + 1:
            self.note("step_gap", f"step {record.step} follows {self.actions}")
        self.actions = record.step
        latest = self.latest
        if latest is None or record.frame != latest.number:
            self.note("action_frame", f"step {record.step} answers frame {record.frame}, not the one before it")
        elif record.frame_sha256 != latest.sha256:
            self.note("action_digest", f"step {record.step} answers another frame than {latest.number}")
        if latest is not None and latest.number == self.answered:
            self.note("frame_missing", f"no frame was delivered between steps {record.step - 1} and {record.step}")
        self.answered = latest.number if latest else -1
        if not self.trace.by_tools():
            reply = grammar.parse(record.raw)
            meant = (reply.verb, reply.args) if isinstance(reply, grammar.Action) else ("", ())
            if meant != (record.verb, record.args):
                self.note("action_differs", f"what is on record of step {record.step} is not what its reply says")
        if self.by_agent and record.verb in _QUIET:
            self.note("request_unasked", f"step {record.step} asks for nothing; request {self.by_agent[0]} is of it")
        self.by_agent.clear()

    def report(self, record: Report) -> None:
        last = self.trace.actions[-1][1] if self.trace.actions else None
        # It stands between its action and the observation after it.
        due = self.latest is not None and self.latest.number == self.answered
        if last is None or last.verb != "report" or not due or not record.step == last.step == self.actions:
            self.note("report_unasked", f"a report stands at step {record.step} without the action")
            return
        if _reported(last.raw, self.trace.by_tools()) != record.fields:
            self.note("report_differs", f"the report is not what step {record.step} said")

    def fault(self, record: Fault) -> None:
        self.note("harness_fault", f"{record.kind}: {record.detail}")

    def end(self, record: End) -> None:
        self.orphans()
        trace, reason = self.trace, record.reason
        if record.step != self.actions:
            self.note("end_step", f"the end is of step {record.step}, not {self.actions}")
        if self.latest is None or self.latest.number == self.answered:
            self.note("frame_missing", f"no frame was delivered after step {self.actions}")
        if reason not in _ENDS or (reason == "fault" and not trace.faults):
            self.note("end_reason", f"the episode ended for {reason!r}")
        if len(trace.reports) != (reason == "report"):
            self.note("report_end", f"{len(trace.reports)} reports, and the end is for {reason!r}")
        if reason == "budget" and len(trace.actions) < self.plan.budget:
            self.note("early_end", f"out of budget after {len(trace.actions)} of {self.plan.budget} actions")
        if self.place != len(trace.records) - 1:
            self.note("record_after_end", f"{len(trace.records) - 1 - self.place} records follow the end")

    def orphans(self) -> None:
        for place, write in self.pending:
            self.found.append(Reason("write_request", place, f"request {write.request} has no line"))
        self.pending.clear()


def _reported(raw: str, by_tools: bool) -> dict[str, str] | None:
    """The report that a reply gives, or None where it gives none."""
    if by_tools:
        call = said(raw)
        return call.arguments if isinstance(call, Call) and call.name == "report" else None
    reply = grammar.parse(raw)
    return dict(reply.fields) if isinstance(reply, grammar.Action) else None


def sequence(trace: Trace, plan: Plan, world: World) -> list[Reason]:
    """What is out of place in the trajectory; empty for a whole one."""
    walk = _Walk(trace, plan, world)
    steps: dict[type[Record], Callable[..., None]] = {
        Start: walk.start,
        Request: walk.request,
        Write: walk.write,
        Fire: walk.fire,
        Frame: walk.frame,
        Action: walk.action,
        Report: walk.report,
        Fault: walk.fault,
        End: walk.end,
    }
    if not trace.starts:
        walk.note("no_start", "the ledger does not begin with a start")
    for walk.place, record in enumerate(trace.records):
        steps[type(record)](record)
    walk.place = -1
    if not trace.ends:
        walk.note("no_end", "the ledger does not come to an end")
    if len(trace.actions) > plan.budget:
        walk.note("over_budget", f"{len(trace.actions)} actions, and {plan.budget} are allowed")
    return walk.found
