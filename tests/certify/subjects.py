"""Subjects of certification: the clinic as it is, and parts that are broken on purpose."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlalchemy import text

from envos.certify.trial import Trial, trial, twin
from envos.envs.app import Application, Context, Redirect, Refused, Routes
from envos.envs.database import Database
from envos.envs.drivers.inprocess import InProcess
from envos.envs.env import EnvOS
from envos.envs.evidence import Fire, Frame, Ledger, Request, Verifier
from envos.envs.page import Link, Page, Paragraph, Value
from envos.envs.perturbation import OneShot, Operation, Plan, _carry_out
from envos.envs.roles import Draft, World
from envos.envs.scenario import load_phenomenon, load_world, scenario
from envos.rewards.verdict import verify

SEED = 1
LINE = scenario("EnvOS/ClinicStale-v0")
WORLD = load_world("clinic")
PHENOMENON = load_phenomenon("stale")


def make_env(verifier: Verifier = verify, **changes: Any) -> EnvOS:
    """The clinic, with parts replaced: scenario, world or phenomenon."""
    parts: dict[str, Any] = {"scenario": LINE, "world": WORLD, "phenomenon": PHENOMENON, **changes}
    return EnvOS(
        **parts, verifier=verifier, condition="mixed", split="train", anchor="first", driver=InProcess(), code={}
    )


def make_trial(
    condition: str,
    anchor: str = "first",
    *,
    verifier: Verifier = verify,
    deep: bool = True,
    seed: int = SEED,
    **changes: Any,
) -> Trial:
    """A trial of the clinic, with parts replaced."""
    env = make_env(verifier, **changes)
    return trial(env, seed, condition, anchor, verifier, twin(env, seed, anchor), deep=deep)


# Worlds


def with_handler(method: str, route: str, change: Callable[[Context, Any], Any]) -> World:
    """The clinic with one handler's answer changed."""
    routes = Routes()
    routes.handlers = dict(WORLD.routes.handlers)
    proper = routes.handlers[method, route]

    def handler(ctx: Context) -> Page | Redirect:
        answer = proper(ctx)
        return change(ctx, answer)  # type: ignore[no-any-return]

    routes.handlers[method, route] = handler
    return replace(WORLD, routes=routes)


def also(page: Page, *parts: Any) -> Page:
    """A page with one more paragraph."""
    return page._replace(body=(*page.body, Paragraph(parts)))


_TOKEN, _GUARD = text("SELECT token FROM canary"), text("SELECT count(*) FROM perturbation_guard")


def token(ctx: Context) -> str:
    """The canary, as a careless query would find it."""
    return str(ctx.db.execute(_TOKEN).scalar())


def fired(ctx: Context) -> bool:
    """Whether the change has fired."""
    return bool(ctx.db.execute(_GUARD).scalar())


def leaky() -> World:
    """The sessions page shows the canary."""
    return with_handler("GET", "/sessions", lambda ctx, page: also(page, token(ctx)))


def leaky_link() -> World:
    """A link of the inbox has the canary in its address, where no text shows it."""
    return with_handler("GET", "/inbox", lambda ctx, page: also(page, Link("Archive", f"/inbox?{token(ctx)}")))


def telling_home() -> World:
    """The home page tells the condition."""
    return with_handler("GET", "/", lambda ctx, page: also(page, f"Mode: {ctx.review}"))


def telling_inbox() -> World:
    """A page that the oracle does not visit tells the condition."""
    return with_handler("GET", "/inbox", lambda ctx, page: also(page, f"Mode: {ctx.review}"))


def counting() -> World:
    """The home page counts its visits over all episodes."""
    visits: list[int] = []

    def change(ctx: Context, page: Page) -> Page:
        visits.append(1)
        return also(page, f"Visits: {len(visits)}")

    return with_handler("GET", "/", change)


def closing_source() -> World:
    """After the change, a session's own page is refused."""

    def change(ctx: Context, page: Page) -> Page:
        if fired(ctx):
            raise Refused("not_found")
        return page

    return with_handler("GET", "/sessions/{id}", change)


def remembering() -> World:
    """The sessions page shows what it was told once: the old place, and after the change the planned one."""
    told: dict[tuple[str, int, str, bool], str] = {}

    def change(ctx: Context, page: Page) -> Page:
        def cell(item: Any) -> Any:
            if not isinstance(item, Value):
                return item
            return item._replace(text=told.setdefault((*item[1:], fired(ctx)), item.text))

        body = tuple(
            node._replace(rows=tuple(tuple(map(cell, row)) for row in node.rows)) if hasattr(node, "rows") else node
            for node in page.body
        )
        ctx.served[:] = [item._replace(text=told.get((*item[:3], fired(ctx)), item.text)) for item in ctx.served]
        return page._replace(body=body)

    return with_handler("GET", "/sessions", change)


def without_slots() -> World:
    """Every slot is booked: no booking is possible."""

    def generate(seed: int, split: str) -> Draft:
        draft = WORLD.generate(seed, split)
        at = [column.name for column in WORLD.metadata.tables["slot"].columns].index("status")
        slots = tuple((*row[:at], "booked", *row[at + 1 :]) for row in draft.rows["slot"])
        return replace(draft, rows={**draft.rows, "slot": slots})

    return replace(WORLD, generate=generate)


