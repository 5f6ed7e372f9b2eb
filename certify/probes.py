"""Probes: short forked episodes that ask the running application what no finished episode shows.

Each leaves the environment in the middle of an episode; the next reset clears it.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from urllib.parse import urlencode

from sqlalchemy import text

from envos.certify.log import GUARD
from envos.certify.tree import Tree
from envos.certify.trial import Trial, in_world, since
from envos.envs.action import goto
from envos.envs.app import Context, Handler, Redirect, Routes
from envos.envs.drivers.inprocess import InProcess
from envos.envs.env import EnvOS, Snapshot
from envos.envs.evidence import Fault, Fire, Frame, Record, Scalar
from envos.envs.page import Form, Hidden, Link, Page, Radio, Select
from envos.envs.roles import World

CRAWLED = 12
"""URLs of one route that a crawl asks for at most."""
_PROBE = "/certification-probe"

Answer = Page | Redirect
Enter = Callable[[Context], None]
Leave = Callable[[Context, Answer], None]


def observed(world: World, enter: Enter | None = None, leave: Leave | None = None) -> World:
    """The world with each handler observed as it is entered and left; what it answers is the same."""
    routes = Routes()
    routes.handlers = {key: _observed(handler, enter, leave) for key, handler in world.routes.handlers.items()}
    return replace(world, routes=routes)


def _observed(handler: Handler, enter: Enter | None, leave: Leave | None) -> Handler:
    def watched(ctx: Context) -> Answer:
        if enter is not None:
            enter(ctx)
        answer = handler(ctx)
        if leave is not None:
            leave(ctx, answer)
        return answer

    return watched


def redirecting(world: World, target: str) -> tuple[World, str]:
    """The world with one more page, which sends the client on to `target`, and that page's URL."""
    routes = Routes()
    routes.handlers = {**world.routes.handlers, ("GET", _PROBE): lambda ctx: Redirect(target)}
    return replace(world, routes=routes), _PROBE


def fired(records: Iterable[Record]) -> int:
    """How many firings there are."""
    return sum(type(record) is Fire for record in records)


def faulted(records: Iterable[Record]) -> bool:
    """Whether the software failed."""
    return any(type(record) is Fault for record in records)


def visit(env: EnvOS, snapshot: Snapshot, *urls: str) -> tuple[Record, ...]:
    """Go back to a snapshot, open pages one after the other, and return the records that this adds."""
    return acted(env, snapshot, *map(goto, urls))


def acted(env: EnvOS, snapshot: Snapshot, *actions: str) -> tuple[Record, ...]:
    """Go back to a snapshot, act, and return the records that this adds."""
    env.restore(snapshot)
    length = len(env.ledger)
    for action in actions:
        env.step(action)
    return since(env, length)


def shown(records: Iterable[Record], cell: tuple[str, int, str]) -> list[str]:
    """The texts of a cell in the observations among these records, each once, in order."""
    texts = [item.text for record in records if type(record) is Frame for item in record.delivered if item[:3] == cell]
    return list(dict.fromkeys(texts))


def notices(records: Iterable[Record]) -> list[str]:
    """The notices in the observations among these records."""
    return [record.notice for record in records if type(record) is Frame and record.notice]


def opened(trial: Trial) -> Snapshot:
    """The trial's episode before the first action."""
    trial.env.reset(seed=trial.seed, options=dict(trial.options))
    return trial.env.snapshot()


def before(trial: Trial, tree: Tree) -> Mapping[str, Answer | None]:
    """The pages of the application before the first action of a tree's episodes; crawled once."""
    if tree.pages is None and tree.root.snapshot is not None:
        tree.pages = crawl(trial.env, tree.root.snapshot)
    return tree.pages or {}


def crawl(env: EnvOS, snapshot: Snapshot) -> Mapping[str, Answer | None]:
    """The pages that links and GET forms lead to, as their handlers returned them.

    Each is asked for from the snapshot anew. Every route is reached, with its first URLs in the order of the pages. A
    page that was refused is None.
    """
    routes: Counter[str] = Counter()
    answers: list[Answer] = []
    pages: dict[str, Answer | None] = {}
    home = env.world.home
    queue = deque([home, *(link.href for link in env.world.navigation)])
    with in_world(env, observed(env.world, leave=lambda ctx, answer: answers.append(answer))):
        while queue:
            url = queue.popleft()
            route = env.world.routes.resolve(url.partition("?")[0])[0]
            if url in pages or routes[route] >= CRAWLED:
                continue
            routes[route] += 1
            answers.clear()
            visit(env, snapshot, url)
            pages[url] = answers[-1] if answers else None
            if answers:
                queue.extend(targets(answers[-1]))
    return pages


def targets(answer: Answer) -> Iterator[str]:
    """The URLs that a page leads to with GET: its links, and its GET forms with each option chosen."""
    if isinstance(answer, Redirect):
        yield answer.location
        return
    for node in answer.body:
        if isinstance(node, Form):
            if node.method == "get":
                yield from _sent(node)
            continue
        for part in node:
            yield from _links(part)


def _links(part: object) -> Iterator[str]:
    if isinstance(part, Link):
        yield part.href
    elif isinstance(part, tuple):
        for item in part:
            yield from _links(item)


def _sent(form: Form) -> Iterator[str]:
    fixed = {item.name: item.value for item in form.fields if not isinstance(item, Radio)}
    for item in form.fields:
        if isinstance(item, Radio | Select):
            for value, _ in item.options:
                yield f"{form.action}?{urlencode({**fixed, item.name: value})}"
    if all(isinstance(item, Hidden) for item in form.fields):
        yield f"{form.action}?{urlencode(fixed)}"


def clipped(trial: Trial, limit: int, *actions: str) -> int:
    """How often the change fires when observations hold `limit` code points of a page and these actions are taken."""
    env = trial.env
    other = type(env)(
        env.scenario,
        env.world,
        env.phenomenon,
        trial.verifier,
        condition=trial.condition,
        split=env.split,
        anchor=trial.anchor,
        driver=InProcess(limit),
        code={},
    )
    try:
        other.reset(seed=trial.seed)
        for action in actions:
            other.step(action)
        return fired(other.ledger.records())
    finally:
        other.close()


def entered(trial: Trial) -> list[tuple[int, int, Scalar]]:
    """What each handler of the firing step finds on entry: its request, the guard's rows, the cell that changes.

    The cell is None where nothing changes.
    """
    env, plan = trial.env, trial.plan
    change = next((item for item in plan.operations if item.op == "update" and item.columns), None)
    guarded, query = text(f"SELECT count(*) FROM {GUARD}"), text("")  # noqa: S608 - a name of ours
    if change is not None:
        column = next(iter(change.columns))
        # The names come from the plan, which the phenomenon made from the world's roles.
        query = text(f'SELECT "{column}" FROM "{change.table}" WHERE id = :key')  # noqa: S608
    seen: list[tuple[int, int, Scalar]] = []

    def enter(ctx: Context) -> None:
        guard = ctx.db.execute(guarded).scalar()
        cell = None if change is None else ctx.db.execute(query, {"key": change.key}).scalar()
        seen.append((ctx.number, int(guard), cell))

    fork = trial.fork
    with in_world(env, observed(env.world, enter=enter)):
        env.restore(fork.before)
        env.step(fork.action)
    return seen
