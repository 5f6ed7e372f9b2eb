"""NumericView: an episode as fixed-size arrays and a mask of (verb, item) pairs, for agents that do not read text.

Everything is computed from the text observation, so that both interfaces know the same, and an action becomes an
ordinary text action, so that evidence and verdict are the same. No world is named here: what an item has to do with the
task is told by equal text (with the goal, with the memo, with other items), not by its words.

Items are the page itself, everything on it that can be acted on, and its `Label: value` facts. The memory is the memo:
`key = value` entries, newest first, keyed by the item's label, so that noting again overwrites. In the arrays, and for
the verbs that type an entry, those whose key the goal names come first, so that noting them again moves nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete

from envos.envs.action import Action as TextAction
from envos.envs.action import click, fill, go_back, memo, noop, render
from envos.envs.env import MEMO_LIMIT, EnvOS
from envos.errors import UsageError

Array = npt.NDArray[np.float32]
Observation = dict[str, Any]

ITEMS = 48
"""Items of a page; what comes after them is not seen."""
ENTRIES = 4
"""Entries of the memory."""
VERBS = ("act", "note", *(f"fill_{number}" for number in range(ENTRIES)), "fill_difference", "report", "back")
"""act: click. note: keep in the memory. fill_k: type the value of entry k. fill_difference: type the first amount of
the page's facts less the second. report: give the facts of the page as the report. back: the page before this one."""
ROLES = ("page", "link", "button", "textbox", "combobox", "radio", "fact")
TEXT_BITS, LABEL_BITS, PLACE_BITS, KEY_BITS = 24, 12, 24, 8
_KEY, _VALUE = 45, 44
_ACTS = ("link", "button", "radio")

_INDEX = re.compile(r"\[(\d+)\] ?")
_FACT = re.compile(r"([A-Z][^:|\[\]]{0,39}): (.*)")
_RADIO = re.compile(r"\[(\d+)\] \((x| )\) (.*)")
_TIME = re.compile(r"\b(\d\d):(\d\d)\b")
_MONEY = re.compile(r"\$([\d,]+\.\d\d)")
_WORD = re.compile(r"[A-Za-z]+")


class Item(NamedTuple):
    """One thing on a page: `cells` are those of its table row, `at` its element number (0: none)."""

    role: str
    text: str
    label: str
    at: int
    on: bool
    value: str
    cells: tuple[str, ...]


class Screen(NamedTuple):
    """A page read: title, items (the page itself first), whether a notice covers it."""

    title: str
    items: tuple[Item, ...]
    covered: bool


def read(observation: Mapping[str, Any]) -> Screen:
    """The items of an observation, in the order of the page."""
    lines = observation["page"].split("\n")
    roles = dict(_ROLE.findall(observation["elements"]))
    covered = lines[0].startswith("!! ")
    title = next((line[2:] for line in lines if line.startswith("# ")), "")
    items = [Item("page", title, "", 0, False, "", ())]
    if covered:
        # Nothing else can be used until the notice is acknowledged.
        items.append(Item("fact", lines[1], "Notice", 0, False, lines[1], ()))
        items += [
            Item("button", line[found.end() :], "", int(found[1]), False, "", ())
            for line in lines
            if (found := _INDEX.match(line))
        ]
        return Screen(title, tuple(items), covered)
    header: list[str] = []
    group = ""
    for line in lines:
        if " | " in line:
            cells = line.split(" | ")
            if not header:
                if "[" in line and cells[0].startswith("["):
                    items += [_linked(cell, "", ()) for cell in cells if cell.startswith("[")]
                    continue
                header = cells
                continue
            plain = tuple([_INDEX.sub("", cell, count=1) if "[" in cell else cell for cell in cells])
            for place, cell in enumerate(cells):
                if cell.startswith("["):
                    label = header[place] if place < len(header) else ""
                    items.append(_linked(cell, label, plain))
            continue
        header = []
        radio = _RADIO.fullmatch(line)
        if radio:
            items.append(Item("radio", radio[3], group, int(radio[1]), radio[2] == "x", "", ()))
            continue
        if line.startswith("["):
            found = _INDEX.match(line)
            if found and found[1] in roles:
                items.append(Item(roles[found[1]], line[found.end() :], "", int(found[1]), False, "", ()))
            continue
        if line.endswith(":"):
            group = line[:-1]
            continue
        fact = _FACT.fullmatch(line)
        if fact is None or line.startswith(("#", "!")):
            continue
        label, rest = fact[1], fact[2]
        found = _INDEX.match(rest)
        if found is None:
            items.append(Item("fact", rest, label, 0, False, rest, ()))
            continue
        role, shown = roles.get(found[1], "link"), rest[found.end() :]
        typed = shown[1:-1] if role == "textbox" else shown
        items.append(Item(role, label if role == "textbox" else shown, label, int(found[1]), False, typed, ()))
    return Screen(title, tuple(items[:ITEMS]), covered)


