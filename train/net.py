"""The policy's network: a pointer over the items of a page, with what all items have in common (DeepSets)."""

from typing import Any

import torch
from torch import nn

from envos.wrappers.numeric import FEATURES, GLOBALS, ITEMS, VERBS

HIDDEN = 64
FORBIDDEN = -1e9
"""The logit of a pair that the mask rules out."""

Batch = dict[str, torch.Tensor]


class Pointer(nn.Module):
    """Logits of every (item, verb) pair and a value, from what `NumericView` observes.

    `elements` (B, ITEMS, FEATURES), `globals` (B, GLOBALS), `action_mask` (B, ITEMS * verbs), float32. Items see each
    other through their maximum and mean; an item that is not there (all zero) takes no part.
    """

    def __init__(self, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.item = nn.Linear(FEATURES, hidden)
        self.whole = nn.Linear(GLOBALS, hidden)
        self.own = nn.Linear(hidden, hidden)
        self.pooled = nn.Linear(3 * hidden, hidden)
        self.verbs = nn.Linear(hidden, len(VERBS))
        self.value = nn.Sequential(nn.Linear(3 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def trunk(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Item embeddings (B, ITEMS, H) and what is pooled of them and the page (B, 3 H)."""
        elements, whole = batch["elements"], self.whole(batch["globals"])
        there = (elements[..., :7].sum(-1, keepdim=True) > 0).float()
        items = torch.relu(self.item(elements) + whole.unsqueeze(1)) * there
        mean = items.sum(1) / there.sum(1).clamp(min=1)
        return items, torch.cat((items.amax(1), mean, torch.relu(whole)), -1)

    def forward(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Masked logits (B, ITEMS * verbs), and values (B,)."""
        items, pooled = self.trunk(batch)
        hidden = torch.relu(self.own(items) + self.pooled(pooled).unsqueeze(1))
        logits = self.verbs(hidden).reshape(-1, ITEMS * len(VERBS))
        return logits.masked_fill(batch["action_mask"] < 0.5, FORBIDDEN), self.value(pooled).squeeze(-1)


def tensors(observations: dict[str, Any]) -> Batch:
    """Arrays as tensors."""
    return {name: torch.as_tensor(value) for name, value in observations.items()}
