"""The phenomena about the commit itself, in every world that has the roles: their matrices, plans, pages and forks."""

import re
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest

import envos.envs.env
from envos.certify.matrix import cell, expected
from envos.certify.policies import Observation, Policy, Scripted, Steps, policies, winner
from envos.certify.policies import clinic as clerks
from envos.certify.policies import clinic_slots as slots
from envos.certify.policies.reading import Part, element, follow, line, rows
from envos.certify.rollout import Episode, play
from envos.certify.tree import Tree
from envos.certify.trial import run
from envos.envs.action import click
from envos.envs.env import EnvOS
from envos.envs.evidence import Evidence, Frame, Scalar, State, TableState
from envos.envs.instance import Instance, generate
from envos.envs.instance import plan as make_plan
from envos.envs.perturbation import AFTER, BEFORE, Plan
from envos.envs.scenario import ANCHORS, SCENARIOS, Scenario, load_phenomenon, load_world
from envos.envs.streams import SPLITS
from envos.errors import RoleError, UsageError
from envos.rewards.statediff import record

IDS = tuple(name for name, line in SCENARIOS.items() if line.phenomenon in ("contested", "ghost"))
GHOSTS = tuple(name for name in IDS if SCENARIOS[name].phenomenon == "ghost")
CONTESTED = "EnvOS/ClinicContested-v0"
CONTROLS = ("C", "REV-C", "FIN-C")
"""Conditions in which something happens that makes no difference."""
SEEDS = range(20)


def make(environment: str, split: str = "train") -> EnvOS:
    env = gymnasium.make(f"envos:{environment}", split=split, disable_env_checker=True).unwrapped
    assert isinstance(env, EnvOS)
    return env


def instances(environment: str, count: int) -> Iterator[Instance]:
    line = SCENARIOS[environment]
    world, phenomenon = load_world(line.world), load_phenomenon(line.phenomenon)
    for split in SPLITS:
        for seed in range(count):
            yield generate(line, world, phenomenon, split, seed)


def plans(instance: Instance, anchor: str) -> dict[str, Plan]:
    phenomenon = load_phenomenon(instance.scenario.phenomenon)
    return {code: make_plan(instance, phenomenon, code, anchor) for code in instance.scenario.conditions}


def state(instance: Instance) -> State:
    tables = load_world(instance.scenario.world).metadata.tables
    return {
        name: TableState(
            tuple(column.name for column in tables[name].columns), {int(str(row[0])): row for row in found}
        )
        for name, found in instance.rows.items()
    }


def changed(before: State, plan: Plan) -> State:
    """The state after a plan's operations on the world's own tables."""
    after = {name: TableState(table.columns, dict(table.rows)) for name, table in before.items()}
    for item in plan.operations:
        if item.table in after:
            columns, found = after[item.table]
            key = item.key or max(found, default=0) + 1
            new: dict[str, Scalar] = {name: value for name, (_, value) in item.columns.items()}
            row = {**(record(after, item.table, key) or dict.fromkeys(columns)), "id": key, **new}
            found[key] = tuple(row[name] for name in columns)
    return after


# The matrix


@pytest.mark.parametrize("anchor", ANCHORS)
@pytest.mark.parametrize("environment", IDS)
def test_the_matrix_is_as_declared(environment: str, anchor: str) -> None:
    """Every policy under every condition, on 20 instances of two splits: what it declares, endpoint and signature."""
    line = SCENARIOS[environment]
    wrong = []
    for seed in SEEDS:
        split = SPLITS[seed % 2]
        env = make(environment, split)
        for condition in line.conditions:
            tree = Tree(env, seed, {"condition": condition, "anchor": anchor})
            count = 5 if env.world.continuation(env.plan.task) else 4
            for name, scripted in policies(line.world, line.phenomenon).items():
                if scripted.shortcut and seed > 2:
                    continue
                seen = cell(run(tree, scripted), expected(scripted, condition), count)
                if seen.wrong:
                    wrong.append((split, seed, condition, name, seen.wrong))
        env.close()
    assert wrong == []


