"""The warm start: a model learns to say what the reference said, on the very tokens that a rollout would have."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from envos.errors import UsageError
from envos.train.trl_chat import labelled, pieces
from envos.train.trl_data import Example

Log = Callable[[dict[str, Any]], None]


def warm_start(
    model: Any,
    tokenizer: Any,
    examples: Sequence[Example],
    schemas: Sequence[dict[str, Any]],
    *,
    steps: int,
    batch: int,
    rate: float,
    tokens: int,
    seed: int,
    log: Log,
) -> float | None:
    """Train on episodes, `batch` of them for each of `steps` steps; returns the last loss, None for no step.

    The loss is the mean over what the model says; goal, results and schemas are read and not learned. Of a longer
    episode the first `tokens` are taken, which bounds the memory. The rate falls in a straight line to a tenth. `log`
    is given the loss of each step. Raises UsageError where there is no example, and where one says nothing in its first
    `tokens`.
    """
    if steps == 0:
        return None
    if not examples:
        raise UsageError("the warm start has no episode to learn from")
    data = [labelled(pieces(tokenizer, one.messages, schemas), tokens) for one in examples]
    if not all(any(said) for _, said in data):
        raise UsageError(f"an episode begins after more than {tokens} tokens: give the warm start more of them")
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.0)
    order = _shuffled(len(data), seed)
    model.train()
    loss = 0.0
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * (1.0 - 0.9 * step / steps)
        loss = 0.0
        for _ in range(batch):
            ids, said = data[next(order)]
            loss += _backward(model, ids, said, batch)
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        log({"stage": "sft", "step": step + 1, "loss": round(loss, 4)})
    return loss


def _backward(model: Any, ids: list[int], said: list[bool], batch: int) -> float:
    """Add the gradient of one episode; the logits of what is only read are not worked out."""
    tokens = torch.tensor([ids], device=model.device)
    places = torch.tensor([place - 1 for place, own in enumerate(said) if own], device=model.device)
    logits = model(input_ids=tokens, logits_to_keep=places, use_cache=False).logits[0]
    loss = torch.nn.functional.cross_entropy(logits, tokens[0, places + 1]) / batch
    loss.backward()
    return float(loss.detach())


def _shuffled(count: int, seed: int) -> Any:
    """The numbers below `count` without end, each round in an order of its own."""
    chance = random.Random(seed)  # noqa: S311 - an order, no secret
    while True:
        numbers = list(range(count))
        chance.shuffle(numbers)
        yield from numbers
