"""What can become of the amount that an approval asks for: another one is stored."""

from collections.abc import Mapping, Sequence

from envos.envs.evidence import Scalar, State, TableState
from envos.envs.roles import Coercion, Row
from envos.envs.worlds.claims_rules import Row as Record
from envos.envs.worlds.claims_rules import answer, display
from envos.envs.worlds.claims_tables import METADATA

_COLUMNS = {name: tuple(column.name for column in table.columns) for name, table in METADATA.tables.items()}


def coercion(rows: Mapping[str, Sequence[Row]], task: Record) -> Coercion:
    """The right amount, instead of which the portal may store one with two digits exchanged."""
    state: State = {
        name: TableState(_COLUMNS[name], {int(str(row[0])): row for row in rows[name]}) for name in ("claim", "policy")
    }
    key, right = int(str(task["claim"])), int(str(answer(state, task)["amount"]))
    columns, claims = state["claim"]
    made: dict[str, Scalar] = {
        # The form numbers its decisions so.
        "id": max((int(str(row[0])) for row in rows["decision"]), default=0) + 1,
        "claim_id": key,
        "outcome": "approved",
        "amount": right,
    }
    return Coercion(
        arm=("claim", key, "claimed"),
        text=display(state, "claim", "claimed", claims[key][columns.index("claimed")]),
        surfaces=("/approve/review",),
        made=made,
        columns={"amount": (right, transposed(right))},
        following=(),
    )


def transposed(amount: int) -> int:
    """The amount with the first two neighbouring digits that differ exchanged; no zero comes to the front.

    >>> transposed(393122), transposed(110000), transposed(105000)
    (933122, 101000, 150000)
    """
    text = str(amount)
    for at in range(len(text) - 1):
        left, right = text[at], text[at + 1]
        if left != right and (at or right != "0"):
            return int(text[:at] + right + left + text[at + 2 :])
    return amount + 9