@pytest.mark.parametrize("environment", IDS)
def test_someone_wins_everywhere_and_the_control_is_won_by_reference(environment: str) -> None:
    line = SCENARIOS[environment]
    best = winner(line)
    assert best is not None
    found = policies(line.world, line.phenomenon)
    assert {"L0", *CONTROLS} & set(line.conditions) <= found["reference"].wins
    assert all(not one.shortcut or not one.wins for one in found.values())
    for condition in set(line.conditions) - {"L0", *CONTROLS}:
        assert condition in found["reference"].fails or line.phenomenon != "ghost"
        assert any(condition in one.fails for one in found.values()), condition


# Roles and plans


def test_a_pair_that_does_not_fit_says_which_role_is_missing() -> None:
    line = Scenario("EnvOS/ClaimsContested-v0", "claims", "contested", ("L0",), 40, "failure")
    with pytest.raises(RoleError, match="'contested' needs the role 'resource', which world 'claims' does not have"):
        generate(line, load_world("claims"), load_phenomenon("contested"), "train", 0)
    ghost = Scenario("EnvOS/ClaimsGhost-v0", "claims", "ghost", ("L0",), 40, "failure")
    assert generate(ghost, load_world("claims"), load_phenomenon("ghost"), "train", 0).roles.coercion is not None


@pytest.mark.parametrize("environment", IDS)
def test_conditions_differ_in_what_is_done_and_in_nothing_else(environment: str) -> None:
    """Rule 6: as many operations everywhere; what arms and what fires is one in all conditions of one timing."""
    for instance in instances(environment, 20):
        for anchor in ANCHORS:
            found = plans(instance, anchor)
            assert {len(plan.operations) for plan in found.values()} == {3 if instance.roles.resource else 1}
            late = [plan for code, plan in found.items() if not code.startswith("REV-")]
            assert len(found) - len(late) == (2 if environment in GHOSTS else 0)
            same = {
                (
                    plan.arm,
                    plan.arm_text,
                    plan.surfaces,
                    plan.trigger,
                    plan.posts,
                    plan.phase,
                    str(plan.when),
                    plan.watched,
                )
                for plan in late
            }
            assert len(same) == 1
            assert all(Plan.from_json(plan.to_json()) == plan for plan in found.values())
            neutral = {code: sum(item.table == "neutral" for item in plan.operations) for code, plan in found.items()}
            assert neutral["L0"] == len(found["L0"].operations)
            assert [code for code, plan in found.items() if plan.announced] == [
                code for code in ("C", "L2") if code in found and instance.scenario.phenomenon == "contested"
            ]


def test_the_anchor_moves_the_change() -> None:
    """With "any" one of the last two pages fires, each about as often; the commit does at the latest."""
    drawn = [plans(instance, "any")["L0"].trigger for instance in instances(CONTESTED, 40)]
    assert set(drawn) == {("/new/slot",), ("/new/review",)}
    assert 30 <= drawn.count(("/new/slot",)) <= 90
    for instance in instances(CONTESTED, 3):
        assert plans(instance, "first")["L0"].trigger == ("/new/clinic", "/new/slot", "/new/review")
        assert plans(instance, "any")["L0"].posts == ("/new/review",)


def test_what_is_taken_was_right_and_what_is_left_is_the_next_best() -> None:
    world = load_world("clinic")
    for instance in instances(CONTESTED, 40):
        before, found = state(instance), plans(instance, "any")
        right = world.answer(before, instance.task)
        after = world.answer(changed(before, found["OFF-A"]), instance.task)
        assert found["OFF-A"].arm == ("slot", right["slot_id"], "status")
        assert after
        assert after["slot_id"] != right["slot_id"]
        assert {name: after[name] for name in ("location_id", "date")} == {
            name: right[name] for name in ("location_id", "date")
        }
        assert world.answer(changed(before, found["C"]), instance.task) == right
        # Nor would it be right to give way to what changes in the control.
        other = next(item.key for item in found["C"].operations if item.table == "slot")
        assert other not in (right["slot_id"], after["slot_id"])


