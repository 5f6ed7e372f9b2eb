"""Make the pictures of the docs: every page of both worlds, the viewer, and the page of `envos play --browser`.

    .venv/bin/python tools/screens.py

Worlds are pictured by the Chromium driver, as an agent gets them; the rest in a window of the same size. Pictures are
1280 x 800, with a palette, so that each stays below 60 KB. They depend on the machine's fonts.
"""

import io
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
from PIL import Image

from envos.certify.policies import policies
from envos.certify.policies.reading import NotFound
from envos.cli_play import change, changed
from envos.cli_view import Site, page
from envos.envs.action import Action, parse
from envos.envs.drivers.chromium_browser import find
from envos.envs.env import EnvOS
from envos.envs.evidence import Frame, Request
from envos.web_pages import make
from envos.web_play import Session
from envos.web_server import Call, Server
from envos.wrappers.archive import Archive

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "img"
WORLDS: Mapping[str, tuple[str, str]] = {
    "clinic": ("EnvOS/ClinicStale-v0", "LIVE-A"),
    "claims": ("EnvOS/ClaimsStale-v0", "ON-A"),
}
"""World: an environment of it, and the condition whose review step shows most."""
SEED, COLOURS, LIMIT = 4, 96, 60_000


def keep(name: str, png: bytes) -> None:
    """Write a picture with a palette; its size is checked."""
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(FOLDER / f"{name}.png", optimize=True)
    size = (FOLDER / f"{name}.png").stat().st_size
    if size > LIMIT:
        sys.exit(f"{name}.png has {size} bytes; at most {LIMIT} are wanted")


def name_of(world: str, route: str) -> str:
    """The picture of a route: "/sessions/{id}/edit" of the clinic is clinic-sessions-one-edit."""
    return (
        "-".join((world, *[part.replace("{id}", "one") for part in route.split("/") if part]))
        if route != "/"
        else f"{world}-home"
    )


def walk(env: EnvOS, seed: int, condition: str) -> dict[str, str]:
    """Play the policy that wins; the last frame of each route, as route to picture, and "notice" for a modal one."""
    scripted = policies(env.scenario.world)["late_reread"].policy
    observation, _ = env.reset(seed=seed, options={"condition": condition})
    steps = scripted(dict(observation))
    action = next(steps)
    while True:
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
        try:
            action = steps.send(dict(observation))
        except (StopIteration, NotFound):
            action = "noop()"
    return found(env)


def found(env: EnvOS) -> dict[str, str]:
    """The pictures of this episode by route."""
    routes = {record.number: record.route for record in env.ledger.records() if isinstance(record, Request)}
    shown: dict[str, str] = {}
    for record in env.ledger.records():
        if isinstance(record, Frame):
            shown["notice" if record.notice else routes[record.request]] = record.screenshot
    return shown


def worlds() -> None:
    """Every page of every world, and its notice."""
    for world, (environment, condition) in WORLDS.items():
        env = gymnasium.make(environment, driver="chromium", anchor="first", disable_env_checker=True).unwrapped
        assert isinstance(env, EnvOS)  # noqa: S101
        done: set[str] = set()
        for chosen in (condition, "L2"):
            for route, picture in walk(env, SEED, chosen).items():
                if route not in done and (chosen == condition or route == "notice"):
                    keep(f"{world}-notice" if route == "notice" else name_of(world, route), env.screenshot(picture))
                    done.add(route)
        env.reset(seed=SEED, options={"condition": condition})
        for method, route in env.world.routes.handlers:
            if method == "GET" and route not in done:
                env.step(f'goto("{asked(route)}")')
                keep(name_of(world, route), env.screenshot(found(env)[route]))
        env.close()


def asked(route: str) -> str:
    """An address of a route that no policy visits; the first decision is withdrawn, and can be amended no more."""
    special = {
        "/refused": "/refused?code=bad_request",
        "/deny/form": "/deny/form?claim=1",
        "/decisions/{id}/amend": "/decisions/2/amend",
    }
    return special.get(route) or route.replace("{id}", "1")


def record(root: Path) -> list[Path]:
    """Archives for the viewer: without and with the silent change, and announced."""
    env = Archive(gymnasium.make(WORLDS["clinic"][0], anchor="first", disable_env_checker=True), root)
    for name, condition in (
        ("reference", "L0"),
        ("reference", "OFF-A"),
        ("late_reread", "OFF-A"),
        ("late_reread", "L2"),
    ):
        scripted = policies("clinic")[name].policy
        observation, _ = env.reset(seed=SEED, options={"condition": condition, "policy": name})
        steps = scripted(dict(observation))
        action, over = next(steps), False
        while not over:
            observation, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            action = "noop()" if over else steps.send(dict(observation))
    env.close()
    return sorted(root.iterdir())


def viewer(window: Any, root: Path) -> None:
    """The viewer: one archive on its three tabs, two of them, the list."""
    archives = record(root / "archives")

    def show(*chosen: Path) -> None:
        (root / "replay.html").write_text(page(list(chosen))[0], encoding="utf-8")
        window.goto((root / "replay.html").as_uri())

    def at(mark: str) -> None:
        window.locator(".timeline button", has=window.locator(f".mark.{mark}")).first.click()
        window.wait_for_timeout(300)

    show(archives[1])
    at("commit")
    keep("viewer-episode", window.screenshot())
    for tab in ("Verdict", "Files"):
        window.get_by_role("tab", name=tab).click()
        keep(f"viewer-{tab.lower()}", window.screenshot())
    show(*archives[:2])
    at("commit")
    keep("viewer-twins", window.screenshot())
    server = Server(Site.of(root / "archives").answer)
    window.goto(server.url)
    keep("viewer-list", window.screenshot())
    server.stop()


def played(window: Any, root: Path) -> None:
    """The page of `envos play --browser`: at work, and with the verdict."""
    inner, driver = make(WORLDS["clinic"][0], "OFF-A", "train", "first")
    env = Archive(inner, root / "mine")
    session = Session(env, driver, SEED, lambda ended: changed(change(ended)), lambda: env.folder or root)
    server = Server(session.answer)
    window.goto(server.url)
    inside = window.frame_locator("iframe")
    for link in ("Sessions", "Referrals"):
        inside.get_by_role("link", name=link, exact=True).first.click()
        window.wait_for_timeout(300)
    keep("play-page", window.screenshot())
    rest(session)
    window.reload()
    window.get_by_role("heading", name="The verdict").wait_for()
    keep("play-verdict", window.screenshot())
    server.stop()
    env.close()


def rest(session: Session) -> None:
    """Start again from the home page and do the task as `reference` does it, which the silent change defeats."""
    steps = policies("clinic")["reference"].policy({**session._observation, "url": "/"})
    action = next(steps)
    while session.verdict is None:
        done = parse(action)
        assert isinstance(done, Action)  # noqa: S101 - a scripted policy writes actions
        given = {"verb": done.verb, "args": list(done.args), "fields": dict(done.fields), "after": session._actions}
        session.answer(Call("POST", "/act", {}, given))
        action = "noop()" if session.verdict else steps.send(dict(session._observation))


def main() -> None:
    """Make all of them anew."""
    from playwright.sync_api import sync_playwright

    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    worlds()
    with sync_playwright() as started, tempfile.TemporaryDirectory() as scratch:
        browser = started.chromium.launch(executable_path=find())
        window = browser.new_page(viewport={"width": 1280, "height": 800})
        viewer(window, Path(scratch))
        played(window, Path(scratch))
        browser.close()
    print(f"{len(list(FOLDER.iterdir()))} pictures in {FOLDER}")


if __name__ == "__main__":
    main()
