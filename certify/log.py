"""The records of one episode as certification reads them: where exposure, firing, writes and commits stand.

It is read here anew, from the raw records and the bytes of the observations, and shares nothing with the grader, whose
findings are compared with it.
"""

from dataclasses import dataclass, field

from envos.envs.evidence import Action, Fire, Frame, Record, Report, Request, Write
from envos.envs.perturbation import AFTER, BEFORE, Plan
from envos.envs.scenario import load_world

PERTURBATION = "perturbation"
GUARD = "perturbation_guard"


@dataclass(slots=True)
class Log:
    """Records by kind with their place in the ledger, and what the plan makes of them.

    armed: the first observation that holds the old value on a page that the agent itself asked for. eligible: the first
    request after it that may fire. changes: the perturbation's writes; writes: everybody else's. commits: the agent's
    insertions into the commit table.
    """

    records: tuple[Record, ...]
    plan: Plan
    requests: dict[int, tuple[int, Request]] = field(default_factory=dict)
    frames: list[tuple[int, Frame]] = field(default_factory=list)
    actions: list[tuple[int, Action]] = field(default_factory=list)
    fires: list[tuple[int, Fire]] = field(default_factory=list)
    changes: list[tuple[int, Write]] = field(default_factory=list)
    writes: list[tuple[int, Write]] = field(default_factory=list)
    commits: list[tuple[int, Write]] = field(default_factory=list)
    reports: list[tuple[int, Report]] = field(default_factory=list)
    armed: tuple[int, Frame] | None = None
    eligible: tuple[int, Request] | None = None

    @property
    def fired_at(self) -> int:
        """The place of the first record of the change, or the number of records where there is none."""
        places = [place for place, _ in (*self.changes[:1], *self.fires[:1])]
        return min(places, default=len(self.records))

    def firing(self) -> tuple[int, Request] | None:
        """The line of the request that the firing names, or None."""
        return self.requests.get(self.fires[0][1].request) if self.fires else None

    def shows(self, frame: Frame) -> list[str]:
        """The texts of the fact that this observation holds at the offsets that it claims."""
        return [
            item.text
            for item in frame.delivered
            if item[:3] == self.plan.arm and frame.page[item.offset : item.offset + len(item.text)] == item.text
        ]

    def held_true(self) -> list[Write]:
        """The perturbation's writes that the organisation holds true: not what it made of a commit that it follows."""
        return [write for _, write in self.changes if self.plan.phase == BEFORE or write.op == "insert"]

    def asked(self, frame: Frame) -> Request | None:
        """The request that this observation shows."""
        found = self.requests.get(frame.request)
        return found[1] if found else None


def read(records: tuple[Record, ...], plan: Plan) -> Log:
    """The log of an episode, in one pass."""
    log = Log(records, plan)
    for place, record in enumerate(records):
        kind = type(record)
        if kind is Request:
            log.requests[record.number] = place, record  # type: ignore[union-attr,assignment]
            if log.armed and log.eligible is None and _in_time(log, record) and fires(record, plan):  # type: ignore[arg-type]
                log.eligible = place, record  # type: ignore[assignment]
        elif kind is Frame:
            log.frames.append((place, record))  # type: ignore[arg-type]
            if log.armed is None and record.delivered and _arms(log, record):  # type: ignore[union-attr,arg-type]
                log.armed = place, record  # type: ignore[assignment]
        elif kind is Write:
            _write(log, place, record)  # type: ignore[arg-type]
        elif kind is Action:
            log.actions.append((place, record))  # type: ignore[arg-type]
        elif kind is Fire:
            log.fires.append((place, record))  # type: ignore[arg-type]
        elif kind is Report:
            log.reports.append((place, record))  # type: ignore[arg-type]
    return log


def own(request: Request) -> bool:
    """Whether the agent itself asked for this."""
    return request.actor == "agent" and request.via == "direct"


def fires(request: Request, plan: Plan) -> bool:
    """Whether this request may fire."""
    routes = plan.trigger if request.method == "GET" else plan.posts if request.method == "POST" else ()
    return own(request) and request.route in routes and (plan.phase == AFTER or _asks(request, plan))


def _asks(request: Request, plan: Plan) -> bool:
    """Whether a request is about the choice that a plan waits for; most wait for none."""
    return not plan.when or load_world(plan.world).reviewed(request.params).items() >= plan.when.items()


def _in_time(log: Log, request: Request) -> bool:
    """Whether no commit came before this request; a plan that follows the commit waits for the one that it is about."""
    made = log.commits[0][1] if log.commits else None
    if log.plan.phase == AFTER:
        new = {} if made is None else {name: value for name, (_, value) in made.columns.items()}
        return made is not None and made.request == request.number and new.items() >= log.plan.when.items()
    return made is None or made.request == request.number


def _arms(log: Log, frame: Frame) -> bool:
    request = log.asked(frame)
    return (
        request is not None
        and own(request)
        and request.route in log.plan.surfaces
        and log.plan.arm_text in log.shows(frame)
    )


def _write(log: Log, place: int, write: Write) -> None:
    if write.actor == PERTURBATION:
        log.changes.append((place, write))
        return
    log.writes.append((place, write))
    if write.actor == "agent" and write.op == "insert" and write.table == log.plan.commit_table:
        log.commits.append((place, write))
