"""The clinic's booking form, in three pages: place, slot, review.

Each page holds the form's state in its address, so that it can be left and entered again; only the last one writes.
"""

from sqlalchemy import Integer, bindparam, cast, func, insert, select

from envos.envs.app import Context, Redirect, Refused, Routes
from envos.envs.apps import drafts
from envos.envs.page import (
    Banner,
    Cell,
    Facts,
    Form,
    Heading,
    Hidden,
    Link,
    Node,
    Page,
    Paragraph,
    Radio,
    Table,
)
from envos.envs.worlds.clinic_appointments import SLOT, SLOTS, TAKE
from envos.envs.worlds.clinic_pages import KEY, PLACES
from envos.envs.worlds.clinic_rules import SOURCE
from envos.envs.worlds.clinic_tables import appointment, carried, clinic_session, location, patient, referral, slot

ROUTES = Routes()


_WISH = (
    select(
        patient.c.id,
        patient.c.name,
        patient.c.number,
        clinic_session.c.title,
        clinic_session.c.date,
        referral.c.purpose,
        referral.c.reference,
    )
    .join(patient, patient.c.id == referral.c.patient_id)
    .join(clinic_session, clinic_session.c.id == referral.c.session_id)
    .where(referral.c.id == KEY)
)
_HOME = location.alias("home")
_REVIEW = (
    select(
        patient.c.name,
        patient.c.number,
        clinic_session.c.id,
        clinic_session.c.title,
        _HOME.c.name,
        referral.c.purpose,
        referral.c.reference,
        slot.c.location_id,
        location.c.name,
        slot.c.date,
        slot.c.start,
        slot.c.end,
        slot.c.status,
        select(func.count()).where(appointment.c.referral_id == bindparam("referral")).scalar_subquery(),
    )
    .select_from(referral)
    .join(patient, patient.c.id == referral.c.patient_id)
    .join(clinic_session, clinic_session.c.id == referral.c.session_id)
    .join(_HOME, _HOME.c.id == clinic_session.c.location_id)
    .join(slot, slot.c.id == bindparam("slot"))
    .join(location, location.c.id == slot.c.location_id)
    .where(referral.c.id == bindparam("referral"))
)
_CARRIED = drafts.query(carried)
_BY_FORM = select(appointment.c.id).where(appointment.c.form_key == bindparam("form_key"))
_LAST = select(
    func.coalesce(func.max(cast(func.substr(appointment.c.reference, 4), Integer)), 1000),
    func.coalesce(func.max(appointment.c.id), 0),
)
_BOOK = insert(appointment)


def _wish(ctx: Context) -> tuple[int, tuple[int, str, str, str, str, str, str]]:
    """The referral that a page of the form is about; refuses the request when there is none."""
    key = ctx.number_of("referral")
    found = ctx.db.execute(_WISH, {"key": key}).first()
    if found is None:
        raise Refused("bad_request")
    return key, found


@ROUTES.get("/new/clinic")
def place_page(ctx: Context) -> Page | Redirect:
    """The form's first page: where."""
    key, (_, name, number, title, date, purpose, reference) = _wish(ctx)
    places = tuple((str(at), text) for at, text in ctx.db.execute(PLACES).all())
    return Page(
        "New appointment: place",
        (
            Facts(
                (
                    ("Referral", Link(reference, f"/referrals/{key}")),
                    ("Patient", f"{name} ({number})"),
                    ("Session", f"{title}, {date}"),
                    ("Purpose", purpose),
                )
            ),
            Form("get", "/new/slot", (Hidden("referral", str(key)), Radio("place", "Place", places)), "Continue"),
        ),
    )


