"""What the tests of the clinic share: instances as records and states, and a clerk at the portal of one."""

from functools import cache
from typing import Any

from envos.envs.app import Application, Reply
from envos.envs.database import Database
from envos.envs.drivers.inprocess import InProcess
from envos.envs.evidence import Ledger, Request, Scalar, State, TableState
from envos.envs.page import Radio, Select, View, observe
from envos.envs.perturbation import NEUTRAL_INSERT, NEUTRAL_UPDATE, OneShot, Plan
from envos.envs.roles import Draft
from envos.envs.worlds.clinic import WORLD

Record = dict[str, Any]


@cache
def draft(seed: int, split: str) -> Draft:
    return WORLD.generate(seed, split)


def records(found: Draft, table: str) -> list[Record]:
    names = [column.name for column in WORLD.metadata.tables[table].columns]
    return [dict(zip(names, row, strict=True)) for row in found.rows[table]]


def state(found: Draft) -> State:
    return {
        name: TableState(
            tuple(column.name for column in table.columns), {int(str(row[0])): row for row in found.rows[name]}
        )
        for name, table in WORLD.metadata.tables.items()
    }


def moved(before: State, session: Any, place: Scalar) -> State:
    """The state with a session held elsewhere."""
    columns, rows = before["clinic_session"]
    row = list(rows[session])
    row[columns.index("location_id")] = place
    return {**before, "clinic_session": TableState(columns, {**rows, session: tuple(row)})}


def minute(clock: str) -> int:
    return int(clock[:2]) * 60 + int(clock[3:])


def by_walking_outwards(now: State, task: Record, heed_overlap: bool = True) -> int | None:
    """The right slot found another way: minute by minute away from the session's start, the earlier side first."""

    def rows(table: str) -> list[Record]:
        return [dict(zip(now[table].columns, row, strict=True)) for row in now[table].rows.values()]

    session = next(row for row in rows("clinic_session") if row["id"] == task["session"])
    busy: set[int] = set()
    for row in rows("appointment"):
        if row["patient_id"] == task["patient"] and row["date"] == session["date"] and row["status"] != "cancelled":
            busy.update(range(minute(row["start"]), minute(row["end"])))
    there = {
        minute(row["start"]): row
        for row in rows("slot")
        if (row["date"], row["location_id"], row["status"]) == (session["date"], session["location_id"], "free")
    }
    at = minute(session["start"])
    for away in range(24 * 60):
        for begins in (at - away, at + away):
            row = there.get(begins, {})
            if row and not (heed_overlap and busy & set(range(begins, minute(row["end"])))):
                return int(row["id"])
    return None


def compatible(now: State, task: Record, place: Scalar) -> list[int]:
    """All compatible slots at a place: take the best one away until there is none left."""
    found = []
    there = moved(now, task["session"], place)
    while (best := by_walking_outwards(there, task)) is not None:
        found.append(best)
        columns, rows = there["slot"]
        there = {**there, "slot": TableState(columns, {key: row for key, row in rows.items() if key != best})}
    return found


def neutral(found: Draft, review: str) -> Plan:
    """A plan that changes nothing and watches what every plan watches."""
    roles = found.roles
    assert roles.fact is not None
    assert roles.twin is not None
    assert roles.detail is not None
    assert roles.commit is not None
    return Plan(
        world="clinic",
        phenomenon="none",
        condition="none",
        anchor="first",
        budget=48,
        untriggered="uncounted",
        opened=found.opened,
        task=found.task,
        arm=(roles.fact.table, roles.fact.key, roles.fact.column),
        arm_text=roles.fact.text,
        new_text=roles.fact.text,
        surfaces=roles.fact.surfaces,
        trigger=(),
        operations=(NEUTRAL_UPDATE, NEUTRAL_INSERT, NEUTRAL_INSERT),
        announced=False,
        review=review,
        review_route=roles.commit.review,
        commit_table=roles.commit.table,
        watched=tuple((role.table, role.key, role.column) for role in (roles.fact, roles.twin, roles.detail)),
    )


