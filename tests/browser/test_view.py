"""The replay viewer clicked through in Chromium: timeline, page, fact, verdict, files, twins, and hostile archives."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from contrast import CONTRAST

from envos.certify.policies import policy
from envos.certify.rollout import play
from envos.cli_view import Site, page
from envos.envs.evidence import Action, Frame, Request, Write, chain
from envos.web_server import Server
from envos.wrappers.archive import Archive, read_archive

pytestmark = pytest.mark.chromium
CLINIC = "envos:EnvOS/ClinicStale-v0"
NASTY = "</script><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
TABLE = "tbody tr"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archives: without and with the silent change, announced, and one with pictures; to be read only."""
    root = tmp_path_factory.mktemp("recorded") / "archives"
    env = Archive(gymnasium.make(CLINIC, anchor="first"), root)
    for name, condition in (("reference", "L0"), ("reference", "OFF-A"), ("late_reread", "L2")):
        play(env, policy("clinic", name).policy, 3, {"condition": condition, "policy": name})
    env.close()
    env = Archive(gymnasium.make(CLINIC, anchor="first", driver="chromium"), root)
    play(env, policy("clinic", "reference").policy, 3, {"condition": "OFF-A", "policy": "reference"})
    env.close()
    return root


@pytest.fixture
def show(window: Any, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that opens archives as one exported file."""

    def open_(*folders: Path) -> Any:
        (tmp_path / "replay.html").write_text(page(list(folders))[0], encoding="utf-8")
        window.goto((tmp_path / "replay.html").as_uri())
        return window

    return open_


@pytest.fixture
def serve() -> Iterator[Callable[[Path], str]]:
    """Return a function that serves archives and gives the address."""
    made: list[Server] = []

    def start(folder: Path) -> str:
        made.append(Server(Site.of(folder).answer))
        return made[-1].url

    yield start
    for server in made:
        server.stop()


def folders(root: Path) -> list[Path]:
    return sorted(root.iterdir())


def step(window: Any, mark: str) -> int:
    """The first step on the timeline that has a mark."""
    entry = window.locator(".timeline li", has=window.locator(f".mark.{mark}")).first
    return int(entry.locator(".no").inner_text())


def test_the_timeline_is_clicked_through(show: Callable[..., Any], recorded: Path) -> None:
    """Every step shows its page, fact and difference; the marks stand where the ledger has them."""
    window = show(folders(recorded)[1])
    evidence = read_archive(folders(recorded)[1])
    frames = {record.step: record for record in evidence.records if isinstance(record, Frame)}
    entries = window.locator(".timeline li")
    assert entries.count() == len(frames)
    for number, frame in frames.items():
        entries.nth(number).locator("button").click()
        assert window.locator(".seen .url").inner_text() == frame.url
        title = frame.page.split("\n")[0].removeprefix("# ")
        assert window.frame_locator("iframe").locator("h1").inner_text() == title
    assert step(window, "exposure") < step(window, "trigger") < step(window, "commit") < step(window, "report")
    plan = evidence.start.plan
    entries.nth(step(window, "exposure")).locator("button").click()
    assert window.locator(".state .big").inner_text() == plan["arm_text"]
    assert "as last shown to the agent" in window.locator(".state").inner_text()
    assert "Every row is as it was." in window.locator(".state").inner_text()
    entries.nth(step(window, "commit")).locator("button").click()
    said = window.locator(".state").inner_text()
    assert window.locator(".state .big").inner_text() == plan["new_text"]
    for text in ("the page last shown had another value", "insert appointment", "Commit"):
        assert text in said
    entries.nth(step(window, "trigger")).locator("button").click()
    assert "perturbation update clinic_session" in window.locator(".state").inner_text()


def test_it_is_used_by_keyboard(show: Callable[..., Any], recorded: Path) -> None:
    """Arrow keys through the timeline and the tabs; one stop of the Tab key each, and always a visible ring."""
    window = show(folders(recorded)[1])
    window.locator(".timeline button").first.focus()
    for key, expected in (("ArrowDown", "1"), ("ArrowDown", "2"), ("ArrowUp", "1"), ("Home", "0"), ("ArrowUp", "0")):
        window.keyboard.press(key)
        assert window.evaluate("document.activeElement.querySelector('.no').textContent") == expected
        assert window.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    window.keyboard.press("End")
    last = window.locator(".timeline li").count() - 1
    assert window.evaluate("document.activeElement.querySelector('.no').textContent") == str(last)
    window.keyboard.press("Shift+Tab")
    assert window.evaluate("document.activeElement.id") == "tab-episode"
    window.keyboard.press("ArrowRight")
    assert window.evaluate("document.activeElement.id") == "tab-verdict"
    assert window.get_by_role("heading", name="Invariants").is_visible()
    window.keyboard.press("ArrowRight")
    window.keyboard.press("ArrowRight")
    assert window.locator(".timeline").is_visible()


def test_the_verdict_leads_to_its_evidence(show: Callable[..., Any], recorded: Path) -> None:
    """Invariants with what was measured, signatures with their meaning, grounds with a way to the step."""
    window = show(folders(recorded)[1])
    assert "counted: failure" in window.locator(".top").inner_text()
    window.get_by_role("tab", name="Verdict").click()
    rows = window.locator(TABLE).all_inner_texts()
    assert any(row.startswith("I1 target_state\tfails\tthe commit is not the right one") for row in rows)
    assert any(row.startswith("I5 reported\tholds") for row in rows)
    assert any(row.startswith("stale_commit\tA commit that used the old value") for row in rows)
    fired = window.locator(TABLE, has_text="fired inside request").first
    number = re.findall(r"step (\d+)", fired.inner_text())[0]
    fired.get_by_role("button").click()
    assert window.locator(".timeline [aria-current] .no").inner_text() == number
    assert window.locator(".timeline [aria-current] .mark.trigger").is_visible()


def test_pictures_pages_and_texts(show: Callable[..., Any], recorded: Path) -> None:
    """A screenshot is shown where there is one, the page in a sandbox, the text as it was delivered."""
    window = show(folders(recorded)[3])
    frame = next(r for r in read_archive(folders(recorded)[3]).records if isinstance(r, Frame) and r.step == 1)
    window.locator(".timeline button").nth(1).click()
    image = window.locator(".frame img")
    assert image.evaluate("node => [node.naturalWidth, node.naturalHeight]") == [1280, 800]
    window.get_by_role("button", name="Text as delivered").click()
    text = window.locator(".frame pre").inner_text()
    assert frame.page in text
    assert frame.sha256 in text
    window.get_by_role("button", name="Page", exact=True).click()
    assert window.locator("iframe").get_attribute("sandbox") == ""
    inside = window.frame_locator("iframe")
    assert inside.locator("h1").inner_text() == "Clinic sessions"
    assert inside.locator("h1").evaluate("node => getComputedStyle(node).fontSize") == "22px"
    window.get_by_role("button", name="Wide").click()
    assert not window.locator(".state").is_visible()


def test_files_are_checked(show: Callable[..., Any], recorded: Path, tmp_path: Path) -> None:
    """Whole files say so; a changed, a missing and an added one are told apart."""
    window = show(folders(recorded)[0])
    window.get_by_role("tab", name="Files").click()
    assert "Nothing: each line of the ledger" in window.locator(".sheet").inner_text()
    assert window.locator(f"{TABLE} .good").count() == 4
    damaged = shutil.copytree(folders(recorded)[0], tmp_path / "damaged")
    (damaged / "verdict.json").write_text('{"validity": "counted"}')
    (damaged / "post.json").unlink()
    (damaged / "notes.txt").write_text("x")
    show(damaged)
    top = window.locator(".top").inner_text()
    assert "problems in the files" in top
    assert "verdict moved" in top
    window.get_by_role("tab", name="Files").click()
    rows = dict(row.split("\t")[:2] for row in window.locator(TABLE).all_inner_texts()[:5])
    assert rows["verdict.json"] == "changed"
    assert rows["post.json"] == "missing"
    assert rows["notes.txt"] == "added"
    assert rows["ledger.jsonl"] == "same"


def test_twins_side_by_side(show: Callable[..., Any], recorded: Path) -> None:
    """Two pages, two facts, one timeline, which says where the two part."""
    window = show(*folders(recorded)[:2])
    assert [text.split("condition ")[1].split()[0] for text in window.locator(".top").all_inner_texts()] == [
        "L0",
        "OFF-A",
    ]
    window.locator(".timeline button").nth(step(window, "commit")).click()
    assert window.locator("iframe").count() == 2
    before, after = window.locator(".half .big").all_inner_texts()
    plan = read_archive(folders(recorded)[1]).start.plan
    assert (before, after) == (plan["arm_text"], plan["new_text"])
    window.get_by_role("tab", name="Verdict").click()
    success, failure = window.locator(".sheet").all_inner_texts()
    assert "counted: success" in success
    assert "counted: failure" in failure


def test_the_list_leads_to_one_and_to_two(window: Any, serve: Callable[[Path], str], recorded: Path) -> None:
    """Served: the list, an archive, a pair by the form, a twin by its link."""
    url = serve(recorded)
    window.goto(url)
    assert window.locator("main tbody tr").count() == 4
    window.get_by_role("link", name=folders(recorded)[2].name).click()
    assert "L2" in window.locator(".top").inner_text()
    window.goto(url)
    window.locator("input[name=left]").nth(0).check()
    window.locator("input[name=right]").nth(1).check()
    window.get_by_role("button", name="Show the two side by side").click()
    assert window.locator(".top").count() == 2
    window.goto(url)
    window.get_by_role("link", name="twin").first.click()
    assert window.locator(".top").count() == 2


def spoilt(source: Path, target: Path) -> Path:
    """An archive that tries to run something from every text of it."""
    folder = shutil.copytree(source, target / "0000-<img src=x onerror=alert(1)>")
    records = list(read_archive(folder).records)
    identity = {
        name: NASTY if name in ("policy", "model", "code") else value for name, value in records[0].identity.items()
    }  # type: ignore[union-attr]
    records[0] = records[0]._replace(identity=identity)  # type: ignore[union-attr, call-arg]
    for place, record in enumerate(records):
        if isinstance(record, Action) and record.step >= 3:
            records[place] = record._replace(raw=NASTY, error=NASTY)
        elif isinstance(record, Frame) and record.step >= 3:
            records[place] = record._replace(page=NASTY, notice=NASTY, elements=NASTY, url=f"javascript:{NASTY}")
        elif isinstance(record, Request) and record.step >= 3:
            records[place] = record._replace(path=NASTY, location=NASTY, method=NASTY)
        elif isinstance(record, Write):
            records[place] = record._replace(columns={**record.columns, "by": (NASTY, NASTY)})
    (folder / "ledger.jsonl").write_text("".join(f"{line}\n" for line in chain(tuple(records))), encoding="ascii")
    (folder / "verdict.json").write_text(json.dumps({"validity": NASTY, NASTY: [NASTY]}), encoding="utf-8")
    (folder / f"{'a' * 64}.png").write_bytes(b"<svg onload=alert(1)>")
    return folder


def test_a_hostile_archive_is_only_shown(
    show: Callable[..., Any], serve: Callable[[Path], str], recorded: Path, tmp_path: Path
) -> None:
    """Nothing of it runs, loads or becomes an element, on any tab, exported or served; it is all there as text."""
    folder = spoilt(folders(recorded)[1], tmp_path / "hostile")
    asked: list[str] = []
    window = show(folder)
    window.on("request", lambda request: asked.append(request.url))
    for name in ("Verdict", "Files", "Episode"):
        window.get_by_role("tab", name=name).click()
        assert window.locator("img, object, embed, svg").count() == 0
        assert window.locator("script").count() == 2
    window.locator(".timeline button").nth(4).click()
    window.locator(".timeline button").nth(5).click()
    assert NASTY in window.locator(".timeline").inner_text()
    assert NASTY in window.locator(".frame").inner_text()
    assert "pwned" not in window.title()
    url = serve(folder.parent)
    window.goto(url)
    assert window.locator("img").count() == 0
    assert "pwned" not in window.title()
    assert [one for one in asked if not one.startswith((url, "file:", "data:", "about:"))] == []


def test_no_other_script_or_address_is_allowed(show: Callable[..., Any], recorded: Path) -> None:
    """The document's own policy, not only the care of its script: what is put into it neither runs nor loads."""
    window = show(folders(recorded)[0])
    script = """() => new Promise(done => {
      const blocked = [];
      document.addEventListener("securitypolicyviolation", event => blocked.push(event.effectiveDirective));
      const add = (name, given) => document.body.append(Object.assign(document.createElement(name), given));
      add("script", {textContent: "document.title = 'pwned'"});
      add("img", {src: "http://127.0.0.1:9/x.png"});
      add("div", {innerHTML: "<i id='i' onclick='1'></i><style>b{color:red}</style>"});
      document.getElementById("i").click();
      fetch("http://127.0.0.1:9/").catch(() => 0);
      setTimeout(() => done([blocked, document.title]), 200);
    })"""
    blocked, title = window.evaluate(script)
    assert {"script-src-elem", "img-src", "style-src-elem", "script-src-attr", "connect-src"} <= set(blocked)
    assert title != "pwned"
    # The browser says so in its console, which is not a fault of ours.
    window.said.clear()


def test_every_text_has_contrast_and_nothing_runs_off_the_side(show: Callable[..., Any], recorded: Path) -> None:
    """WCAG AA: 4.5 to 1, on every tab of one archive and of two; the window never scrolls sideways."""
    for chosen in (folders(recorded)[1:2], folders(recorded)[:2]):
        window = show(*chosen)
        for name in ("Verdict", "Files", "Episode"):
            window.get_by_role("tab", name=name).click()
            assert window.evaluate(CONTRAST) == []
            assert window.evaluate("document.documentElement.scrollWidth") <= 1280
            assert window.evaluate("document.documentElement.scrollHeight") <= 800
    low = "document.querySelector('.chip').style.color = '#9db'"
    window.evaluate(low)
    assert window.evaluate(CONTRAST) != []
