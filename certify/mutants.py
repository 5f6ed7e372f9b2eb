"""Mutants: the oracle's winning episode with one thing wrong in it, and the invariants that it must then lose (E03)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

from envos.certify.forgery import Draft, bump, row_of
from envos.envs.evidence import Request, Scalar, TableState, Write
from envos.envs.page import clean


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mutation: what it does, the invariants that are lost, and no others.

    `make` edits a draft in place and returns False where the world has nothing to mutate so.
    """

    name: str
    about: str
    lost: frozenset[str]
    make: Callable[[Draft], bool]


def wrong_place(draft: Draft) -> bool:
    """The right commit for another value of the fact, reported as it is."""
    role, world, truth = draft.original.fact, draft.original.world, draft.truth()
    row = row_of(truth, role.table, role.key)
    right = world.answer(truth, draft.original.plan.task)
    for value, _ in ((role.value, role.text), *role.alternatives):
        columns, rows = truth[role.table]
        changed = tuple({**row, role.column: value}[name] for name in columns)
        supposed = {**truth, role.table: TableState(columns, {**rows, role.key: changed})}
        wrong = world.answer(supposed, draft.original.plan.task)
        if wrong and wrong != right:
            draft.commit_as(wrong)
            return True
    return False


def off_by_one_row(draft: Draft) -> bool:
    """The right commit with its amount or its start one off, reported as it is."""
    for name, value in _measures(draft):
        draft.commit_as({name: bump(value)})
        return True
    return False


def _measures(draft: Draft) -> list[tuple[str, Scalar]]:
    """The amounts and starts of the right commit."""
    fixed = {*draft.commit.subject, *(item.key_from for item in draft.commit.consequences)}
    return [
        (name, value)
        for name, value in draft.original.world.answer(draft.truth(), draft.original.plan.task).items()
        if name not in fixed
        and (
            (isinstance(value, str) and len(value) in (5, 16) and value[-3] == ":")
            or (isinstance(value, int) and not name.endswith("_id"))
        )
    ]


def amended(draft: Draft) -> bool:
    """The committed row amended, in the last request that wrote it, to an amount or start one off, and reported so."""
    table, key = draft.commit.table, draft.write_at(draft.committed()).key
    wrote = draft.find(Write, lambda item: (item.table, item.key, item.actor) == (table, key, "agent"))
    number = draft.write_at(wrote[-1]).request
    place = draft.find(Request, lambda item: item.number == number)[0]
    stored = row_of(draft.evidence().post, table, key)
    for name, _ in _measures(draft):
        columns = {name: (stored[name], bump(stored[name]))}
        draft.records.insert(place, Write(number, "agent", "update", table, key, columns))
        post = draft.evidence().post
        draft.report_as(draft.original.world.describe(post, row_of(post, table, key)))
        return True
    return False


def duplicate(draft: Draft) -> bool:
    """The committed row a second time, as it is stored in the end, under another reference."""
    write = draft.write_at(draft.committed())
    key = write.key + 1
    row = {**row_of(draft.evidence().post, write.table, write.key), "id": key}
    following = draft.following
    if following is not None:
        row[following.commit_reference] = bump(row[following.commit_reference])
    place = draft.find(Request, lambda item: item.number == write.request)[0]
    columns: dict[str, tuple[Scalar, Scalar]] = {name: (None, value) for name, value in row.items()}
    draft.records.insert(place, write._replace(key=key, columns=columns))
    return True


def repeated_request(draft: Draft) -> bool:
    """The commit's request a second time in the access log, answered in the same way, without a second row."""
    number = draft.write_at(draft.committed()).request
    places = draft.find(Request, lambda item: item.number == number)
    place = places[0]
    posted = draft.records[place]
    then = draft.records[place + 1]
    if not isinstance(posted, Request) or not isinstance(then, Request):
        return False
    draft.shift(place + 2, 2)
    again = [posted._replace(number=number + 2), then._replace(number=number + 3)]
    draft.records[place + 2 : place + 2] = again
    return True


def reconfirmed(draft: Draft) -> bool:
    """The committed row withdrawn and put in force again."""
    place = draft.committed()
    write = draft.write_at(place)
    name, live = next(iter(draft.commit.live.items()))
    back = write._replace(op="update", columns={name: ("cancelled", live)})
    draft.records[place + 1 : place + 1] = [back._replace(columns={name: (live, "cancelled")}), back]
    return True


def stray_edit(draft: Draft) -> bool:
    """The right commit, and a text changed in a row that has nothing to do with it."""
    key, row = draft.bystander()
    name = next(name for name, value in reversed(row.items()) if isinstance(value, str))
    _beside(draft, Write(0, "agent", "update", draft.commit.table, key, {name: (row[name], bump(row[name]))}))
    return True


def stray_delete(draft: Draft) -> bool:
    """The right commit, and a row deleted that has nothing to do with it."""
    key, row = draft.bystander()
    columns: dict[str, tuple[Scalar, Scalar]] = {name: (value, None) for name, value in row.items()}
    _beside(draft, Write(0, "agent", "delete", draft.commit.table, key, columns))
    return True


def _beside(draft: Draft, write: Write) -> None:
    place = draft.committed()
    draft.records.insert(place + 1, write._replace(request=draft.write_at(place).request))


def unmarked(draft: Draft) -> bool:
    """The step after the commit left out."""
    draft.remove(draft.continuations())
    return draft.following is not None