class Clerk:
    """Someone at the portal of one instance."""

    def __init__(self, seed: int = 1, split: str = "train", review: str = "nothing") -> None:
        self.found = WORLD.generate(seed, split)
        self.task = self.found.task
        self.database = Database(WORLD.metadata)
        self.database.load(self.found.rows, "canary")
        self.ledger = Ledger()
        self.app = Application(WORLD, self.database, self.ledger, OneShot(neutral(self.found, review)))
        self.driver = InProcess()
        self.driver.open(self.app)
        self.answer = WORLD.answer(self.state, self.task)

    @property
    def state(self) -> State:
        return self.database.state()

    @property
    def text(self) -> str:
        return self.driver.view().text

    @property
    def status(self) -> int:
        return self.driver.request().status

    def rows(self, table: str, **wanted: object) -> list[Record]:
        columns, rows = self.state[table]
        found = [dict(zip(columns, row, strict=True)) for row in rows.values()]
        return [row for row in found if all(row[name] == value for name, value in wanted.items())]

    def row(self, table: str, key: object) -> Record:
        return self.rows(table, id=key)[0]

    def index(self, role: str, label: str) -> str:
        found = [item for item in self.driver.view().elements if (item.role, item.label) == (role, label)]
        assert len(found) == 1, (role, label, self.text)
        return str(found[0].index)

    def has(self, role: str, label: str) -> bool:
        return any((item.role, item.label) == (role, label) for item in self.driver.view().elements)

    def press(self, *labels: str) -> None:
        """Click elements by role:label, one after the other."""
        for label in labels:
            role, _, name = label.partition(":")
            assert self.driver.click(self.index(role, name)) == ""

    def fill(self, label: str, text: str) -> None:
        assert self.driver.fill(self.index("textbox", label), text) == ""

    def select(self, label: str, option: str) -> None:
        assert self.driver.select(self.index("combobox", label), option) == ""

    def go(self, path: str) -> None:
        assert self.driver.goto(path) == ""

    def to_review(self, slot: int | None = None) -> None:
        """Through the form from the home page to the review of a slot (the right one)."""
        wanted = self.row("slot", slot or self.answer["slot_id"])
        reference = self.row("referral", self.task["referral"])["reference"]
        place = self.row("location", wanted["location_id"])["name"]
        self.press("link:Referrals", f"link:{reference}", "link:Book appointment", f"radio:{place}", "button:Continue")
        self.press(f"link:{wanted['start']}")

    def book(self) -> Record:
        before = {row["id"] for row in self.rows("appointment")}
        self.to_review()
        self.press("button:Confirm booking")
        (made,) = (row for row in self.rows("appointment") if row["id"] not in before)
        return made

    def last_post(self) -> Request:
        return next(
            item for item in reversed(self.ledger.records()) if isinstance(item, Request) and item.method == "POST"
        )


def crawl(app: Application) -> dict[str, View]:
    """Every page that links and GET forms lead to, by address."""
    seen: dict[str, View] = {}
    routes: dict[str, str] = {}
    waiting = ["/"]
    while waiting:
        url = waiting.pop()
        if url in seen:
            continue
        reply: Reply = app.ask("GET", url)
        assert reply.request.status == 200, url
        routes[url] = reply.request.route
        view = seen[url] = observe(reply.page, {})
        waiting += [item.target for item in view.elements if item.role == "link"]
        for form in view.forms:
            fixed = [(item.name, item.value) for item in form.fields if not isinstance(item, Radio | Select)]
            for item in form.fields:
                if form.method == "get" and isinstance(item, Radio | Select):
                    sent = [*fixed, *((item.name, value) for value, _ in item.options[:1])]
                    for value, _ in item.options:
                        sent[-1] = (item.name, value)
                        waiting.append(f"{form.action}?{'&'.join(f'{name}={text}' for name, text in sent)}")
    return seen


def route(url: str) -> str:
    return WORLD.routes.resolve(url.partition("?")[0])[0]
