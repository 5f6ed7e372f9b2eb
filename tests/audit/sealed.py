"""Archives taken apart and written again: a forger who computes every digest anew, for the tests of the auditor."""

import hashlib
import json
from pathlib import Path
from typing import Any

NAMES = ("ledger.jsonl", "pre.json", "post.json", "verdict.json")
Data = dict[str, Any]


def text_of(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Forgery:
    """An archive taken apart; `seal` writes it with every digest and the chain computed anew."""

    def __init__(self, folder: Path) -> None:
        lines = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
        self.records: list[tuple[str, Data]] = [(line["kind"], line["data"]) for line in lines]
        self.pre, self.post, self.verdict = (json.loads((folder / name).read_text()) for name in NAMES[1:])
        self.start = self.records[0][1]
        self.plan = self.start["plan"]

    def all(self, kind: str, **fields: Any) -> list[Data]:
        """The data of the records of a kind with these fields."""
        return [data for name, data in self.records if name == kind and fields.items() <= data.items()]

    def one(self, kind: str, **fields: Any) -> Data:
        """The first of them."""
        return self.all(kind, **fields)[0]

    def at(self, data: Data) -> int:
        """The place of a record."""
        return next(place for place, (_, other) in enumerate(self.records) if other is data)

    def drop(self, *gone: Data) -> None:
        """Take records out."""
        self.records = [(kind, data) for kind, data in self.records if not any(data is other for other in gone)]

    def put(self, place: int, *records: tuple[str, Data]) -> None:
        """Put records in."""
        self.records[place:place] = list(records)

    def row(self, table: str, key: int, state: Data | None = None) -> list[Any]:
        """A row of the post-state, or of another."""
        return next(row for row in (state or self.post)[table]["rows"] if row[0] == key)

    def cell(self, table: str, column: str) -> int:
        """The place of a column."""
        return int(self.post[table]["columns"].index(column))

    @property
    def firing(self) -> Data:
        """The request that the change fired in."""
        return self.one("request", number=self.one("fire")["request"])

    @property
    def commit(self) -> Data:
        """The request that booked."""
        return self.one("request", method="POST", route="/new/review")

    def served(self, old: bool) -> list[Data]:
        """The requests that served the fact, with its old value or with its new one."""
        fact = [*self.plan["arm"], self.plan["arm_text" if old else "new_text"]]
        return [request for request in self.all("request") if fact in request["served"]]

    def frames_of(self, *requests: Data) -> list[Data]:
        """The frames that show these requests."""
        numbers = {request["number"] for request in requests}
        return [frame for frame in self.all("frame") if frame["request"] in numbers]

    def renumber(self) -> None:
        """Number steps, requests and frames anew, in the order of the records."""
        step = request = frame = 0
        moved: dict[int, int] = {}
        for kind, data in self.records:
            if kind in ("write", "fire"):
                data["request"] = request + 1
            elif kind == "request":
                request += 1
                moved.setdefault(data["number"], request)
                data["number"], data["step"] = request, step
            elif kind == "frame":
                data.update(number=frame, step=step, request=request, budget_left=self.plan["budget"] - step)
                frame, step = frame + 1, step + 1
            elif kind == "action":
                data["step"], data["frame"] = step, frame - 1
            elif "step" in data:
                data["step"] = step - (kind == "end")

    def seal(self, folder: Path, frames: bool = True) -> Path:
        """Write it all, with every digest computed anew (those of frames too, unless told otherwise)."""
        digests: dict[int, str] = {}
        for kind, data in self.records if frames else ():
            if kind == "frame":
                names = ("url", "page", "elements", "notice", "error", "memo", "budget_left")
                data["sha256"] = digests[data["number"]] = sha("\x1f".join(str(data[name]) for name in names))
            elif kind == "action":
                data["frame_sha256"] = digests.get(data["frame"], data["frame_sha256"])
        previous, ledger = "", ""
        for seq, (kind, data) in enumerate(self.records):
            line = text_of({"seq": seq, "prev": previous, "kind": kind, "data": data})
            previous, ledger = sha(line), f"{ledger}{line}\n"
        states = (text_of(value) + "\n" for value in (self.pre, self.post, self.verdict))
        return seal_files(folder, dict(zip(NAMES, (ledger, *states), strict=True)), previous)


def seal_files(folder: Path, files: dict[str, str], head: str) -> Path:
    """Write files and the manifest that fits them."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    listed = {name: sha(text) for name, text in files.items()}
    (folder / "manifest.json").write_text(text_of({"format": "1", "head": head, "files": listed}) + "\n")
    return folder


def retext(frame: Data, value: list[Any], text: str) -> None:
    """Show another text for a value, in the page and in what was delivered; later offsets move along."""
    for item in frame["delivered"]:
        if item[:3] == value:
            old, offset = item[3], item[4]
            frame["page"] = frame["page"][:offset] + text + frame["page"][offset + len(old) :]
            item[3] = text
            for other in frame["delivered"]:
                other[4] += (len(text) - len(old)) * (other[4] > offset)


def unshow(frame: Data, start: str) -> None:
    """Take the lines that begin so out of a page, and what was delivered there."""
    kept = [line for line in frame["page"].split("\n") if not line.startswith(start)]
    frame["page"] = "\n".join(kept)
    frame["delivered"] = []


def move_firing(forged: Forgery, request: Data) -> None:
    """Let the same change happen inside another request."""
    made = [(kind, data) for kind, data in forged.records if kind == "fire" or data.get("actor") == "perturbation"]
    forged.drop(*(data for _, data in made))
    forged.put(forged.at(request), *made)
    old, number = made[-1][1]["request"], request["number"]
    day, _, clock = forged.plan["opened"].partition(" ")
    minute = int(clock[:2]) * 60 + int(clock[3:]) + request["step"]
    at = f"{day} {minute // 60:02}:{minute % 60:02}"
    for _, data in made:
        data["request"] = number
        for name, value in (("at", at), ("visible_from", number + 1), ("request", number)):
            if name in data.get("columns", {}):
                data["columns"][name][1] = value
                forged.row(data["table"], data["key"])[forged.cell(data["table"], name)] = value
    assert old != number