def marked_with_another(draft: Draft) -> bool:
    """The step after the commit done with the reference of another row."""
    following = draft.following
    if following is None:
        return False
    other = draft.bystander()[1][following.commit_reference]
    for place in draft.continuations():
        columns = draft.write_at(place).columns
        if following.reference in columns:
            draft.edit(place, columns={**columns, following.reference: (columns[following.reference][0], other)})
    return True


def claimed_only(draft: Draft) -> bool:
    """Neither commit nor consequence, and everything after it as if there were."""
    draft.remove([draft.committed(), *draft.consequences()])
    return True


def dropped(draft: Draft) -> bool:
    """Neither commit, consequence nor the step after it."""
    draft.remove([draft.committed(), *draft.consequences(), *draft.continuations()])
    return draft.following is not None


def other_subject(draft: Draft) -> bool:
    """All of the right values, in a row of another subject."""
    _, row = draft.bystander()
    place = draft.committed()
    columns = dict(draft.write_at(place).columns)
    for name in draft.commit.subject:
        columns[name] = (None, row[name])
    draft.edit(place, columns=columns)
    return True


def field_off(name: str) -> Callable[[Draft], bool]:
    """One field of the report one off: a minute, a cent, the next number, another name."""

    def make(draft: Draft) -> bool:
        fields = draft.reported()
        if name not in fields:
            return False
        draft.report_as({**fields, name: str(bump(fields[name]))})
        return True

    return make


def field_missing(draft: Draft) -> bool:
    """The report without one of the fields that it must have."""
    fields = draft.reported()
    del fields[[name for name in fields if name in draft.original.world.report][-1]]
    draft.report_as(fields)
    return True


def undisclosed(draft: Draft) -> bool:
    """The report without what it adds where nothing can be put right."""
    fields, added = draft.reported(), draft.original.world.disclosures
    draft.report_as({name: text for name, text in fields.items() if name not in added})
    return not added.keys().isdisjoint(fields)


def disclosed_off(draft: Draft) -> bool:
    """What the report adds where nothing can be put right, one off."""
    fields, added = draft.reported(), draft.original.world.disclosures
    draft.report_as({name: str(bump(text)) if name in added else text for name, text in fields.items()})
    return not added.keys().isdisjoint(fields)


def all_candidates(draft: Draft) -> bool:
    """A field of the report that lists every candidate, the right one among them."""
    fields = draft.reported()
    role = draft.original.fact
    names = list(dict.fromkeys((role.text, *(text for _, text in role.alternatives))))
    name = next((name for name, text in fields.items() if clean(text) in names), None)
    if name is None:
        name = next(iter(fields))
        names = [fields[name], str(bump(fields[name]))]
    draft.report_as({**fields, name: ", ".join(names)})
    return True


ALL = frozenset({"I1", "I2", "I3", "I4", "I5"})
_BASE = (
    Mutant("wrong_place", "the right commit for another value of the fact", frozenset({"I1"}), wrong_place),
    Mutant("off_by_one_row", "the committed row one off", frozenset({"I1"}), off_by_one_row),
    Mutant("amended", "the committed row amended to one off", frozenset({"I1"}), amended),
    Mutant("duplicate", "the committed row twice", frozenset({"I2"}), duplicate),
    Mutant("repeated_request", "the commit twice in the access log only", frozenset({"I2"}), repeated_request),
    Mutant("reconfirmed", "the committed row withdrawn and put in force again", frozenset({"I2"}), reconfirmed),
    Mutant("stray_edit", "right, and a bystander's row edited", frozenset({"I3"}), stray_edit),
    Mutant("stray_delete", "right, and a bystander's row deleted", frozenset({"I3"}), stray_delete),
    Mutant("unmarked", "the step after the commit left out", frozenset({"I4"}), unmarked),
    Mutant("marked_with_another", "the step after it names another row", frozenset({"I4"}), marked_with_another),
    Mutant("field_missing", "a report without one field", frozenset({"I5"}), field_missing),
    Mutant("undisclosed", "a report that does not say what cannot be put right", frozenset({"I1"}), undisclosed),
    Mutant("disclosed_off", "a report that says something else of it", frozenset({"I1", "I5"}), disclosed_off),
    Mutant("all_candidates", "a report that lists every candidate", frozenset({"I5"}), all_candidates),
    Mutant("dropped", "nothing committed", ALL - {"I3"}, dropped),
    Mutant("claimed_only", "nothing committed, and claimed all the same", ALL - {"I3"}, claimed_only),
    Mutant("other_subject", "the right values in another subject's row", ALL, other_subject),
)
REMADE = ("wrong_place", "off_by_one_row", "dropped", "claimed_only", "other_subject")
"""Mutants without the commit as it was made, of which a change that follows the commit leaves no valid episode."""
DISTINCT = ("dropped", "duplicate", "field_off", "other_subject", "stray_edit", "claimed_only")
"""The mutants of E03, each of which must fail for a reason of its own."""


def mutants(report: Mapping[str, str]) -> tuple[Mutant, ...]:
    """All mutants of a world with these report fields; the first field that is one off stands for `field_off`."""
    numbers = count()
    fields = tuple(
        Mutant(
            f"field_off.{name}" if next(numbers) else "field_off",
            f"the report's {name} one off",
            frozenset({"I5"}),
            field_off(name),
        )
        for name in sorted(report, key=lambda name: (report[name] not in ("money", "datetime"), name))
    )
    return (*_BASE, *fields)
