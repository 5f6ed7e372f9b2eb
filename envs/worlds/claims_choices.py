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
        offered=("/approve/form",),
        made=made,
        columns={"amount": (right, transposed(right))},
        following=(),
        reviewed={"claim_id": key, "amount": right},
        carried=(key, right, transposed(right)),
        closing={"final": (0, 1)},
    )


def transposed(amount: int) -> int:
    """The amount with the first two neighbouring digits that differ exchanged, without a leading zero if that can be.

    An amount of which all digits are the same becomes another one as well.

    >>> transposed(393122), transposed(105000), transposed(100000), transposed(333333)
    (933122, 150000, 10000, 333342)
    """
    text = str(amount)
    pairs = [at for at in range(len(text) - 1) if text[at] != text[at + 1]]
    if not pairs:
        return amount + 9
    at = next((at for at in pairs if at or text[1] != "0"), pairs[0])
    return int(text[:at] + text[at + 1] + text[at] + text[at + 2 :])
