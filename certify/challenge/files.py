"""Corruptions of identity, plan, schema and files: what an archive's text may say wrong.

`TEXTS` edit an episode's text before it is sealed; `FILES` edit bytes, and their sealed strength is a manifest that
fits. Each returns None, or raises LookupError, where the archive has nothing of the kind.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from envos.certify.challenge.archives import Entry, Files, Sheet
from envos.envs.evidence import canonical
from envos.envs.streams import Stream
from envos.wrappers.archive import LEDGER, MANIFEST, POST, PRE, VERDICT

Text = Callable[[Sheet, Stream], Sheet | None]
Bytes = Callable[[Files, Stream], Files | None]
Json = dict[str, Any]


def _start(change: Callable[[Json], object]) -> Text:
    """An edit of the start record."""

    def make(sheet: Sheet, stream: Stream) -> Sheet:
        data = json.loads(sheet.entries[0][1])
        change(data)
        return replace(sheet, entries=((sheet.entries[0][0], canonical(data)), *sheet.entries[1:]))

    return make


def _identity(**fields: Any) -> Text:
    return _start(lambda data: data["identity"].update(fields))


def _plan(**fields: Any) -> Text:
    return _start(lambda data: data["plan"].update(fields))


def _other(name: str, *values: str) -> Text:
    """The identity and the plan say another of these."""

    def change(data: Json) -> None:
        old = data["identity"].get(name)
        new = next(value for value in values if value != old)
        data["identity"][name] = new
        if name in data["plan"]:
            data["plan"][name] = new

    return _start(change)


def _seed(data: Json) -> None:
    data["identity"]["seed"] += 1


def _target(data: Json) -> None:
    task = data["plan"]["task"]
    name = next(name for name, value in task.items() if isinstance(value, int))
    task[name] = task[name] % 3 + 1


def _announced(data: Json) -> None:
    data["plan"]["announced"] = not data["plan"]["announced"]


def _review(data: Json) -> None:
    data["plan"]["review"] = "nothing" if data["plan"]["review"] != "nothing" else "value"


def _trigger(data: Json) -> None:
    plan = data["plan"]
    plan["trigger"] = ["/inbox", *plan["trigger"][1:]]


def _untriggered(data: Json) -> None:
    plan = data["plan"]
    plan["untriggered"] = "failure" if plan["untriggered"] == "uncounted" else "uncounted"


def _surfaces(data: Json) -> None:
    data["plan"]["surfaces"].append("/inbox")


def _operation(data: Json) -> None:
    data["plan"]["operations"].pop()


def _watched(data: Json) -> None:
    data["plan"]["watched"].pop()


def _record(kind: str, change: Callable[[Json], object]) -> Text:
    """An edit of the middle record of a kind."""

    def make(sheet: Sheet, stream: Stream) -> Sheet | None:
        places = [place for place, (name, _) in enumerate(sheet.entries) if name == kind]
        if not places:
            return None
        place = places[len(places) // 2]
        data = json.loads(sheet.entries[place][1])
        change(data)
        entries: list[Entry] = list(sheet.entries)
        entries[place] = kind, canonical(data)
        return replace(sheet, entries=tuple(entries))

    return make


def _unknown_kind(sheet: Sheet, stream: Stream) -> Sheet:
    place = len(sheet.entries) // 2
    return replace(sheet, entries=(*sheet.entries[:place], ("note", "{}"), *sheet.entries[place:]))


def _states(change: Callable[[Json, Json], object]) -> Text:
    """An edit of the two states as JSON."""

    def make(sheet: Sheet, stream: Stream) -> Sheet:
        pre, post = json.loads(sheet.pre), json.loads(sheet.post)
        change(pre, post)
        return replace(sheet, pre=canonical(pre), post=canonical(post))

    return make


def _row_twice(pre: Json, post: Json) -> None:
    post["message"]["rows"].append(post["message"]["rows"][-1])


def _table_gone(pre: Json, post: Json) -> None:
    del pre["notice"], post["notice"]


def _table_added(pre: Json, post: Json) -> None:
    pre["ledger"] = post["ledger"] = {"columns": ["id"], "rows": []}


def _column_added(pre: Json, post: Json) -> None:
    for state in (pre, post):
        state["message"]["columns"].append("flag")
        for row in state["message"]["rows"]:
            row.append(0)


def _history_before(pre: Json, post: Json) -> None:
    """Both states have a row that the instance does not: only who knows the instance can tell."""
    for state in (pre, post):
        rows = state["message"]["rows"]
        rows[-1][state["message"]["columns"].index("sender")] = "Nobody"


def _canary(pre: Json, post: Json) -> None:
    for state in (pre, post):
        state["canary"]["rows"][0][1] = f"canary-{'0' * 24}"


def _states_exchanged(sheet: Sheet, stream: Stream) -> Sheet | None:
    return replace(sheet, pre=sheet.post, post=sheet.pre) if sheet.pre != sheet.post else None


def _claim(sheet: Sheet, stream: Stream) -> Sheet | None:
    """A failure whose verdict says success."""
    verdict = json.loads(sheet.verdict)
    if verdict["endpoint"]:
        return None
    verdict |= {"validity": "counted", "counted": True, "endpoint": True, "fraction": 1.0, "reward": 1.0, "reasons": []}
    return replace(sheet, verdict=canonical(verdict))


def _no_claim(sheet: Sheet, stream: Stream) -> Sheet:
    return replace(sheet, verdict="[]")


TEXTS: dict[str, Text] = {
    "identity_model": _identity(model="one", model_resolved="another"),
    "identity_code": _identity(code=""),
    "identity_certificate": _identity(certificate="yes"),
    "identity_instance": _identity(instance="0" * 64),
    "identity_format": _identity(format="2"),
    "identity_seed": _start(_seed),
    "identity_seed_type": _start(lambda data: data["identity"].update(seed=str(data["identity"]["seed"]))),
    "identity_split": _other("split", "train", "test"),
    "identity_environment": _other("environment", "EnvOS/ClinicStale-v0", "EnvOS/ClaimsGhost-v0"),
    "identity_condition": _start(
        lambda data: data["identity"].update(condition="C" if data["identity"]["condition"] != "C" else "L0")
    ),
    "identity_anchor": _start(
        lambda data: data["identity"].update(anchor="any" if data["identity"]["anchor"] == "first" else "first")
    ),
    "condition_in_both": _other("condition", "L0", "OFF-A"),
    "environment_unknown": _identity(environment="EnvOS/ClinicStale-v9"),
    "identity_field_missing": _start(lambda data: data["identity"].pop("policy")),
    "plan_budget": _plan(budget=4),
    "plan_opened": _plan(opened="2030-01-01 08:00"),
    "plan_target": _start(_target),
    "plan_announced": _start(_announced),
    "plan_review": _start(_review),
    "plan_trigger": _start(_trigger),
    "plan_untriggered": _start(_untriggered),
    "plan_surfaces": _start(_surfaces),
    "plan_operations": _start(_operation),
    "plan_watched": _start(_watched),
    "plan_commit_table": _plan(commit_table="message"),
    "plan_new_text": _plan(new_text="Elsewhere"),
    "schema_boolean": _record("action", lambda data: data.update(memo_cut=False)),
    "schema_field_missing": _record("frame", lambda data: data.pop("screenshot")),
    "schema_field_added": _record("end", lambda data: data.update(verdict="success")),
    "schema_wall_time": _record("action", lambda data: data.update(wall_ms=-1.0)),
    "schema_text_for_number": _record("request", lambda data: data.update(status="200")),
    "screenshot_missing": _record("frame", lambda data: data.update(screenshot=f"{'a' * 64}.png")),
    "kind_unknown": _unknown_kind,
    "state_row_twice": _states(_row_twice),
    "state_table_gone": _states(_table_gone),
    "state_table_added": _states(_table_added),
    "state_column_added": _states(_column_added),
    "state_canary": _states(_canary),
    "state_of_no_instance": _states(_history_before),
    "states_exchanged": _states_exchanged,
    "claim_raised": _claim,
    "claim_no_object": _no_claim,
}
"""By name."""
CLAIMS = frozenset({"claim_raised", "claim_no_object", "flip_in_verdict"})
"""Those that are about the archived verdict, which nobody then makes anew."""


def _gone(name: str) -> Bytes:
    return lambda files, stream: {key: data for key, data in files.items() if key != name}


def _flip(name: str) -> Bytes:
    """One bit of one byte, anywhere but in the line feed at the end."""

    def make(files: Files, stream: Stream) -> Files:
        data = bytearray(files[name])
        data[stream.below(len(data) - 1)] ^= 1 << stream.below(7)
        return {**files, name: bytes(data)}

    return make


def _lines(change: Callable[[list[bytes], Stream], list[bytes]]) -> Bytes:
    def make(files: Files, stream: Stream) -> Files:
        lines = files[LEDGER].splitlines(keepends=True)
        return {**files, LEDGER: b"".join(change(lines, stream))}

    return make


def _drop(lines: list[bytes], stream: Stream) -> list[bytes]:
    place = 1 + stream.below(len(lines) - 2)
    return lines[:place] + lines[place + 1 :]


def _repeat(lines: list[bytes], stream: Stream) -> list[bytes]:
    place = 1 + stream.below(len(lines) - 2)
    return lines[: place + 1] + lines[place:]


def _swap(lines: list[bytes], stream: Stream) -> list[bytes]:
    place = 1 + stream.below(len(lines) - 3)
    return [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]]


def _replaced(name: str, old: bytes, new: bytes) -> Bytes:
    def make(files: Files, stream: Stream) -> Files | None:
        return {**files, name: files[name].replace(old, new, 1)} if old in files[name] else None

    return make


FILES: dict[str, Bytes] = {
    **{f"flip_in_{name.partition('.')[0]}": _flip(name) for name in (LEDGER, PRE, POST, VERDICT)},
    **{f"{name.partition('.')[0]}_gone": _gone(name) for name in (LEDGER, PRE, POST, VERDICT)},
    "file_added": lambda files, stream: {**files, "notes.txt": b"all is well\n"},
    "file_renamed": lambda files, stream: {("Post.json" if key == POST else key): data for key, data in files.items()},
    "line_dropped": _lines(_drop),
    "line_twice": _lines(_repeat),
    "lines_swapped": _lines(_swap),
    "tail_cut": _lines(lambda lines, stream: lines[:-3]),
    "tail_cut_in_a_line": _lines(lambda lines, stream: [*lines[:-1], lines[-1][:-9]]),
    "blank_line": _lines(lambda lines, stream: [lines[0], b"\n", *lines[1:]]),
    "blank_in_a_line": _replaced(LEDGER, b'"seq":1', b'"seq": 1'),
    "key_twice": _replaced(LEDGER, b'"kind":"frame"', b'"kind":"frame","kind":"frame"'),
    "not_a_number": _replaced(LEDGER, b'"memo_cut":0', b'"memo_cut":NaN'),
    "states_of_another_format": lambda files, stream: {**files, POST: b"{}\n"},
    "two_lines_at_the_end": lambda files, stream: {**files, PRE: files[PRE] + b"\n"},
}
"""By name; the manifest is then made to fit, or is left as it was."""


def _head(files: Files, stream: Stream) -> Files:
    data = json.loads(files[MANIFEST])
    return {**files, MANIFEST: f"{canonical({**data, 'head': '0' * 64})}\n".encode()}


MANIFESTS: dict[str, Bytes] = {
    "manifest_gone": _gone(MANIFEST),
    "manifest_empty": lambda files, stream: {**files, MANIFEST: b""},
    "manifest_head": _head,
    "manifest_format": _replaced(MANIFEST, b'"format":"1"', b'"format":"2"'),
    "manifest_flip": _flip(MANIFEST),
}
"""Corruptions of the manifest itself, which is all that seals: both strengths are one."""
