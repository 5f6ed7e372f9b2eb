"""What the tests of the claims office share: instances as records and states, and a clerk at the portal of one."""

from functools import cache
from typing import Any

from envos.envs.app import Application, Reply
from envos.envs.database import Database
from envos.envs.drivers.inprocess import InProcess
from envos.envs.evidence import Ledger, Request, Scalar, State, TableState
from envos.envs.page import Select, View, observe
from envos.envs.perturbation import NEUTRAL_INSERT, NEUTRAL_UPDATE, OneShot, Plan
from envos.envs.roles import Draft, Fact
from envos.envs.worlds.claims import WORLD

Record = dict[str, Any]


@cache
def draft(seed: int, split: str) -> Draft:
    return WORLD.generate(seed, split)


def records(found: Draft, table: str) -> list[Record]:
    names = [column.name for column in WORLD.metadata.tables[table].columns]
    return [dict(zip(names, row, strict=True)) for row in found.rows[table]]


def record(found: Draft, table: str, key: object) -> Record:
    return next(row for row in records(found, table) if row["id"] == key)


def state(found: Draft) -> State:
    return {
        name: TableState(
            tuple(column.name for column in table.columns), {int(str(row[0])): row for row in found.rows[name]}
        )
        for name, table in WORLD.metadata.tables.items()
    }


def changed(before: State, table: str, key: Any, column: str, value: Scalar) -> State:
    """The state with one cell changed."""
    columns, rows = before[table]
    row = list(rows[key])
    row[columns.index(column)] = value
    return {**before, table: TableState(columns, {**rows, key: tuple(row)})}


def roles(found: Draft) -> tuple[Fact, Fact, Fact]:
    """Fact, twin and detail."""
    assert found.roles.fact is not None
    assert found.roles.twin is not None
    assert found.roles.detail is not None
    return found.roles.fact, found.roles.twin, found.roles.detail


def case_of(eligible: int, old: int, new: int) -> str:
    """The case of protocol section 3, in its own words."""
    binds = old < eligible, new < eligible
    moves = "up" if new > old else "down"
    return {(True, True): f"B_{moves}", (True, False): "X_up", (False, True): "X_down"}.get(binds, "")


def neutral(found: Draft, review: str) -> Plan:
    """A plan that changes nothing and watches what every plan watches."""
    fact, twin, detail = roles(found)
    commit = WORLD.commit(found.task)
    return Plan(
        world="claims",
        phenomenon="none",
        condition="none",
        anchor="first",
        budget=40,
        untriggered="failure",
        opened=found.opened,
        task=found.task,
        arm=(fact.table, fact.key, fact.column),
        arm_text=fact.text,
        new_text=fact.text,
        surfaces=fact.surfaces,
        trigger=(),
        operations=(NEUTRAL_UPDATE, NEUTRAL_INSERT, NEUTRAL_INSERT),
        announced=False,
        review=review,
        review_route=commit.review,
        commit_table=commit.table,
        watched=tuple((role.table, role.key, role.column) for role in (fact, twin, detail)),
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
        self.claim = record(self.found, "claim", self.task["claim"])
        self.policy = record(self.found, "policy", self.claim["policy_id"])
        self.amount = int(str(WORLD.answer(self.state, self.task)["amount"]))

    @property
    def state(self) -> State:
        return self.database.state()

    @property
    def text(self) -> str:
        return self.driver.view().text

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @property
    def status(self) -> int:
        return self.driver.request().status

    def rows(self, table: str, **wanted: object) -> list[Record]:
        columns, rows = self.state[table]
        found = [dict(zip(columns, row, strict=True)) for row in rows.values()]
        return [row for row in found if all(row[name] == value for name, value in wanted.items())]

    def row(self, table: str, key: object) -> Record:
        return self.rows(table, id=key)[0]

    def made(self) -> list[Record]:
        """The decisions of this episode."""
        return [row for row in self.rows("decision") if row["form_key"]]

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

    def to_review(self, amount: str = "", claim: str = "") -> None:
        """Through the form from any page to the review of an amount (the right one)."""
        self.press("link:Claims", f"link:{claim or self.claim['number']}", "link:Approve claim")
        self.fill("Amount to approve", amount or f"{self.amount // 100}.{self.amount % 100:02}")
        self.press("button:Continue")

    def approve(self, amount: str = "", claim: str = "") -> Record:
        before = {row["id"] for row in self.made()}
        self.to_review(amount, claim)
        self.press("button:Approve claim")
        (made,) = (row for row in self.made() if row["id"] not in before)
        return made

    def deny(self, reason: str = "Not covered") -> Record:
        before = {row["id"] for row in self.made()}
        self.press("link:Claims", f"link:{self.claim['number']}", "link:Deny claim")
        self.select("Reason", reason)
        self.press("button:Deny claim")
        (made,) = (row for row in self.made() if row["id"] not in before)
        return made

    def last_post(self) -> Request:
        return next(
            item for item in reversed(self.ledger.records()) if isinstance(item, Request) and item.method == "POST"
        )


def crawl(clerk: Clerk) -> dict[str, View]:
    """Every page that links and GET forms lead to, by address; the approval form is filled in with a small amount."""
    seen: dict[str, View] = {}
    waiting = ["/"]
    while waiting:
        url = waiting.pop()
        if url in seen:
            continue
        reply: Reply = clerk.app.ask("GET", url)
        assert reply.request.status == 200, url
        view = seen[url] = observe(reply.page, {})
        waiting += [item.target for item in view.elements if item.role == "link"]
        for form in view.forms:
            if form.method == "get":
                fixed = {item.name: "1.23" if item.name == "amount" else item.value for item in form.fields}
                for item in form.fields:
                    for value, _ in item.options if isinstance(item, Select) else [(fixed[item.name], "")]:
                        sent = {**fixed, item.name: value}
                        query = "&".join(f"{name}={text}" for name, text in sent.items())
                        waiting.append(f"{form.action}?{query}")
    return seen


def route(url: str) -> str:
    return WORLD.routes.resolve(url.partition("?")[0])[0]