_ROLE = re.compile(r"^\[(\d+)\] (\w+) ", re.MULTILINE)


def _linked(cell: str, label: str, cells: tuple[str, ...]) -> Item:
    found = _INDEX.match(cell)
    at = int(found[1]) if found else 0
    return Item("link", cell[found.end() :] if found else cell, label, at, False, "", cells)


def entries(text: str) -> list[tuple[str, str]]:
    """The entries that a memo holds, newest first."""
    parts = [part.partition(" = ") for part in text.split(" ; ")] if text else []
    return [(key, value) for key, mark, value in parts if mark][:ENTRIES]


def noted(held: list[tuple[str, str]], key: str, value: str) -> str:
    """The memo with an entry more, which takes the place of one with the same key."""
    kept = [f"{one} = {other}" for one, other in [(key, value), *[entry for entry in held if entry[0] != key]]][
        :ENTRIES
    ]
    while len(text := " ; ".join(kept)) > MEMO_LIMIT:
        kept.pop()
    return text


@lru_cache(maxsize=8192)
def bits(text: str, count: int) -> tuple[float, ...]:
    """A signed hash of a text's words, numbers aside, so that what has no fixed wording is all zero."""
    words = _WORD.findall(text.lower())
    if not words:
        return (0.0,) * count
    value = crc32(" ".join(words).encode()) | crc32(" ".join(reversed(words)).encode(), 7) << 32
    return tuple([1.0 if value >> place & 1 else -1.0 for place in range(count)])


def _minutes(text: str) -> list[int]:
    return [60 * int(hours) + int(rest) for hours, rest in _TIME.findall(text)]


def _cents(text: str) -> int | None:
    found = _MONEY.search(text)
    return None if found is None else int(found[1].replace(",", "").replace(".", ""))


def _typed(value: str) -> str:
    """A kept value as it is typed into a field: an amount without its signs, else the first of its cells."""
    found = _MONEY.search(value)
    return found[1].replace(",", "") if found else value.split(" | ")[0]


def _plain(amount: int) -> str:
    return f"{amount // 100}.{amount % 100:02}"


class Task:
    """What the goal's text holds, asked for again and again in an episode."""

    def __init__(self, goal: str) -> None:
        self.goal = goal
        self.words = frozenset(_WORD.findall(goal.lower()))
        self._values = [value for _, value in re.findall(r"^([A-Z][^:\n]*): (.{6,})$", goal, re.MULTILINE)]
        self._known: dict[str, bool] = {}

    def names(self, text: str) -> bool:
        """Whether a text of three characters or more stands in the goal, whole."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = len(text) > 2 and self._whole(text)
        return found

    def _whole(self, text: str) -> bool:
        place = self.goal.find(text)
        while place >= 0:
            around = self.goal[place - 1 : place], self.goal[place + len(text) : place + len(text) + 1]
            if not any(map(str.isalnum, around)):
                return True
            place = self.goal.find(text, place + 1)
        return False

    def told(self, text: str) -> str:
        """What a text says of something that the goal names with a label, or "" where it mentions none."""
        for value in self._values:
            if value in text:
                return text.partition(value)[2].rpartition(": ")[2]
        return ""

    def overlap(self, text: str) -> float:
        """The share of a text's words that the goal has."""
        words = _WORD.findall(text.lower())
        return sum(word in self.words for word in words) / len(words) if words else 0.0


_NAMES = (
    *(f"role {role}" for role in ROLES),
    "chosen",
    "filled",
    "in a row",
    "place",
    "in the goal",
    "words in the goal",
    "row in the goal",
    "row most in the goal",
    "nearest compatible",
    "time apart",
    "overlaps a noted time",
    "has times",
    "noted",
    "noted otherwise",
    "can be noted",
    *(f"is entry {number}" for number in range(ENTRIES)),
    *(f"row has entry {number}" for number in range(ENTRIES)),
    *(f"entry {number} is less than the difference" for number in range(ENTRIES)),
    *(f"entry {number} is an amount" for number in range(ENTRIES)),
    "difference",
    "holds an entry",
    "holds the difference",
    "acted on",
    "acted on lately",
    "about the goal",
)
FEATURES = len(_NAMES) + TEXT_BITS + LABEL_BITS
"""Numbers of an item: those of `_NAMES`, then hashes of its text and its label."""
_AT = {name: place for place, name in enumerate(_NAMES)}
GLOBALS = 2 * PLACE_BITS + 3 * (len(VERBS) + 1) + ENTRIES * (4 + KEY_BITS) + 8
"""Numbers of the whole page: hashes of its path and banner, the last three verbs, the entries' ages, and counts."""
LATELY = 24
"""Steps after which something was not done lately."""


