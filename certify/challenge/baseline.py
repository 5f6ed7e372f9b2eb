"""A simple checker of raw logs, for comparison: what many suites do, and what the two auditors are measured against.

It reads the ledger and the two states as they are and looks at the obvious: that the episode ended with a report,
that nothing is recorded to have failed, that the change fired after its fact was served, that one commit was made and
stands, that nothing else differs, and that the report names it. It trusts every line that it reads.
"""

import json
from collections.abc import Mapping
from typing import Any

LEDGER, PRE, POST = "ledger.jsonl", "pre.json", "post.json"
REJECTED, FAILURE, SUCCESS = "rejected", "failure", "success"
EVALUATOR = ("canary", "history", "message", "neutral", "notice", "perturbation_guard")

Json = dict[str, Any]


def check(files: Mapping[str, bytes]) -> str:
    """`success`, `failure`, or `rejected` for an archive that cannot be read or that the logs show to be invalid."""
    try:
        lines = [json.loads(line) for line in files[LEDGER].decode("ascii").splitlines()]
        records = [(line["kind"], line["data"]) for line in lines]
        pre, post = (json.loads(files[name]) for name in (PRE, POST))
        plan = records[0][1]["plan"]
        if not valid(records, plan):
            return REJECTED
        return SUCCESS if succeeded(records, plan, pre, post) else FAILURE
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return REJECTED


def of(records: list[tuple[str, Json]], kind: str) -> list[Json]:
    """The records of a kind."""
    return [data for name, data in records if name == kind]


def valid(records: list[tuple[str, Json]], plan: Json) -> bool:
    """Whether the episode came to an end and the change fired as it should."""
    fires, requests = of(records, "fire"), of(records, "request")
    if of(records, "fault") or len(of(records, "end")) != 1:
        return False
    identity = records[0][1]["identity"]
    if identity["model"] != identity["model_resolved"]:
        return False
    if not fires:
        return bool(plan["untriggered"] == "failure")
    served = [request["number"] for request in requests if [*plan["arm"], plan["arm_text"]] in request["served"]]
    return len(fires) == 1 and bool(served) and served[0] < fires[0]["request"]


def succeeded(records: list[tuple[str, Json]], plan: Json, pre: Json, post: Json) -> bool:
    """Whether one commit was made, stands alone and was reported."""
    table = plan["commit_table"]
    commits = [
        write
        for write in of(records, "write")
        if (write["op"], write["table"], write["actor"]) == ("insert", table, "agent")
    ]
    reports = of(records, "report")
    if len(commits) != 1 or len(reports) != 1 or not of(records, "fire"):
        return False
    row = named(post, table).get(commits[0]["key"])
    if row is None or not _reported(reports[0]["fields"], row):
        return False
    return _current(records, plan, row, post) and _others(records, pre, post, table)


def named(state: Json, table: str) -> dict[int, Json]:
    """The rows of a table by id, as columns to values."""
    columns = state[table]["columns"]
    return {row[columns.index("id")]: dict(zip(columns, row, strict=True)) for row in state[table]["rows"]}


def _reported(fields: Json, row: Json) -> bool:
    """Whether the report names the row by its reference."""
    return bool(str(fields.get("reference", "")).strip().casefold() == str(row["reference"]).casefold())


def _current(records: list[tuple[str, Json]], plan: Json, row: Json, post: Json) -> bool:
    """Whether the row holds the fact's current value: the same place, or an amount that is not over the limit."""
    table, key, column = plan["arm"]
    fact = named(post, table)[key].get(column)
    if column in row:
        return bool(row[column] == fact)
    return not (isinstance(fact, int) and isinstance(row.get("amount"), int) and row["amount"] > fact)


def _others(records: list[tuple[str, Json]], pre: Json, post: Json, table: str) -> bool:
    """Whether every other row that differs was written by somebody, according to the log."""
    written = {(write["table"], write["key"]) for write in of(records, "write")}
    for name in post:
        if name in EVALUATOR:
            continue
        before, after = named(pre, name), named(post, name)
        differing = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
        if any((name, key) not in written for key in differing):
            return False
    return True
