"""What a clerk does next who reads each source once: `reference` as a function of the numeric view's state.

It is asked at every step, so that it can label the states of others, too. It acts on a notice about its own case by
reading the source again, and never goes back to a source that no notice names.
"""

from collections.abc import Callable

from envos.wrappers.numeric import VERBS, Item, NumericView

_CHANGED = ("the place ", "the reimbursement limit ")
"""What notices about the fact say after its record's name."""
Choice = tuple[int, str]
"""An item's place on the page and a verb."""


def reference(view: NumericView) -> int:
    """The action of the careful clerk who does not look twice."""
    place, verb = _choice(view)
    return place * len(VERBS) + VERBS.index(verb)


def _choice(view: NumericView) -> Choice:
    if view.screen.covered:
        return _notice(view)
    chosen = _WORLDS["location" if "location" in view.labels else "amount"](view)
    return chosen or (0, "back")


def _notice(view: NumericView) -> Choice:
    place, item = _find(view, lambda one: one.label == "Notice")
    if item is not None and view.said(item.value).startswith(_CHANGED) and view.can(place, "note"):
        return place, "note"
    return _find(view, lambda one: one.role == "button")[0], "act"


def _find(view: NumericView, wanted: Callable[[Item], bool]) -> tuple[int, Item | None]:
    for place, item in enumerate(view.screen.items):
        if wanted(item):
            return place, item
    return 0, None


def _labelled(view: NumericView, role: str, text: str) -> Choice | None:
    place, item = _find(view, lambda one: one.role == role and one.text == text)
    return None if item is None else (place, "act")


def _fact(view: NumericView, label: str) -> str:
    item = _find(view, lambda one: one.label == label and one.role == "fact")[1]
    return "" if item is None else item.value


def _note(view: NumericView, wanted: Callable[[Item], bool]) -> Choice | None:
    for place, item in enumerate(view.screen.items):
        if wanted(item) and view.can(place, "note"):
            return place, "note"
    return None


def _row(view: NumericView, wanted: Callable[[Item], bool]) -> Choice | None:
    place, item = _find(view, lambda one: bool(one.cells) and one.at > 0 and wanted(one))
    return None if item is None else (place, "act")


def _fresh(view: NumericView, key: str) -> bool:
    """Whether an entry is there, and newer than any notice."""
    keys = [one for one, _ in view.held]
    return key in keys and ("Notice" not in keys or keys.index(key) < keys.index("Notice"))


def _clinic(view: NumericView) -> Choice | None:
    path, names = view.path, view.task.names
    session = next((key for key, value in view.held if names(key) and ":" in value), "")
    place = view.held[[key for key, _ in view.held].index(session)][1].split(" | ")[1] if session else ""
    known = session != "" and _fresh(view, session)
    reference = next((key for key, _ in view.held if key == "Reference"), "")
    busy = any(key.startswith("AP-") for key, _ in view.held) or reference != ""
    if path == "/sessions" and reference == "":
        own = _note(view, lambda one: names(one.text) and any(map(names, one.cells[1:2])) and bool(one.cells))
        if own:
            return own
    if not known and reference == "":
        return _labelled(view, "link", "Sessions")
    if path == "/patients/":
        own = _note(view, lambda one: bool(one.cells) and names(one.cells[1]) and one.cells[-1] == "booked")
        if own:
            return own
    if not busy:
        if path == "/patients":
            return _row(view, lambda one: names(one.text) and names(one.cells[-1]))
        return _labelled(view, "link", "Patients")
    if path == "/referrals":
        return _row(view, lambda one: names(one.text))
    if path == "/referrals/":
        return _referral(view, reference)
    if path.startswith("/new/") and reference == "":
        return _booking(view, place)
    if path == "/appointments" and any(key == "Status" for key, _ in view.held):
        return _row(view, lambda one: one.text in [value for _, value in view.held])
    if path == "/appointments/" and _fact(view, "Reference"):
        own = _note(view, lambda one: one.label == "Reference")
        if own and reference == "":
            return own
        if any(key == "Status" for key, _ in view.held):
            return 0, "report"
    return _labelled(view, "link", "Appointments" if any(key == "Status" for key, _ in view.held) else "Referrals")


def _referral(view: NumericView, reference: str) -> Choice | None:
    if reference == "":
        return _labelled(view, "link", "Book appointment")
    if _fact(view, "Status") == "booked":
        return _note(view, lambda one: one.label == "Status") or _labelled(view, "link", "Appointments")
    place, item = _find(view, lambda one: one.role == "textbox")
    number = [key for key, _ in view.listed].index("Reference")
    if item is not None and item.value != view.listed[number][1]:
        return place, f"fill_{number}"
    return _labelled(view, "button", "Mark as booked")


def _booking(view: NumericView, place: str) -> Choice | None:
    if view.path.startswith("/new/clinic"):
        chosen = _find(view, lambda one: one.role == "radio" and one.on)[1]
        if chosen is not None and chosen.text == place:
            return _labelled(view, "button", "Continue")
        return _labelled(view, "radio", place)
    if view.path.startswith("/new/slot"):
        if _fact(view, "Chosen place") == place and view.nearest >= 0:
            return view.nearest, "act"
        return _labelled(view, "link", "Choose another place")
    if _fact(view, "Place") == place:
        return _labelled(view, "button", "Confirm booking") or _labelled(view, "link", "Choose another slot")
    return _labelled(view, "link", "Referrals")


def _claims(view: NumericView) -> Choice | None:
    path, names = view.path, view.task.names
    known = _fresh(view, "Reimbursement limit")
    if path == "/decisions/":
        return (0, "report") if view.can(0, "report") else None
    if path == "/policies/" and not known:
        return _note(view, lambda one: one.label == "Reimbursement limit") or _labelled(view, "link", "Claims")
    if path == "/claims":
        return _row(view, lambda one: names(one.text))
    if path == "/claims/":
        if known:
            return _labelled(view, "link", "Approve claim")
        noted = _note(view, lambda one: one.label == "Policy")
        if noted:
            return noted
        place, item = _find(view, lambda one: one.label == "Policy")
        return (place, "act") if item else None
    if known and path.startswith("/approve/form"):
        return _amount(view)
    if known and path.startswith("/approve/review"):
        return _labelled(view, "button", "Approve claim")
    return _labelled(view, "link", "Claims")


def _amount(view: NumericView) -> Choice | None:
    place, item = _find(view, lambda one: one.role == "textbox")
    number = [key for key, _ in view.listed].index("Reimbursement limit")
    verb = f"fill_{number}" if view.less(number) else "fill_difference"
    if item is not None and item.value != view.typed(verb):
        return place, verb
    return _labelled(view, "button", "Continue")


_WORLDS: dict[str, Callable[[NumericView], Choice | None]] = {"location": _clinic, "amount": _claims}
