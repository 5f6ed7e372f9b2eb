"""The clinic's home and sessions pages, and what all of its pages share."""

from sqlalchemy import BindParameter, bindparam, func, insert, literal, or_, select, union_all, update

from envos.envs.app import Context, Redirect, Refused, Routes
from envos.envs.page import (
    Banner,
    Facts,
    Form,
    Heading,
    Link,
    Node,
    Page,
    Paragraph,
    Select,
    Table,
)
from envos.envs.worlds.clinic_rules import FIELDS
from envos.envs.worlds.clinic_tables import (
    appointment,
    clinic_session,
    history,
    location,
    message,
    patient,
    provider,
    referral,
)

NAVIGATION = (
    Link("Home", "/"),
    Link("Sessions", "/sessions"),
    Link("Patients", "/patients"),
    Link("Appointments", "/appointments"),
    Link("Referrals", "/referrals"),
    Link("Inbox", "/inbox"),
)
ANY = ("", "Any")
"""The choice of a filter that filters nothing."""
_CLERK = "Front desk"

ROUTES = Routes()

KEY: BindParameter[int] = bindparam("key")
_PARKING = location.alias("parking")

PLACES = select(location.c.id, location.c.name).order_by(location.c.name)
_CHOICES = union_all(
    select(literal("place"), location.c.id, location.c.name.label("text")),
    select(literal("provider"), provider.c.id, provider.c.name),
).order_by("text")
_COUNTS = select(
    *(
        select(func.count()).select_from(table).where(condition).scalar_subquery()
        for table, condition in (
            (clinic_session, clinic_session.c.id > 0),
            (patient, patient.c.id > 0),
            (appointment, appointment.c.status == "booked"),
            (referral, referral.c.status == "open"),
            (message, message.c.read == 0),
        )
    )
)
_SESSIONS = (
    select(
        clinic_session.c.id,
        clinic_session.c.title,
        clinic_session.c.date,
        clinic_session.c.start,
        clinic_session.c.end,
        location.c.name,
        provider.c.name,
    )
    .join(location, location.c.id == clinic_session.c.location_id)
    .join(provider, provider.c.id == clinic_session.c.provider_id)
    .where(or_(bindparam("place") == 0, clinic_session.c.location_id == bindparam("place")))
    .where(or_(bindparam("provider") == 0, clinic_session.c.provider_id == bindparam("provider")))
    .order_by(clinic_session.c.date, clinic_session.c.start, clinic_session.c.title)
)
_SESSION = (
    select(
        clinic_session.c.title,
        clinic_session.c.date,
        clinic_session.c.start,
        clinic_session.c.end,
        location.c.name,
        _PARKING.c.name,
        provider.c.name,
        provider.c.role,
    )
    .join(location, location.c.id == clinic_session.c.location_id)
    .join(_PARKING, _PARKING.c.id == clinic_session.c.parking_id)
    .join(provider, provider.c.id == clinic_session.c.provider_id)
    .where(clinic_session.c.id == KEY)
)
_HISTORY = (
    select(history.c.at, history.c.field, history.c.old, history.c.new, history.c.by)
    .where(history.c.record == "clinic_session", history.c.record_id == KEY)
    .order_by(history.c.id)
)
_HELD = select(clinic_session.c.title, clinic_session.c.location_id, clinic_session.c.parking_id).where(
    clinic_session.c.id == KEY
)
_MOVE = (
    update(clinic_session)
    .where(clinic_session.c.id == KEY)
    .values(location_id=bindparam("place"), parking_id=bindparam("parking"))
)
_NOTE = insert(history)


def chosen(ctx: Context, name: str) -> int:
    """The id that a filter or form names, 0 where it names none."""
    return ctx.number_of(name) if ctx.params.get(name) else 0


def places(ctx: Context, none: str) -> tuple[tuple[str, str], ...]:
    """The places as choices of a drop-down list, after a first one that chooses nothing."""
    return (("", none), *((str(key), name) for key, name in ctx.db.execute(PLACES).all()))


def flashed(ctx: Context, **texts: str) -> tuple[Node, ...]:
    """The banner of the operation that led here, by a flag of the address."""
    return tuple(Banner((text,)) for flag, text in texts.items() if flag in ctx.params)