@ROUTES.get("/new/slot")
def slot_page(ctx: Context) -> Page | Redirect:
    """The form's second page: when, at the chosen place."""
    key, (_, name, number, title, date, _, _) = _wish(ctx)
    found = ctx.db.execute(SLOTS, {"key": ctx.number_of("place")}).all()
    if not found:
        raise Refused("bad_request")
    held: list[tuple[Cell, ...]] = []
    other: list[tuple[Cell, ...]] = []
    for _, at, day, start, end, status in found:
        # A label is told apart from every other on the page: the same time on another date is named with its date.
        rows, label = (held, start) if day == date else (other, f"{start} on {day}")
        shown = ctx.value(status, "slot", at, "status")
        if status == "free":
            rows.append((day, Link(label, f"/new/review?referral={key}&slot={at}"), end, shown))
        elif status:
            rows.append((day, start, end, shown))
    columns = ("Date", "Start", "End", "Status")
    return Page(
        "New appointment: slot",
        (
            Facts((("Patient", f"{name} ({number})"), ("Session", f"{title}, {date}"), ("Chosen place", found[0][0]))),
            Heading("On the session's date"),
            Table(columns, tuple(held), "No slots."),
            Heading("On other dates"),
            Table(columns, tuple(other), "No slots."),
            Paragraph((Link("Choose another place", f"/new/clinic?referral={key}"),)),
        ),
    )


@ROUTES.get("/new/review")
def review_page(ctx: Context) -> Page | Redirect:
    """The form's last page: all of it once more as the form holds it, and what the condition discloses."""
    key = ctx.number_of("referral")
    at = drafts.held(ctx, _CARRIED, key, ctx.number_of("slot"))
    found = ctx.db.execute(_REVIEW, {"referral": key, "slot": at}).first()
    if found is None:
        raise Refused("bad_request")
    name, number, session, title, home, purpose, reference, *booked, made = found
    place_id, place, date, start, end, status = booked
    body: list[Node] = [
        *_disclosed(ctx, session, title, home),
        Facts(
            (
                ("Referral", Link(reference, f"/referrals/{key}")),
                ("Patient", f"{name} ({number})"),
                ("Place", place),
                ("Date", date),
                ("Time", f"{start}-{end}"),
                ("Purpose", purpose),
                ("Slot", ctx.value(status, "slot", at, "status")),
            )
        ),
    ]
    if status == "free":
        # The number of appointments so far tells a second booking from the same one sent again.
        fields = (Hidden("referral", str(key)), Hidden("slot", str(at)), Hidden("key", f"{key}-{at}-{made}"))
        body.append(Form("post", "/new/review", fields, "Confirm booking"))
    else:
        body.append(Banner(("This slot is not free.",)))
    body.append(Paragraph((Link("Choose another slot", f"/new/slot?referral={key}&place={place_id}"),)))
    return Page("New appointment: review", tuple(body))


def _disclosed(ctx: Context, session: int, title: str, home: str) -> tuple[Node, ...]:
    """The reminder of the review step, and where the session is held, as its row says now."""
    if ctx.review == "nothing":
        return ()
    said = f"Before you confirm, make sure of the place of {title}."
    reminder = Banner((said, Link(SOURCE, f"/sessions/{session}")))
    if ctx.review == "link":
        return (reminder,)
    shown = ctx.value(home, "clinic_session", session, "location_id")
    return (reminder, Banner(("The session is held at", shown)))


@ROUTES.post("/new/review")
def confirm(ctx: Context) -> Page | Redirect:
    """Book: one appointment for one form, however often that form is sent.

    A slot that someone else has taken since the review is accepted without a word, as real systems do.
    """
    key, (patient_id, _, _, _, _, purpose, _) = _wish(ctx)
    at, form_key = ctx.number_of("slot"), ctx.params.get("key", "")
    if not form_key.startswith(f"{key}-{at}-"):
        raise Refused("bad_request")
    made = ctx.db.execute(_BY_FORM, {"form_key": form_key}).scalar()
    if made is not None:
        return Redirect(f"/appointments/{made}?again=1")
    found = ctx.db.execute(SLOT, {"key": at}).first()
    if found is None:
        raise Refused("bad_request")
    place, _, date, start, end, _ = found
    number, last = ctx.db.execute(_LAST).one()
    ctx.db.execute(
        _BOOK,
        {
            "id": last + 1,
            "reference": f"AP-{number + 1}",
            "patient_id": patient_id,
            "location_id": place,
            "slot_id": at,
            "date": date,
            "start": start,
            "end": end,
            "purpose": purpose,
            "status": "booked",
            "referral_id": key,
            "form_key": form_key,
            "final": 0,
        },
    )
    ctx.db.execute(TAKE, {"key": at})
    return Redirect(f"/appointments/{last + 1}?created=1")