def with_idle_alternative() -> World:
    """One of the places that the session may move to is where it is held already."""

    def generate(seed: int, split: str) -> Draft:
        draft = WORLD.generate(seed, split)
        fact = draft.roles.fact
        assert fact is not None
        same = replace(fact, alternatives=(*fact.alternatives, (fact.value, f"{fact.text} (annexe)")))
        return replace(draft, roles=replace(draft.roles, fact=same))

    return replace(WORLD, generate=generate)


# Triggers


class Unasked(OneShot):
    """Fires without having been armed."""

    def due(self, actor: str, via: str, method: str, route: str) -> bool:
        return not self.fired and actor == "agent" and method == "GET" and route in self.plan.trigger


class Early(OneShot):
    """Fires inside the request for the source, before the old value is served."""

    def due(self, actor: str, via: str, method: str, route: str) -> bool:
        return not self.fired and actor == "agent" and route in self.plan.surfaces


class Late(OneShot):
    """Lets the first eligible request pass."""

    __slots__ = ("passed",)

    def due(self, actor: str, via: str, method: str, route: str) -> bool:
        if not super().due(actor, via, method, route):
            return False
        due = getattr(self, "passed", False)
        self.passed = True
        return due


class Twice(OneShot):
    """Fires in every eligible request, and takes the guard away first."""

    def due(self, actor: str, via: str, method: str, route: str) -> bool:
        self.fired = False
        return super().due(actor, via, method, route)

    def fire(self, database: Database, ledger: Ledger, request: int, now: str) -> None:
        database.raw.execute("DELETE FROM perturbation_guard")
        database.drain()
        super().fire(database, ledger, request, now)


class GuardedByVariable(OneShot):
    """Overwrites the guard's row, so that only a variable stops it."""

    def fire(self, database: Database, ledger: Ledger, request: int, now: str) -> None:
        database.raw.execute("DELETE FROM perturbation_guard")
        database.drain()
        super().fire(database, ledger, request, now)


class SecondRow(OneShot):
    """Writes a row that the plan does not name."""

    def fire(self, database: Database, ledger: Ledger, request: int, now: str) -> None:
        super().fire(database, ledger, request, now)
        database.raw.execute("UPDATE provider SET role = role || '!' WHERE id = 1")
        for write in database.drain():
            ledger.append(write)


class Piecemeal(OneShot):
    """Carries its operations out one by one."""

    def fire(self, database: Database, ledger: Ledger, request: int, now: str) -> None:
        database.actor, database.request = "perturbation", request
        self.fired = True
        database.raw.execute("INSERT INTO perturbation_guard (id, request) VALUES (1, ?)", (request,))
        for operation in self.plan.operations:
            _carry_out(database.raw, operation, {"$now": now, "$next": request + 1})
        for write in database.drain():
            ledger.append(write)
        ledger.append(Fire(request, self.armed_by, len(self.plan.operations), 0))


class ArmedByHarness(OneShot):
    """Does not ask who asked for the page."""

    def deliver(self, frame: Frame, request: Request) -> None:
        super().deliver(frame, request._replace(actor="agent"))


class ArmedAtOnce(OneShot):
    """Is armed by the first observation, whatever it shows."""

    def deliver(self, frame: Frame, request: Request) -> None:
        if self.armed_by < 0:
            self.armed_by = frame.number


class ArmedByServed(OneShot):
    """Is armed by what a page served, even where the observation was cut off before it."""

    def deliver(self, frame: Frame, request: Request) -> None:
        plan = self.plan
        served = any(item[:3] == plan.arm and item.text == plan.arm_text for item in request.served)
        if self.armed_by < 0 and request.actor == "agent" and request.via == "direct" and served:
            self.armed_by = frame.number


class InRedirect(OneShot):
    """Does not ask how the request came about."""

    def due(self, actor: str, via: str, method: str, route: str) -> bool:
        return super().due(actor, "direct", method, route)


class AfterHandler(Application):
    """Fires once the handler has read the database."""

    __slots__ = ("asked",)

    def _answer(self, method: str, url: str, form: Any, actor: str, via: str) -> Any:
        self.asked = (actor, via, method, self.world.routes.resolve(url.partition("?")[0])[0])
        held, self.oneshot.fired = self.oneshot.fired, True
        self.asked = (*self.asked, held)  # type: ignore[assignment]
        return super()._answer(method, url, form, actor, via)

    def _handle(self, handler: Any, context: Context, route: str) -> Any:
        *asked, held = self.asked
        self.oneshot.fired = bool(held)
        answer = super()._handle(handler, context, route)
        if self.oneshot.due(*asked):  # type: ignore[arg-type]
            for write in self.database.drain():
                self.ledger.append(write)
            self.oneshot.fire(self.database, self.ledger, context.number, context.now)
        return answer


# Phenomena


def with_plan(change: Callable[[Plan], Plan]) -> Any:
    """The stale phenomenon with its plans changed."""
    return replace(PHENOMENON, plan=lambda *arguments: change(PHENOMENON.plan(*arguments)))


def fewer_in_control(plan: Plan) -> Plan:
    """The control arm does one operation less."""
    return replace(plan, operations=plan.operations[:-1]) if plan.condition == "L0" else plan


def wrong_history(plan: Plan) -> Plan:
    """The history row tells another new value."""
    told = tuple(
        Operation(op, table, key, {**columns, "new": (None, "Elsewhere")})
        if table == "history"
        else Operation(op, table, key, columns)
        for op, table, key, columns in plan.operations
    )
    return replace(plan, operations=told)
