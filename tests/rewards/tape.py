"""A tape that records an episode of the tiny world record by record, as the environment would."""

import json
import re
from collections.abc import Callable
from typing import Any

from tinyworld import CHANGES, PLACES, REMINDER, describe, first_state, make_plan

from envos.envs.action import Action as Reply
from envos.envs.action import parse
from envos.envs.evidence import (
    Action,
    Delivered,
    End,
    Evidence,
    Fault,
    Fire,
    Frame,
    Record,
    Report,
    Request,
    Scalar,
    Served,
    Start,
    Write,
    frame_sha256,
)
from envos.envs.perturbation import AFTER, BEFORE, NEXT, NOW
from envos.rewards.statediff import Replay, record


class Tape:
    """Records an episode as the environment would; every method but the first two is one step of the agent."""

    def __init__(self, condition: str = "OFF-A", *, fires: bool = True, **changes: Any) -> None:
        self.plan = make_plan(condition, **changes)
        self.pre = first_state()
        self.running = Replay(self.pre)
        self.records: list[Record] = [Start({"condition": condition, "model": "m", "model_resolved": "m"}, {})]
        self.fires = fires
        self.number = self.step = 0
        self.frame: Frame | None = None
        self.armed = -1
        self.fired = 0
        self.notice = ""
        self._asked("GET", "/", actor="harness")
        self._shown("/", "# Home")

    # What the environment does

    def now(self, table: str, key: int) -> dict[str, Scalar]:
        """A row as it stands."""
        found = record(self.running.state, table, key)
        assert found is not None
        return found

    def write(self, op: str, table: str, key: int, actor: str = "agent", **new: Scalar) -> Write:
        """Write a row and put it on record, with the old values that it had."""
        names = self.running.state[table].columns
        row = record(self.running.state, table, key) or {}
        if op == "insert":
            columns = {name: (None, new.get(name, key if name == "id" else None)) for name in names}
        elif op == "delete":
            columns = {name: (row[name], None) for name in names}
        else:
            columns = {name: (row[name], value) for name, value in new.items() if row[name] != value}
        done = Write(self.number + 1, actor, op, table, key, columns)
        assert self.running.apply(done) == ""
        self.records.append(done)
        return done

    def fire(self) -> None:
        """Carry out the plan inside the request that comes next."""
        request = self.number + 1
        guard = 1 + len(self.running.state["perturbation_guard"].rows)
        self.write("insert", "perturbation_guard", guard, "perturbation", request=request)
        symbols: dict[Scalar, Scalar] = {NOW: f"2026-03-02 08:{self.step:02d}", NEXT: request + 1}
        for operation in self.plan.operations:
            values = {name: symbols.get(new, new) for name, (_, new) in operation.columns.items()}
            rows = self.running.state[operation.table].rows
            key = operation.key or max(rows, default=0) + 1
            self.write(operation.op, operation.table, key, "perturbation", **values)
        neutral = sum(item.table == "neutral" for item in self.plan.operations)
        self.records.append(Fire(request, self.armed, len(self.plan.operations), neutral))
        self.fired = request
        change = self.plan.operations[0]
        if self.plan.announced and change.table == "slot":
            self.notice = f"Notice: slot {change.key} is now {self.now('slot', change.key)['status']}."
        elif self.plan.announced:
            table, key, column, _, new = CHANGES[self.plan.condition] or ("", 0, "", 0, 0)
            self.notice = f"Notice: {self.now(table, key)['title']}: {column} is now {PLACES[new]}."

    def _asked(
        self,
        method: str,
        path: str,
        served: tuple[Served, ...] = (),
        writes: Callable[[], object] = lambda: None,
        **fields: Any,
    ) -> Request:
        direct = fields.get("via", "direct") == "direct"
        if direct and self.plan.phase == BEFORE:
            self._due(method, path)
        begun = len(self.records)
        writes()
        if direct and self.plan.phase == AFTER and any(self._awaited(item) for item in self.records[begun:]):
            self._due(method, path)
        self.number += 1
        base = {
            "session": "s1",
            "actor": "agent",
            "via": "direct",
            "route": re.sub(r"/[0-9]+", "/{id}", path),
            "params": {},
            "status": 200,
            "location": "",
        }
        request = Request(
            number=self.number, step=self.step, method=method, path=path, served=served, **{**base, **fields}
        )
        self.records.append(request)
        return request

    def _due(self, method: str, path: str) -> None:
        """Fire if this request is to."""
        if self.fires and self.armed >= 0 and not self.fired and self.plan.fires(method, path):
            self.fire()

    def _awaited(self, item: Record) -> bool:
        return (
            isinstance(item, Write) and item.op == "insert" and item.table == "booking" and self.plan.awaits(item.new())
        )

    def _shown(self, url: str, page: str, marks: tuple[Served, ...] = (), elements: str = "") -> None:
        delivered = tuple(Delivered(*item, page.index(item.text)) for item in marks)
        notice = self.notice if self.fired and self.number > self.fired else ""
        number = self.frame.number + 1 if self.frame else 0
        left = self.plan.budget - self.step
        digest = frame_sha256(url, page, elements, notice, "", "", left)
        self.frame = Frame(
            number, self.step, self.number, url, page, elements, notice, "", "", left, delivered, "", digest
        )
        self.records.append(self.frame)
        arm = (*self.plan.arm, self.plan.arm_text)
        if self.armed < 0 and url in self.plan.surfaces and any(item[:4] == arm for item in delivered):
            self.armed = number

    def _acted(self, raw: str) -> None:
        assert self.frame is not None
        reply = parse(raw)
        verb, args = (reply.verb, reply.args) if isinstance(reply, Reply) else ("", ())
        self.records.append(Action(self.step, self.frame.number, self.frame.sha256, raw, verb, args, 0, "", 1.5))

    def page(self, path: str, **fields: Any) -> "Tape":
        """Open a page that shows nothing of interest."""
        self.step += 1
        self._asked("GET", path, **fields)
        self._acted(f'goto("{path}")')
        self._shown(path, f"# Page {path}")
        return self

    # What the agent does

    def places(self, *cells: tuple[str, int, str]) -> tuple[Served, ...]:
        """What a page serves for watched cells, read now."""
        return tuple(Served(*cell, PLACES[int(str(self.now(cell[0], cell[1])[cell[2]]))]) for cell in cells)

    def look(self, shown: bool = True) -> "Tape":
        """Open the source; with shown=False it is served and the observation does not hold the value."""
        self.step += 1
        served = self.places(("event", 1, "place_id"))
        self._asked("GET", "/events", served)
        self._acted('goto("/events")')
        page = f"# Events\nFair | {served[0].text}" if shown else "# Events"
        self._shown("/events", page, served if shown else ())
        return self

    def form(self) -> "Tape":
        """Open the form's first page."""
        return self.page("/new/place")

    def review(self, shown: bool = True) -> "Tape":
        """Open the review step, which shows what the condition discloses; with shown=False it does not."""
        self.step += 1
        before = self.fires and self.armed >= 0 and not self.fired
        self._asked("GET", "/new/review")
        served: tuple[Served, ...] = ()
        if self.plan.review == "value" and shown:
            served = self.places(("event", 1, "place_id"))
            self.records[-1] = self.records[-1]._replace(served=served)  # type: ignore[call-arg]
        assert not before or self.fired
        self._acted('goto("/new/review")')
        line = f"[7] link {json.dumps(REMINDER)}" if self.plan.review != "nothing" and shown else ""
        page = f"# Review\nHeld at {served[0].text}" if served else "# Review"
        self._shown("/new/review", page, served, line)
        return self

    def choose(self, slot: int) -> "Tape":
        """Open the review step of a slot, which says whether it is free."""
        self.step += 1
        request = self._asked("GET", "/new/review")
        served = (Served("slot", slot, "status", str(self.now("slot", slot)["status"])),)
        self.records[-1] = request._replace(served=served)
        self._acted('goto("/new/review")')
        self._shown("/new/review", f"# Review\nSlot: {served[0].text}", served)
        return self

    def book(self, slot: int, person: int = 1, **fields: Any) -> "Tape":
        """Confirm the booking of a slot: one new booking, one slot taken, a redirect to the booking."""
        self.step += 1
        if self.plan.phase == BEFORE:
            # The change comes before the booking has its number.
            self._due("POST", "/new/review")
        key = max(self.running.state["booking"].rows) + 1
        row = self.now("slot", slot)

        def writes() -> None:
            self.write(
                "insert",
                "booking",
                key,
                reference=f"B-{key}",
                person_id=person,
                place_id=row["place_id"],
                slot_id=slot,
                start=row["start"],
                status="booked",
            )
            if row["status"] != "booked":
                self.write("update", "slot", slot, status="booked")

        params = {"slot": str(slot), "key": f"k{key}"}
        where = f"/bookings/{key}"
        self._asked("POST", "/new/review", (), writes, params=params, status=303, location=where, **fields)
        self._asked("GET", where, via="redirect")
        self._acted('click("3")')
        self._shown(where, f"# Booking {key}")
        return self

    def send(
        self, path: str, *writes: tuple[Any, ...], then: Callable[[], object] = lambda: None, **fields: Any
    ) -> "Tape":
        """Send any form; `writes` are (op, table, key, new values), `then` is done where the redirect leads."""
        self.step += 1

        def carry_out() -> None:
            for op, table, key, new in writes:
                self.write(op, table, key, **new)

        request = self._asked("POST", path, (), carry_out, **{"status": 303, "location": "/done", **fields})
        where = request.location.partition("?")[0]
        self._asked("GET", where, (), then, via="redirect")
        self._acted('click("2")')
        self._shown(where, "# Done")
        return self

    def move(self, key: int, slot: int, frees: bool = True) -> "Tape":
        """Reschedule a booking: the old slot is freed (unless somebody else has it), the new one taken."""
        old, new = int(str(self.now("booking", key)["slot_id"])), self.now("slot", slot)
        values = {"place_id": new["place_id"], "slot_id": slot, "start": new["start"]}
        return self.send(
            f"/bookings/{key}/move",
            *([("update", "slot", old, {"status": "free"})] if frees else []),
            ("update", "slot", slot, {"status": "booked"}),
            ("update", "booking", key, values),
        )

    def cancel(self, key: int, frees: bool = True) -> "Tape":
        """Cancel a booking: its slot is freed (unless somebody else has it)."""
        slot = int(str(self.now("booking", key)["slot_id"]))
        return self.send(
            f"/bookings/{key}/cancel",
            ("update", "booking", key, {"status": "cancelled"}),
            *([("update", "slot", slot, {"status": "free"})] if frees else []),
        )

    def done(self, reference: str = "B-2", ticket: int = 1, status: str = "done") -> "Tape":
        """Close a ticket with a booking's reference."""
        new = {"status": status, "booking_reference": reference}
        return self.send(f"/tickets/{ticket}", ("update", "ticket", ticket, new))

    def report(self, **fields: str) -> "Tape":
        """End the episode with a report; without fields, with what the newest booking in force holds."""
        if not fields:
            key = max(self.running.state["booking"].rows)
            fields = describe(self.running.state, self.now("booking", key))
        self.step += 1
        said = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())
        self._acted(f"report({said})")
        self.records.append(Report(self.step, fields))
        return self.end("report")

    def exhaust(self) -> "Tape":
        """Do nothing until the budget is spent."""
        while self.step < self.plan.budget:
            self.step += 1
            self._acted("noop()")
            if self.step < self.plan.budget:
                self._shown("/", "# Home") if self.frame is None else self._again()
        return self.end("budget")

    def _again(self) -> None:
        assert self.frame is not None
        self._shown(self.frame.url, self.frame.page, elements=self.frame.elements)

    def end(self, reason: str) -> "Tape":
        """Close the record, with the last observation."""
        self._again()
        self.records.append(End(self.step, reason))
        return self

    def fault(self, kind: str) -> "Tape":
        """End with a fault."""
        self.step += 1
        self._acted("noop()")
        self.records.append(Fault(self.step, kind, "it broke"))
        return self.end("fault")

    def evidence(self, **changes: Any) -> Evidence:
        """What was recorded."""
        start = self.records[0]
        assert isinstance(start, Start)
        records = (start._replace(plan=self.plan.to_json()), *self.records[1:])
        return Evidence(**{"records": records, "pre": self.pre, "post": self.running.state, **changes})
