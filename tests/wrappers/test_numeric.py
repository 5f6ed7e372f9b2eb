"""The numeric view: what it reads, what its pairs do, and that the reference is the same policy in it."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.envs.env import MEMO_LIMIT, EnvOS
from envos.envs.scenario import SCENARIOS
from envos.envs.streams import Stream
from envos.errors import UsageError
from envos.train.demonstrations import reference
from envos.wrappers.numeric import (
    ENTRIES,
    FEATURES,
    GLOBALS,
    ITEMS,
    TEXT_BITS,
    VERBS,
    NumericView,
    Task,
    bits,
    entries,
    noted,
    read,
)

STALE = ("EnvOS/ClinicStale-v0", "EnvOS/ClaimsStale-v0")
PAGE = {
    "page": '# Slots\n[1] Home | [2] Sessions\nPlace: Harbour House\nSession: [3] Eczema\nTime: [4] ""\n'
    "Kind:\n[5] (x) Long\n[6] ( ) Short\n## Today\nDate | Start | End\n2027-11-09 | [7] 10:00 | 10:30\n"
    "2027-11-09 | 10:30 | 11:00\n[8] Continue",
    "elements": '[1] link "Home"\n[2] link "Sessions"\n[3] link "Eczema"\n[4] textbox "Time" value=""\n'
    '[5] radio "Long" on\n[6] radio "Short" off\n[7] link "10:00"\n[8] button "Continue"',
}


def make(environment: str, **keywords: Any) -> NumericView:
    return NumericView(gymnasium.make(f"envos:{environment}", **keywords))


def test_a_page_is_read_item_by_item() -> None:
    screen = read(PAGE)
    assert screen.title == "Slots"
    assert not screen.covered
    assert [(item.role, item.text, item.label, item.at) for item in screen.items] == [
        ("page", "Slots", "", 0),
        ("link", "Home", "", 1),
        ("link", "Sessions", "", 2),
        ("fact", "Harbour House", "Place", 0),
        ("link", "Eczema", "Session", 3),
        ("textbox", "Time", "Time", 4),
        ("radio", "Long", "Kind", 5),
        ("radio", "Short", "Kind", 6),
        ("link", "10:00", "Start", 7),
        ("button", "Continue", "", 8),
    ]
    assert screen.items[6].on
    assert not screen.items[7].on
    assert screen.items[8].cells == ("2027-11-09", "10:00", "10:30")


def test_under_a_notice_there_is_only_the_notice() -> None:
    page = "!! Notice\nThe place is now Quarry Lane.\n[1] Acknowledge\n# Slots\nHome | Sessions\nPlace: Harbour House"
    screen = read({"page": page, "elements": '[1] button "Acknowledge"'})
    assert screen.covered
    assert [(item.role, item.label, item.at) for item in screen.items] == [
        ("page", "", 0),
        ("fact", "Notice", 0),
        ("button", "", 1),
    ]


def test_the_memory_is_keyed_newest_first_and_fits_the_memo() -> None:
    text = noted([], "Place", "Harbour House")
    assert text == "Place = Harbour House"
    text = noted(entries(text), "Limit", "$1,250.00")
    assert entries(text) == [("Limit", "$1,250.00"), ("Place", "Harbour House")]
    text = noted(entries(text), "Place", "Quarry Lane")
    assert entries(text) == [("Place", "Quarry Lane"), ("Limit", "$1,250.00")]
    for number in range(6):
        text = noted(entries(text), f"{number} {'k' * 43}", "v" * 44)
    assert len(text) <= MEMO_LIMIT
    assert [key[0] for key, _ in entries(text)] == ["5", "4", "3"][: len(entries(text))]
    assert len(entries(text)) <= ENTRIES
    assert entries("") == []
    assert entries("written by hand") == []


def test_the_goal_names_whole_texts_only() -> None:
    task = Task("Patient: Ann Lee (P-31)\nClinic session: Eczema, group B, 2027-11-09\nBook one.")
    assert task.names("Ann Lee")
    assert task.names("P-31")
    assert not task.names("P-3")
    assert not task.names("Eczem")
    assert not task.names("B")
    assert task.told("Eczema, group B, 2027-11-09: the place is now Quarry Lane.") == "the place is now Quarry Lane."
    assert task.told("Eczema, group A, 2027-11-09: the place is now Quarry Lane.") == ""
    assert task.overlap("one patient more") == pytest.approx(2 / 3)


def test_hashes_know_words_and_no_numbers() -> None:
    assert bits("Referral R-88", TEXT_BITS) == bits("Referral R-12", TEXT_BITS)
    assert bits("Referral", TEXT_BITS) != bits("Session", TEXT_BITS)
    assert bits("2027-11-09 10:30", TEXT_BITS) == (0.0,) * TEXT_BITS


@pytest.mark.parametrize("environment", SCENARIOS)
def test_any_legal_pair_can_be_carried_out(environment: str) -> None:
    """Shapes, ranges, a mask that is never all zero, in every world and phenomenon."""
    view = make(environment, condition="mixed")
    for seed in range(3):
        stream = Stream(seed, "train", "numeric test")
        observation, _ = view.reset(seed=seed)
        ended = False
        while not ended:
            assert observation in view.observation_space
            assert observation["elements"].shape == (ITEMS, FEATURES)
            assert observation["globals"].shape == (GLOBALS,)
            legal = np.flatnonzero(observation["action_mask"])
            action = int(stream.pick(legal.tolist()))
            observation, _, terminated, truncated, info = view.step(action)
            ended = terminated or truncated
        assert not (info["verdict"]["endpoint"] and info["verdict"]["counted"])
    view.close()


@pytest.mark.parametrize("environment", STALE)
def test_the_reference_is_competent_and_stale(environment: str) -> None:
    """Protocol section 8: right where nothing changes or a notice says so, one term short where it changes silently."""
    share = {"EnvOS/ClinicStale-v0": 0.8, "EnvOS/ClaimsStale-v0": 0.75}[environment]
    view = make(environment, anchor="any", split="validation")
    for condition, wanted in (("L0", 1.0), ("C", 1.0), ("L2", 1.0), ("OFF-A", share), ("OFF-I", 1.0)):
        for seed in range(4):
            observation, _ = view.reset(seed=seed, options={"condition": condition})
            ended = False
            while not ended:
                action = reference(view)
                assert observation["action_mask"][action] == 1, (condition, seed, view.path)
                observation, reward, terminated, truncated, info = view.step(action)
                ended = terminated or truncated
            verdict = info["verdict"]
            assert (verdict["validity"], verdict["fraction"]) == ("counted", pytest.approx(wanted)), (condition, seed)
            assert reward == float(wanted == 1.0)
    view.close()


def pressed(view: NumericView, *texts: str) -> int | None:
    """The pair that acts on the first link or button of one of these texts."""
    for place, item in enumerate(view.screen.items):
        if item.text in texts and item.role in ("link", "button"):
            return place * len(VERBS)
    return None


def kept(view: NumericView) -> int | None:
    """The pair that notes what the memory holds otherwise, of the page's own record."""
    for place, item in enumerate(view.screen.items):
        if view.noted_otherwise(place) and (item.label == "Reimbursement limit" or view.task.names(item.text)):
            return place * len(VERBS) + VERBS.index("note")
    return None