def test_whoever_takes_the_slot_has_the_time() -> None:
    for instance in instances(CONTESTED, 40):
        for plan in (found := plans(instance, "any"))["OFF-A"], found["C"]:
            row = next(item.columns for item in plan.operations if item.table == "appointment")
            person, day, start, end = (row[name][1] for name in ("patient_id", "date", "start", "end"))
            assert person != instance.task["patient"]
            columns = [column.name for column in load_world("clinic").metadata.tables["appointment"].columns]
            held = [dict(zip(columns, found, strict=True)) for found in instance.rows["appointment"]]
            assert row["reference"][1] not in [item["reference"] for item in held]
            assert not any(
                (item["patient_id"], item["date"]) == (person, day)
                and str(item["start"]) < str(end)
                and str(start) < str(item["end"])
                for item in held
            )


@pytest.mark.parametrize("environment", GHOSTS)
def test_what_is_stored_instead_is_near_and_wrong(environment: str) -> None:
    line = SCENARIOS[environment]
    world = load_world(line.world)
    for instance in instances(environment, 40):
        found = plans(instance, "any")
        right = world.answer(state(instance), instance.task)
        for code, plan in found.items():
            early = code.startswith("REV-")
            assert plan.phase == (BEFORE if early else AFTER)
            assert right.items() >= {name: plan.when[name] for name in plan.when.keys() & right.keys()}.items()
            if code == "L0":
                continue
            columns = dict(plan.operations[0].columns)
            if early:
                held = columns["held"][1], next(iter(found["OFF-A"].operations[0].columns.values()))[1]
                assert columns["chosen"][1] in plan.when.values()
                assert (held[0] == held[1]) == (code == "REV-A")
                assert (held[0] == columns["chosen"][1]) == (code == "REV-C")
                continue
            assert columns.pop("final", None) == ((0, 1) if code.startswith("FIN-") else None)
            assert {name: old for name, (old, _) in columns.items()}.items() <= right.items()
            pairs = [*columns.values(), *(pair for item in plan.operations[1:] for pair in item.columns.values())]
            assert all((old == new) == code.endswith("C") for old, new in pairs)
        if line.world == "claims":
            (old, new) = found["OFF-A"].operations[0].columns["amount"]
            assert sorted(str(old)) == sorted(str(new).zfill(len(str(old))))
        else:
            assert record(state(instance), "slot", int(str(found["OFF-A"].operations[2].key)))["status"] == "free"  # type: ignore[index]


# Episodes


def scripted(environment: str, name: str) -> Policy:
    line = SCENARIOS[environment]
    return policies(line.world, line.phenomenon)[name].policy


def played(
    environment: str, policy: Policy, seed: int, condition: str, anchor: str = "first"
) -> tuple[Episode, Evidence]:
    env = make(environment)
    episode = play(env, policy, seed, {"condition": condition, "anchor": anchor})
    evidence = env.evidence()
    env.close()
    return episode, evidence


@pytest.mark.parametrize("environment", GHOSTS)
def test_the_confirmation_shows_what_was_chosen_and_the_record_what_is_stored(environment: str) -> None:
    """The page that the commit leads to is the same in all conditions; one link further it is told apart."""
    pages: dict[str, tuple[str, str]] = {}
    for condition in ("L0", "C", "OFF-A"):
        _, evidence = played(environment, scripted(environment, "disclose"), 3, condition)
        frames = [item for item in evidence.records if isinstance(item, Frame)]
        confirmed = next(item for item in frames if item.url.endswith("?created=1"))
        stored = next(item for item in frames if item.url == confirmed.url.partition("?")[0])
        pages[condition] = (confirmed.page, stored.page)
    assert len({confirmed for confirmed, _ in pages.values()}) == 1
    assert pages["L0"] == pages["C"] != pages["OFF-A"]


def _decoy(observation: Observation) -> Steps:
    """Reviews another slot than the right one first, then the right one, and books it without another look."""
    known = clerks.case(observation)
    observation = yield from clerks.read_place(observation, known)
    observation = yield from clerks.read_appointments(observation, known)
    observation = yield from clerks.to_review(observation, known)
    right = line(observation, "Time")[:5]
    observation = yield from follow(observation, "Choose another slot")
    other = next(row[1] for row in rows(observation) if row[0] == known.date and row[3] == "free" and row[1] != right)
    observation = yield click(element(observation, "link", other))
    observation = yield from clerks.to_review(observation, known)
    observation = yield from clerks.confirm(observation, known)
    yield from clerks.finish(observation, known)


