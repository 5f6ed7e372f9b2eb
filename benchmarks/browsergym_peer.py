"""The peer of `benchmarks/browser.py`: BrowserGym's MiniWoB, by an interpreter that has it. Prints one line of JSON.

    python browsergym_peer.py CHROMIUM EPISODES

BrowserGym pins a Playwright of its own, so it lives in another environment than EnvOS:

    python3 -m venv peer && peer/bin/pip install browsergym-miniwob miniwob
    .venv/bin/python benchmarks/browser.py --peer peer/bin/python

Its delays are set to zero (`pre_observation_delay`, `slow_mo`); by default it waits half a second in every step. Every
step takes a screenshot, a DOM snapshot and an accessibility tree, which cannot be left out.
"""

import json
import os
import statistics
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

STEPS = 20


def main() -> None:
    """Measure resets and steps: a click and a noop in turn, on a page of two buttons."""
    chromium, episodes = sys.argv[1], int(sys.argv[2])
    spec = find_spec("miniwob")
    assert spec is not None  # noqa: S101
    assert spec.origin is not None  # noqa: S101
    os.environ["MINIWOB_URL"] = f"file://{Path(spec.origin).parent}/html/miniwob/"
    with tempfile.TemporaryDirectory() as folder:
        # Its chat window starts a browser of its own, where Playwright 1.44 looks for one.
        path = Path(folder, "chromium-1117", "chrome-linux", "chrome")
        path.parent.mkdir(parents=True)
        path.symlink_to(chromium)
        os.environ["PLAYWRIGHT_BROWSERS_PATH"] = folder
        import browsergym.miniwob  # type: ignore[import-not-found]  # noqa: F401 - registers its environments
        import gymnasium

        env = gymnasium.make(
            "browsergym/miniwob.click-test-2",
            pre_observation_delay=0,
            slow_mo=0,
            headless=True,
            pw_chromium_kwargs={"executable_path": chromium},
        )
        resets, steps = [], []
        for seed in range(episodes):
            begin = perf_counter()
            env.reset(seed=seed)
            resets.append(perf_counter() - begin)
            for number in range(STEPS):
                begin = perf_counter()
                env.step("noop(0)" if number % 2 else "mouse_click(10, 10)")
                steps.append(perf_counter() - begin)
        env.close()
    print(json.dumps({"step": statistics.median(steps), "reset": statistics.median(resets)}))


if __name__ == "__main__":
    main()
