"""Work in pieces over the processes of a Ray cluster, or of one that is started here."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from envos.errors import UsageError

Piece = TypeVar("Piece")
Result = TypeVar("Result")

RETRIES = 3
"""How often a piece is begun anew when the process that had it dies."""


def spread(
    function: Callable[[Piece], Result], pieces: Sequence[Piece], address: str = "", workers: int = 0
) -> Iterator[tuple[int, Result]]:
    """The results with their piece's place, as they come in; a piece whose process dies is done again.

    `function` stands at the top of a module that every node can import. `address` is a running cluster's, "" starts one
    here with so many `workers` (0: one for each core) and stops it at the end. What `function` raises is raised here.
    """
    if not pieces:
        return
    ray = _ray()
    started = join(address, workers)
    try:
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(function)
        waiting = iter(enumerate(pieces))
        places: dict[Any, int] = {}
        # Twice as many as there are cores: enough to keep them busy, and few to lose.
        for _ in range(2 * max(1, int(ray.cluster_resources().get("CPU", 1)))):
            _submit(task, waiting, places)
        while places:
            (done,), _ = ray.wait(list(places), num_returns=1)
            place = places.pop(done)
            _submit(task, waiting, places)
            yield place, _result(ray, done)
    finally:
        if started:
            ray.shutdown()


def in_order(results: Iterator[tuple[int, Result]]) -> Iterator[Result]:
    """The results in the order of their pieces, each as soon as those before it are there."""
    early: dict[int, Result] = {}
    due = 0
    for place, result in results:
        early[place] = result
        while due in early:
            yield early.pop(due)
            due += 1


def _submit(task: Any, waiting: Iterator[tuple[int, Any]], places: dict[Any, int]) -> None:
    for place, piece in waiting:
        places[task.remote(piece)] = place
        return


def _result(ray: Any, done: Any) -> Any:
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as problem:
        # What the function raised, as it would have been raised here.
        raise problem.cause from problem


def join(address: str = "", workers: int = 0) -> bool:
    """Connect to Ray if nobody has: to a running cluster's `address`, or to one that is started on this machine.

    Whether it was connected here, and is to be shut down here. Raises UsageError for an address without a cluster.
    """
    ray = _ray()
    if ray.is_initialized():
        return False
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    if address:
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, ValueError) as problem:
            raise UsageError(f"--address is a running Ray cluster's, such as 127.0.0.1:6379; {problem}") from None
        return True
    ray.init(num_cpus=workers or None, include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
    return True


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UsageError('this needs Ray: pip install "envos[rllib]"') from None
    return ray