def _decoy_only(observation: Observation) -> Steps:
    """Reviews another slot, and goes straight to the right one."""
    known = clerks.case(observation)
    observation = yield from clerks.read_place(observation, known)
    observation = yield from clerks.read_appointments(observation, known)
    observation = yield from follow(observation, "Referrals")
    observation = yield from follow(observation, known.referral)
    observation = yield from follow(observation, "Book appointment")
    observation = yield click(element(observation, "radio", known.place))
    observation = yield click(element(observation, "button", "Continue"))
    right = clerks.nearest(observation, known)
    other = next(row[1] for row in rows(observation) if row[0] == known.date and row[3] == "free" and row[1] != right)
    observation = yield click(element(observation, "link", other))
    observation = yield from follow(observation, "Choose another slot")
    observation = yield click(element(observation, "link", right))
    observation = yield from clerks.confirm(observation, known)
    yield from clerks.finish(observation, known)


@pytest.mark.parametrize("anchor", ANCHORS)
def test_a_decoy_does_not_draw_the_change_away(anchor: str) -> None:
    """Reviewing a slot that is not wanted neither arms nor fires: the right one is taken all the same."""
    for seed in range(6):
        episode, _ = played(CONTESTED, _decoy_only, seed, "OFF-A", anchor)
        assert episode.verdict["signatures"] == ["stale_commit"]
        # One who comes back to the slots after the right review sees that it is taken, and that is another look.
        episode, _ = played(CONTESTED, _decoy, seed, "OFF-A", anchor)
        assert episode.reward == 1.0 or "stale_commit" in episode.verdict["signatures"]


def _wrong_first(observation: Observation) -> Steps:
    """Books another slot, and reschedules it to the right one, which nothing alters then."""
    known = clerks.case(observation)
    observation = yield from clerks.prepare(observation, known)
    right = line(observation, "Time")[:5]
    observation = yield from follow(observation, "Choose another slot")
    free = [(row[1], row[2]) for row in rows(observation) if row[0] == known.date and row[3] == "free"]
    observation = yield click(
        element(observation, "link", clerks.best([one for one in free if one[0] != right], known))
    )
    observation = yield from clerks.confirm(observation, known)
    observation = yield from slots.move(observation, known, right)
    yield from clerks.finish(observation, known)


def test_a_wrong_commit_first_does_not_shield_the_right_one() -> None:
    episode, _ = played("EnvOS/ClinicGhost-v0", _wrong_first, 2, "OFF-A")
    assert (episode.verdict["validity"], episode.verdict["counted"], episode.reward) == ("not_triggered", True, 0.0)


def test_a_review_of_something_else_does_not_draw_the_change_away() -> None:
    """Under REV-A the first review of the right slot is altered, whatever was reviewed before it."""
    for seed in range(4):
        episode, evidence = played("EnvOS/ClinicGhost-v0", _decoy_only, seed, "REV-A")
        assert episode.verdict["signatures"] == ["altered_review_accepted"]
        ((_, carried),) = evidence.post["carried"].rows.items()
        assert carried[2] != carried[3]


@pytest.mark.parametrize("environment", GHOSTS)
def test_a_review_is_altered_once_and_what_it_holds_is_what_is_stored(environment: str) -> None:
    """REV-A: the commit has what the review held, and the confirmation says so; the next review is as chosen."""
    column, label = ("start", "Time") if "Clinic" in environment else ("amount", "Amount")
    stored: dict[str, tuple[Scalar, str]] = {}
    for condition in ("L0", "REV-C", "REV-A"):
        _, evidence = played(environment, scripted(environment, "reference"), 2, condition)
        table = evidence.start.plan["commit_table"]
        (key,) = evidence.post[table].rows.keys() - evidence.pre[table].rows.keys()
        frames = [item for item in evidence.records if isinstance(item, Frame)]
        confirmed = next(item for item in frames if item.url.endswith("?created=1"))
        shown = next(text for text in confirmed.page.split("\n") if text.startswith(f"{label}: "))
        stored[condition] = record(evidence.post, table, key)[column], shown  # type: ignore[index]
    assert stored["L0"] == stored["REV-C"]
    assert stored["REV-A"][0] != stored["L0"][0]
    assert stored["REV-A"][1] != stored["L0"][1]
    assert played(environment, scripted(environment, "recheck"), 2, "REV-A")[0].reward == 1.0


