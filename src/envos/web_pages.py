"""Pages as HTML for a person: of a running episode, and of an archived one that is played again."""

from envos.envs.drivers.inprocess import InProcess
from envos.envs.env import EnvOS
from envos.envs.evidence import Action, Evidence, Frame
from envos.envs.html import render
from envos.errors import EnvOSError
from envos.registry import build


class Rendered(InProcess):
    """The in-process driver, whose page can be had as a document as well."""

    __slots__ = ()

    def html(self) -> str:
        """The page as it stands, with what was typed."""
        return render(self._reply.page, self._typed)


def make(environment: str, condition: str, split: str, anchor: str) -> tuple[EnvOS, Rendered]:
    """An environment and its driver."""
    driver = Rendered()
    return build(environment, driver, condition, split, anchor), driver


def shown(env: EnvOS) -> Frame:
    """The observation that was handed over last."""
    return next(record for record in reversed(env.ledger.records()) if isinstance(record, Frame))


def played_again(evidence: Evidence) -> tuple[str, dict[int, str]]:
    """The brief, and the page of each observation by its number, from playing the archived actions once more.

    A page is given only where the new observation has the digest of the archived one, so that it shows what was
    delivered then; from the first that differs on there is none. Nothing of it is run or stored.
    """
    identity, frames = evidence.start.identity, [item for item in evidence.records if isinstance(item, Frame)]
    found: dict[int, str] = {}
    if identity.get("actions"):  # calls of tools have no pages
        return "", found
    try:
        env, driver = make(identity["environment"], identity["condition"], identity["split"], identity["anchor"])
    except (EnvOSError, KeyError, TypeError, AttributeError):
        return "", found
    try:
        env.reset(seed=identity["seed"])
        brief, ended = env.instance.brief, False
        actions = [item.raw for item in evidence.records if isinstance(item, Action)]
        for place, frame in enumerate(frames):
            if place:
                if ended or place > len(actions):
                    break
                *_, terminated, truncated, _ = env.step(actions[place - 1])
                ended = terminated or truncated
            if shown(env).sha256 != frame.sha256:
                break
            found[frame.number] = driver.html()
        return brief, found
    except (EnvOSError, KeyError, TypeError):
        return "", found
    finally:
        env.close()