@dataclass
class Age:
    """When an entry was noted and last seen on a page, in steps, and whether it was out of sight in between."""

    noted: int
    seen: int
    gone: bool = False
    again: bool = False

    def look(self, now: int, shown: bool) -> None:
        """Take a page into account, on which the entry is shown or not."""
        if shown:
            self.seen, self.again = now, self.again or self.gone
        else:
            self.gone = True

    def numbers(self, now: int) -> tuple[float, float, float]:
        """How lately it was noted, and seen, from 1 (now) to 0; and whether it was seen again after a while."""
        return max(0.0, 1 - (now - self.noted) / LATELY), max(0.0, 1 - (now - self.seen) / LATELY), float(self.again)


class Sheet(NamedTuple):
    """A page laid out: what of its items is the same whatever the memory holds, worked out once for an episode.

    `fixed` are their numbers; `counts` how many cells of their rows the goal names, `times` the times of those rows,
    `noting` what noting them would keep. `texts` and `cells` say which items have a text, or a row with such a cell.
    `difference` is that of the page's first two amounts, `answer` the report that its facts give.
    """

    screen: Screen
    fixed: Array
    counts: list[int]
    times: list[list[int]]
    noting: list[tuple[str, str] | None]
    texts: dict[str, list[int]]
    cells: dict[str, list[int]]
    difference: int | None
    answer: dict[str, str] | None