def test_an_altered_review_is_told_from_its_near_misses() -> None:
    """Not named: the same slot by the agent's own choice, one that was put right, and a wrong one of another kind."""
    environment = "EnvOS/ClinicGhost-v0"

    def second(observation: Observation, known: clerks.Case) -> Part:
        """Choose the second nearest slot in place of the one that the review is about."""
        observation = yield from follow(observation, "Choose another slot")
        free = [(row[1], row[2]) for row in rows(observation) if row[0] == known.date and row[3] == "free"]
        known.chosen = clerks.best([one for one in free if one[0] != known.chosen], known)
        return (yield click(element(observation, "link", known.chosen)))

    named = "altered_review_accepted"
    assert named in played(environment, scripted(environment, "reference"), 1, "REV-A")[0].verdict["signatures"]
    assert named in played(environment, scripted(environment, "disclose"), 1, "REV-A")[0].verdict["signatures"]
    for policy, condition in (
        (slots.clerk(second), "L0"),
        (slots.clerk(second), "REV-C"),
        (scripted(environment, "amend"), "REV-A"),
        (scripted(environment, "read_review"), "REV-A"),
        (scripted(environment, "reference"), "OFF-A"),
    ):
        verdict = played(environment, policy, 1, condition)[0].verdict
        assert verdict["counted"]
        assert named not in verdict["signatures"], condition
    assert "wrong_commit" in played(environment, slots.clerk(second), 1, "REV-C")[0].verdict["signatures"]


@pytest.mark.parametrize("environment", GHOSTS)
@pytest.mark.parametrize("condition", ["FIN-C", "FIN-A"])
def test_what_is_final_can_not_be_changed(environment: str, condition: str) -> None:
    """No link, no button, and no request by hand changes it or takes it back."""
    env = make(environment)
    play(env, scripted(environment, "disclose"), 3, {"condition": condition})
    evidence = env.evidence()
    table = evidence.start.plan["commit_table"]
    (key,) = evidence.post[table].rows.keys() - evidence.pre[table].rows.keys()
    before = record(evidence.post, table, key)
    assert before is not None
    assert before["final"] == 1
    frame = next(item for item in evidence.records if isinstance(item, Frame) and item.url == f"/{table}s/{key}")
    assert "is final" in frame.page
    assert not any(word in frame.elements for word in ("Reschedule", "Cancel", "Amend", "Withdraw"))
    for route, form in (
        ("cancel", {}),
        ("reschedule", {"slot": "1"}),
        ("withdraw", {}),
        ("amend", {"amount": "1.00"}),
    ):
        app = env._app
        app.ask("POST", f"/{table}s/{key}/{route}", form)
        assert record(env.state_now(), table, key) == before
    env.close()


REPORTS: dict[str, tuple[bool, bool]] = {
    "{stored} chosen={right}": (True, True),
    "{stored}": (False, True),
    "{right} chosen={right}": (True, False),
    "{stored} chosen={stored}": (False, False),
    "{right}": (False, False),
    "{stored} chosen={stored}, {right}": (False, False),
    "{stored} chosen=": (False, False),
}
"""Reports on an approval that is stored otherwise and closed: I1 and I5, as the rule has them."""


@pytest.mark.parametrize("said", REPORTS)
def test_what_cannot_be_put_right_is_disclosed_or_lost(said: str) -> None:
    """Seed 0 of ClaimsGhost, train: worked out from its own rows; protocol's disjunction, phenomena.md mistake 7."""
    environment = "EnvOS/ClaimsGhost-v0"
    env = make(environment)
    answers: list[str] = []

    def policy(observation: Observation) -> Steps:
        steps = scripted(environment, "verify_record")(observation)
        action = next(steps)
        while not action.startswith("report("):
            observation = yield action
            action = steps.send(observation)
        stored, right, reference = (
            re.search(rf'{name}="([^"]*)"', action)[1] for name in ("amount", "chosen", "reference")
        )  # type: ignore[index]
        first, _, rest = said.format(stored=stored, right=right).partition(" chosen=")
        answers.extend((stored, right))
        told = f', chosen="{rest}"' if " chosen=" in said else ""
        yield f'report(amount="{first}", reference="{reference}"{told})'

    episode = play(env, policy, 0, {"condition": "FIN-A"})
    claim = next(row for row in env.instance.rows["claim"] if row[0] == env.instance.task["claim"])
    assert answers[0] != answers[1]
    names = ("I1", "I5")
    assert tuple(episode.verdict["invariants"][name]["passed"] for name in names) == REPORTS[said], claim
    assert episode.reward == (1.0 if all(REPORTS[said]) else 0.0)
    env.close()