@ROUTES.get("/")
def home(ctx: Context) -> Page | Redirect:
    """Counts; no record."""
    sessions, patients, booked, opened, unread = ctx.db.execute(_COUNTS).one()
    return Page(
        "Clinic portal",
        (
            Facts(
                (
                    ("Today", ctx.now[:10]),
                    ("Clinic sessions", str(sessions)),
                    ("Patients", str(patients)),
                    ("Booked appointments", str(booked)),
                    ("Open referrals", str(opened)),
                    ("Unread messages", str(unread)),
                )
            ),
        ),
    )


@ROUTES.get("/sessions")
def sessions_page(ctx: Context) -> Page | Redirect:
    """The sessions and where they are held: the source of the fact."""
    place, by = chosen(ctx, "place"), chosen(ctx, "provider")
    found = ctx.db.execute(_SESSIONS, {"place": place, "provider": by}).all()
    rows = tuple(
        (
            Link(title, f"/sessions/{key}"),
            date,
            f"{start}-{end}",
            ctx.value(name, "clinic_session", key, "location_id"),
            who,
        )
        for key, title, date, start, end, name, who in found
    )
    choices = ctx.db.execute(_CHOICES).all()
    fields = tuple(
        Select(name, label, (ANY, *((str(key), text) for of, key, text in choices if of == name)), str(now or ""))
        for name, label, now in (("place", "Place", place), ("provider", "Provider", by))
    )
    return Page(
        "Clinic sessions",
        (
            Table(("Session", "Date", "Time", "Place", "Provider"), rows, "No session fits."),
            Form("get", "/sessions", fields, "Filter"),
        ),
    )


@ROUTES.get("/sessions/{id}")
def session_page(ctx: Context) -> Page | Redirect:
    """One session, with what has changed in it."""
    key = ctx.key
    found = ctx.db.execute(_SESSION, {"key": key}).first()
    if found is None:
        raise Refused("not_found")
    title, date, start, end, place, parking, who, role = found
    changes = tuple(
        (at, FIELDS.get(field, field), old, new, by)
        for at, field, old, new, by in ctx.db.execute(_HISTORY, {"key": key}).all()
    )
    return Page(
        title,
        (
            *flashed(ctx, changed="The session has been changed."),
            Facts(
                (
                    ("Date", date),
                    ("Time", f"{start}-{end}"),
                    ("Place", ctx.value(place, "clinic_session", key, "location_id")),
                    ("Parking", ctx.value(parking, "clinic_session", key, "parking_id")),
                    ("Provider", f"{who} ({role})"),
                )
            ),
            Paragraph((Link("Edit session", f"/sessions/{key}/edit"),)),
            Heading("Changes"),
            Table(("When", "What", "Before", "After", "By"), changes, "No changes."),
        ),
    )


@ROUTES.get("/sessions/{id}/edit")
def edit_session_page(ctx: Context) -> Page | Redirect:
    """The form that moves a session; it does not show where the session is held now."""
    found = ctx.db.execute(_HELD, {"key": ctx.key}).first()
    if found is None:
        raise Refused("not_found")
    choices = places(ctx, "No change")
    fields = (
        Select("place", "New place", choices, ""),
        Select("parking", "New parking", choices, ""),
    )
    return Page(
        "Edit session",
        (
            Paragraph(("Session:", Link(found[0], f"/sessions/{ctx.key}"))),
            Form("post", f"/sessions/{ctx.key}/edit", fields, "Save session"),
        ),
    )


@ROUTES.post("/sessions/{id}/edit")
def edit_session(ctx: Context) -> Page | Redirect:
    """Move a session or its parking, and note it in the history."""
    found = ctx.db.execute(_HELD, {"key": ctx.key}).first()
    if found is None:
        raise Refused("not_found")
    place, parking = chosen(ctx, "place") or found[1], chosen(ctx, "parking") or found[2]
    names = dict(ctx.db.execute(PLACES).all())
    if place not in names or parking not in names:
        raise Refused("bad_request")
    changes = [
        {
            "record": "clinic_session",
            "record_id": ctx.key,
            "field": field,
            "old": names[old],
            "new": names[new],
            "at": ctx.now,
            "by": _CLERK,
        }
        for field, old, new in (("location_id", found[1], place), ("parking_id", found[2], parking))
        if old != new
    ]
    if not changes:
        raise Refused("no_change")
    ctx.db.execute(_MOVE, {"key": ctx.key, "place": place, "parking": parking})
    for change in changes:
        ctx.db.execute(_NOTE, change)
    return Redirect(f"/sessions/{ctx.key}?changed=1")