class NumericView(gymnasium.Wrapper[Any, int, Any, str]):
    """Arrays in place of text, and the number of a (verb, item) pair in place of a text action.

    Observation: `elements` (ITEMS, FEATURES), `globals` (GLOBALS,), `action_mask` (ITEMS * len(VERBS),), all float32;
    the mask is 1 where a pair can be carried out and never all 0. Action: `item * len(VERBS) + verb`. A pair that the
    mask rules out costs a step and does nothing (`noop()`). Stands around `Archive`. Raises UsageError for an
    environment that is no EnvOS.
    """

    def __init__(self, env: gymnasium.Env[Any, str]) -> None:
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, EnvOS):
            raise UsageError(f"NumericView takes an EnvOS environment; got {type(inner).__name__}")
        self.labels = inner.world.labels
        self.kinds = inner.world.report
        self.budget = inner.scenario.budget
        self.observation_space = Dict(
            {
                "elements": Box(-1, 1, (ITEMS, FEATURES), np.float32),
                "globals": Box(-1, 1, (GLOBALS,), np.float32),
                "action_mask": Box(0, 1, (ITEMS * len(VERBS),), np.float32),
            }
        )
        self.action_space = Discrete(ITEMS * len(VERBS))
        self.task = Task("")
        self.screen = Screen("", (), False)
        self.held: list[tuple[str, str]] = []
        self.listed: list[tuple[str, str]] = []
        self.sheet = Sheet(self.screen, np.zeros((ITEMS, FEATURES), np.float32), [], [], [], {}, {}, None, None)
        self.path = ""
        self.nearest = -1

    def can(self, place: int, verb: str) -> bool:
        """Whether the mask allows a pair."""
        return bool(self._mask[place * len(VERBS) + VERBS.index(verb)])

    def noted_otherwise(self, place: int) -> bool:
        """Whether the memory holds another value under the key of an item."""
        entry = self.sheet.noting[place] if place < len(self.sheet.noting) else None
        return entry is not None and any(key == entry[0] and value != entry[1] for key, value in self.held)

    def said(self, text: str) -> str:
        """What a text says of what the goal names with a label or the memory holds, "" where it is about neither."""
        said = self.task.told(text)
        for _, value in self.held:
            if not said and len(value) > 4 and value in text:
                said = text.partition(value)[2].rpartition(": ")[2]
        return said

    def less(self, number: int) -> bool:
        """Whether an entry's amount is below the difference of the page's amounts."""
        amount = _cents(self.listed[number][1])
        return amount is not None and self.sheet.difference is not None and amount < self.sheet.difference

    def typed(self, verb: str) -> str:
        """What a verb types."""
        if verb == "fill_difference":
            return _plain(self.sheet.difference or 0)
        return _typed(self.listed[int(verb.removeprefix("fill_"))][1])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.task = Task(observation["goal"])
        self._verbs = [len(VERBS)] * 3
        self._acts: dict[tuple[str, str], int] = {}
        self._acted: dict[str, int] = {}
        self._ages: dict[tuple[str, str], Age] = {}
        self._now = 0
        self._visits: dict[str, int] = {}
        self._sheets: dict[tuple[str, str], Sheet] = {}
        self._kept: dict[Item, Array] = {}
        self.path = ""
        return self._seen(observation), info

    def step(self, action: int) -> tuple[dict[str, Array], Any, bool, bool, dict[str, Any]]:
        """Carry out a pair."""
        item, verb = divmod(int(action), len(VERBS))
        text = self.text(item, VERBS[verb]) if self._mask[action] else noop()
        self._verbs = [verb, *self._verbs[:2]]
        self._now += 1
        if item < len(self.screen.items):
            done = (self.path, self.screen.items[item].text)
            self._acts[done] = self._acts.get(done, 0) + 1
            self._acted[done[1]] = self._now
        observation, reward, terminated, truncated, info = self.env.step(text)
        return self._seen(observation), reward, terminated, truncated, info

    def text(self, place: int, verb: str) -> str:
        """The text action that a pair stands for."""
        item = self.screen.items[place]
        if verb == "act":
            return click(item.at)
        if verb == "note":
            return memo(noted(self.held, *self._entry(item)))
        if verb == "report":
            return render(TextAction("report", (), tuple((self.sheet.answer or {}).items())))
        if verb == "back":
            return go_back()
        return fill(item.at, self.typed(verb))

    def _entry(self, item: Item) -> tuple[str, str]:
        """What is kept of an item: a fact's value, or what its row has beside it and the goal does not say."""
        if not item.cells:
            return item.label[:_KEY], item.value[:_VALUE]
        kept = ""
        for cell in item.cells:
            if cell == item.text or self.task.names(cell):
                continue
            if kept and len(kept) + 3 + len(cell) > _VALUE:
                break
            kept = f"{kept} | {cell}" if kept else cell[:_VALUE]
        return item.text[:_KEY], kept

    def _answer(self, screen: Screen) -> dict[str, str] | None:
        """The report that a page's facts give, or None where one is missing."""
        facts = {item.label: item.text if item.role != "fact" else item.value for item in screen.items if item.label}
        answer = {}
        for name, labels in self.labels.items():
            if any(label not in facts for label in labels):
                return None
            value = " ".join(facts[label] for label in labels)
            answer[name] = value[:16] if self.kinds[name] == "datetime" else _typed(value)
        return answer or None

    def _seen(self, observation: Observation) -> dict[str, Array]:
        shown = observation["page"], observation["elements"]
        sheet = self._sheets.get(shown)
        if sheet is None:
            sheet = self._sheets[shown] = self._laid_out(read(observation))
        self.sheet, self.screen = sheet, sheet.screen
        self.held = entries(observation["memo"])
        self.listed = sorted(self.held, key=lambda entry: not self.task.names(entry[0]))
        path = re.sub(r"\d+", "#", observation["url"].replace("=", "#")).partition("#")[0]
        if path != self.path or VERBS[min(self._verbs[0], len(VERBS) - 1)] in ("act", "back"):
            self._visits[path] = self._visits.get(path, 0) + 1
        self.path = path
        self._ages = {entry: self._ages.get(entry) or Age(self._now, self._now) for entry in self.held}
        for entry, age in self._ages.items():
            age.look(self._now, entry in sheet.noting)
        elements = self._elements()
        self._mask = self._allowed()
        return {"elements": elements, "globals": self._whole(observation), "action_mask": self._mask}

    def _laid_out(self, screen: Screen) -> Sheet:
        """What a page holds, whatever the memory holds and whatever was done."""
        names, items = self.task.names, screen.items
        counts = [sum(map(names, item.cells)) if item.cells else 0 for item in items]
        most = max(counts, default=0)
        times = [_minutes(" ".join(item.cells)) if item.cells and item.at else [] for item in items]
        noting = [self._entry(item) if self._notable(item) else None for item in items]
        amounts = [amount for item in items if item.role == "fact" and (amount := _cents(item.value)) is not None]
        fixed, count = np.zeros((ITEMS, FEATURES), np.float32), len(items)
        kept = self._kept
        fixed[:count] = np.stack([kept[item] if item in kept else self._fixed(item) for item in items])
        fixed[:count, _AT["place"]] = np.arange(count) / ITEMS
        fixed[:count, _AT["row in the goal"]] = np.minimum(1, np.array(counts) / 4)
        fixed[:count, _AT["row most in the goal"]] = most > 0 and np.array(counts) == most
        fixed[:count, _AT["can be noted"]] = [entry is not None for entry in noting]
        texts: dict[str, list[int]] = {}
        cells: dict[str, list[int]] = {}
        for place, item in enumerate(items):
            texts.setdefault(item.text, []).append(place)
            if item.value not in ("", item.text):
                texts.setdefault(item.value, []).append(place)
            for text in item.cells:
                cells.setdefault(text, []).append(place)
        less = amounts[0] - amounts[1] if len(amounts) > 1 and amounts[0] > amounts[1] else None
        return Sheet(screen, fixed, counts, times, noting, texts, cells, less, self._answer(screen))

    def _fixed(self, item: Item) -> Array:
        """The numbers that an item has on every page."""
        line = [0.0] * FEATURES
        line[ROLES.index(item.role)] = 1.0
        line[_AT["chosen"]] = float(item.on)
        line[_AT["filled"]] = float(item.role == "textbox" and item.value != "")
        line[_AT["in a row"]] = float(bool(item.cells))
        line[_AT["in the goal"]] = float(self.task.names(item.text))
        line[_AT["words in the goal"]] = self.task.overlap(item.text)
        shown = item.cells[-1] if item.cells else "" if item.role in ("radio", "fact") else item.text
        if item.role == "fact" and len(item.value) < 12:
            shown = item.value
        line[len(_NAMES) : len(_NAMES) + TEXT_BITS] = bits(shown, TEXT_BITS)
        line[len(_NAMES) + TEXT_BITS :] = bits(item.label, LABEL_BITS)
        kept = self._kept[item] = np.array(line, np.float32)
        return kept

    def _elements(self) -> Array:
        """The numbers of each item, with what the memory and the last actions make of it."""
        sheet, held = self.sheet, self.listed
        found = sheet.fixed.copy()
        keys, values = [key for key, _ in held], [value for _, value in held]
        for place, entry in enumerate(sheet.noting):
            if entry is not None:
                found[place, _AT["noted"]] = entry in held
                found[place, _AT["noted otherwise"]] = entry[0] in keys and entry not in held
        self._against(found, keys, values)
        self._timed(found, keys, values)
        for place, item in enumerate(sheet.screen.items):
            if item.role == "textbox":
                self._amounts(item, found[place], values)
            elif item.label == "Notice":
                said = self.said(item.value)
                found[place, _AT["about the goal"]] = said != ""
                shown = " ".join(said.split()[:2])
                found[place, len(_NAMES) : len(_NAMES) + TEXT_BITS] = bits(shown, TEXT_BITS)
        items = sheet.screen.items
        for text, last in self._acted.items():
            count = self._acts.get((self.path, text), 0)
            for place in sheet.texts.get(text, ()):
                if items[place].text == text:
                    found[place, _AT["acted on"]] = min(3, count) / 3
                    found[place, _AT["acted on lately"]] = max(0.0, 1 - (self._now - last) / LATELY)
        return found

    def _timed(self, found: Array, keys: list[str], values: list[str]) -> None:
        """Compare rows that have times with the noted ones."""
        sheet, names = self.sheet, self.task.names
        self.nearest = -1
        if not any(sheet.times):
            return
        spans = [_minutes(value) for value in values]
        anchor = next((span[0] for key, span in zip(keys, spans, strict=True) if span and names(key)), None)
        busy = [span for key, span in zip(keys, spans, strict=True) if len(span) > 1 and not names(key)]
        self.nearest = self._nearest(sheet, anchor, busy)
        for place, span in enumerate(sheet.times):
            if span:
                found[place, _AT["has times"]] = 1.0
                found[place, _AT["nearest compatible"]] = place == self.nearest
                if anchor is not None:
                    found[place, _AT["time apart"]] = max(-1.0, min(1.0, (span[0] - anchor) / 240))
                found[place, _AT["overlaps a noted time"]] = len(span) > 1 and any(_overlap(span, one) for one in busy)

    @staticmethod
    def _nearest(sheet: Sheet, anchor: int | None, busy: list[list[int]]) -> int:
        """The item whose row begins closest to the noted time and overlaps no noted one; the earlier of two; or -1.

        Of the page's rows, those that have most of what the goal names.
        """
        if anchor is None:
            return -1
        rows = list(zip(sheet.counts, sheet.times, strict=True))
        most = max((count for count, span in rows if len(span) > 1), default=0)
        fitting = [
            (abs(span[0] - anchor), span[0], place)
            for place, (count, span) in enumerate(rows)
            if len(span) > 1 and count == most > 0 and not any(_overlap(span, one) for one in busy)
        ]
        return min(fitting)[2] if fitting else -1

    def _against(self, found: Array, keys: list[str], values: list[str]) -> None:
        """Compare the items, and their rows, with the entries."""
        sheet, items = self.sheet, self.sheet.screen.items
        for number, (key, value) in enumerate(zip(keys, values, strict=True)):
            parts = value.split(" | ")
            for text in (key, *parts):
                for place in sheet.texts.get(text, ()):
                    if place and (items[place].text == text or text in parts):
                        found[place, _AT["is entry 0"] + number] = 1.0
                for place in sheet.cells.get(text, ()):
                    found[place, _AT["row has entry 0"] + number] = 1.0

    def _amounts(self, item: Item, line: Array, values: list[str]) -> None:
        """Compare the entries with the difference of the page's amounts, and what is typed with both."""
        less = self.sheet.difference
        line[_AT["difference"]] = less is not None
        for number, amount in enumerate(map(_cents, values)):
            line[_AT["entry 0 is an amount"] + number] = amount is not None
            line[_AT["entry 0 is less than the difference"] + number] = (
                amount is not None and less is not None and amount < less
            )
        line[_AT["holds an entry"]] = item.value in map(_typed, values)
        line[_AT["holds the difference"]] = less is not None and item.value == _plain(less)

    def _notable(self, item: Item) -> bool:
        """Whether an item can be noted: a fact, or the link of a row in which the goal names two cells or more."""
        if item.cells:
            return item.at > 0 and sum(map(self.task.names, item.cells)) > 1
        return item.role in ("fact", "link") and item.label != "" and item.value != ""

    def _allowed(self) -> Array:
        mask = np.zeros((ITEMS, len(VERBS)), np.float32)
        # The page before this one: there always is such a pair, if only to be told that there is no page.
        mask[0, VERBS.index("back")] = 1
        mask[0, VERBS.index("report")] = float(not self.screen.covered and self.sheet.answer is not None)
        for place, item in enumerate(self.screen.items):
            if item.role in _ACTS and item.at:
                mask[place, 0] = 1
            if self.sheet.noting[place] is not None and self.sheet.noting[place] not in self.held:
                mask[place, 1] = 1
            if item.role == "textbox" and item.at:
                mask[place, 2 : 2 + len(self.held)] = 1
                mask[place, VERBS.index("fill_difference")] = float(self.sheet.difference is not None)
        return mask.reshape(-1)

    def _whole(self, observation: Observation) -> Array:
        """The numbers of the whole page."""
        line = np.zeros(GLOBALS, np.float32)
        banner = next((text for text in observation["page"].split("\n") if text.startswith("! ")), "")
        line[:PLACE_BITS] = bits(self.path.replace("/", " "), PLACE_BITS)
        line[PLACE_BITS : 2 * PLACE_BITS] = bits(banner, PLACE_BITS)
        at = 2 * PLACE_BITS
        for verb in self._verbs:
            line[at + verb] = 1
            at += len(VERBS) + 1
        otherwise = any(map(self.noted_otherwise, range(len(self.screen.items))))
        line[at : at + 8] = (
            float(observation["budget_left"][0]) / self.budget,
            self.screen.covered,
            len(self.held) / ENTRIES,
            otherwise,
            min(3, self._visits.get(self.path, 0)) / 3,
            self._mask[VERBS.index("report")],
            observation["error"] != "",
            self.sheet.difference is not None,
        )
        at += 8
        for key, value in self.listed:
            # A key that the goal names has no fixed wording; that it is named says what it is.
            known = self.task.names(key)
            told = (0.0,) * KEY_BITS if known else bits(key, KEY_BITS)
            line[at : at + 4 + KEY_BITS] = (known, *self._ages[key, value].numbers(self._now), *told)
            at += 4 + KEY_BITS
        return line


def _overlap(one: list[int], other: list[int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]