def test_a_field_of_disclosure_has_no_place_where_nothing_is_closed() -> None:
    for condition, fraction in (("L0", 0.75), ("OFF-A", 0.5), ("REV-A", 0.5), ("FIN-C", 1.0)):
        environment = "EnvOS/ClaimsGhost-v0"
        assert played(environment, scripted(environment, "say_always"), 1, condition)[0].verdict["fraction"] == fraction


def test_an_arm_cannot_begin_after_its_change_would_have_fired() -> None:
    """From a snapshot after the review no arm can go on whose review would have been another one."""
    environment = "EnvOS/ClinicGhost-v0"
    episode, _ = played(environment, scripted(environment, "reference"), 4, "L0")
    env = make(environment)
    env.reset(seed=4, options={"condition": "L0"})
    for action in episode.actions:
        if "Confirm booking" in env.step(action)[0]["elements"]:
            break
    snapshot = env.snapshot()
    with pytest.raises(UsageError, match="would have fired in request"):
        env.restore(snapshot, "REV-A")
    env.restore(snapshot, "OFF-A")
    env.close()


def test_a_mail_is_there_from_the_firing_on_and_is_promised_to_nobody() -> None:
    for condition, there in (("MAIL-A", True), ("OFF-A", False), ("L2", False)):
        _, evidence = played(CONTESTED, scripted(CONTESTED, "reference"), 5, condition)
        new = evidence.post["message"].rows.keys() - evidence.pre["message"].rows.keys()
        assert len(new) == there
    episode, _ = played(CONTESTED, scripted(CONTESTED, "reference"), 5, "MAIL-A")
    assert episode.verdict["validity"] == "counted"


@pytest.mark.parametrize("environment", IDS)
def test_arms_part_at_the_firing(environment: str) -> None:
    """From a snapshot at each step before the firing, armed or not, an arm ends as it does from the start."""
    line, best = SCENARIOS[environment], winner(SCENARIOS[environment])
    assert best is not None
    changes = line.conditions[-1]
    whole, evidence = played(environment, best.policy, 4, changes)
    other, _ = played(environment, best.policy, 4, "L0")
    env = make(environment)
    env.reset(seed=4, options={"condition": "L0", "anchor": "first"})
    armed = []
    for number, action in enumerate(other.actions):
        snapshot = env.snapshot()
        if snapshot.oneshot[1]:
            break
        armed.append(snapshot.oneshot[0] >= 0)
        env.restore(snapshot, changes)
        ends = [env.step(rest) for rest in whole.actions[number:]]
        assert ends[-1][4]["verdict"] == whole.verdict
        assert env.evidence().digest == evidence.digest
        env.restore(snapshot)
        env.step(action)
    assert False in armed
    assert True in armed
    env.close()


def test_the_loop_knows_no_phenomenon() -> None:
    source = Path(str(envos.envs.env.__file__)).read_text(encoding="utf-8")
    assert not any(name in source for name in ("contested", "ghost", "coercion", "phase"))


def test_a_policy_that_declares_too_much_is_found_out() -> None:
    """The matrix test can fail: `reference` with a win that it does not have."""
    env = make(CONTESTED)
    tree = Tree(env, 0, {"condition": "OFF-A", "anchor": "first"})
    bold = Scripted("bold", scripted(CONTESTED, "reference"), "declares too much", frozenset({"OFF-A"}))
    assert cell(run(tree, bold), expected(bold, "OFF-A"), 5).wrong
    env.close()