class LateReread:
    """The careful clerk who, when he is about to commit for the first time, goes back to the source; in pairs."""

    def __init__(self) -> None:
        self.left = 0
        self.looked = False

    def __call__(self, view: NumericView) -> int:
        claims = "amount" in view.labels
        wanted = reference(view)
        if not self.looked and wanted == pressed(view, "Confirm booking", "Approve claim") and "/review" in view.path:
            self.looked, self.left = True, 2 if claims else 1
            return pressed(view, "Claims" if claims else "Sessions") or 0
        if view.screen.covered or not self.left:
            return wanted
        if claims and view.path == "/claims":
            return next(
                place * len(VERBS)
                for place, item in enumerate(view.screen.items)
                if item.cells and item.at and view.task.names(item.text)
            )
        if claims and view.path == "/claims/":
            policy = next(place for place, item in enumerate(view.screen.items) if item.label == "Policy")
            return policy * len(VERBS)
        self.left = 0
        return kept(view) or pressed(view, "Claims" if claims else "Referrals") or 0


@pytest.mark.parametrize("environment", STALE)
@pytest.mark.parametrize("anchor", ["first", "any"])
def test_late_reread_scores_in_pairs_as_on_pages(environment: str, anchor: str) -> None:
    """The policy that wins everywhere can be expressed: every condition, the same verdict as the scripted one."""
    line = SCENARIOS[environment]
    pages = gymnasium.make(f"envos:{environment}", split="validation", disable_env_checker=True)
    view = make(environment, anchor=anchor, split="validation")
    names = ("validity", "counted", "endpoint", "fraction", "signatures")
    for condition in line.conditions:
        for seed in range(3):
            options = {"condition": condition, "anchor": anchor}
            wanted = play(pages, policies(line.world)["late_reread"].policy, seed, options).verdict
            act = LateReread()
            observation, _ = view.reset(seed=seed, options={"condition": condition})
            ended = False
            while not ended:
                action = act(view)
                assert observation["action_mask"][action] == 1, (condition, seed, view.path)
                observation, _, terminated, truncated, info = view.step(action)
                ended = terminated or truncated
            assert {name: info["verdict"][name] for name in names} == {name: wanted[name] for name in names}
            assert info["verdict"]["endpoint"] is True
    view.close()
    pages.close()


def test_equal_episodes_give_equal_arrays() -> None:
    one, other = (make(STALE[0], condition="OFF-A") for _ in range(2))
    first, second = one.reset(seed=4)[0], other.reset(seed=4)[0]
    for _ in range(12):
        for name in first:
            assert_array_equal(first[name], second[name])
        action = reference(one)
        first, second = one.step(action)[0], other.step(action)[0]
    one.close()
    other.close()


def test_a_pair_that_is_ruled_out_costs_a_step_and_does_nothing() -> None:
    view = make(STALE[0], condition="L0")
    observation, _ = view.reset(seed=1)
    forbidden = int(np.flatnonzero(observation["action_mask"] == 0)[-1])
    after = view.step(forbidden)[0]
    assert_array_equal(after["elements"], observation["elements"])
    inner = view.unwrapped
    assert isinstance(inner, EnvOS)
    assert [record.verb for record in inner.ledger.records() if type(record).__name__ == "Action"] == ["noop"]  # type: ignore[union-attr]
    view.close()


def test_it_takes_no_other_environment() -> None:
    with pytest.raises(UsageError, match="takes an EnvOS environment"):
        NumericView(gymnasium.make("CartPole-v1"))


def test_the_docs_have_the_shapes() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    for name, shape in (("elements", f"({ITEMS}, {FEATURES})"), ("globals", f"({GLOBALS},)")):
        assert f"| `{name}` | {shape} |" in text
    assert f"| `action_mask` | ({ITEMS * len(VERBS)},) |" in text
