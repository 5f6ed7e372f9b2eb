"""The clinic's records: sessions, patients and referrals. Booking is in `clinic_booking`."""

from sqlalchemy import bindparam, func, insert, literal, or_, select, union_all, update

from envos.envs.app import Context, Redirect, Refused, Routes
from envos.envs.apps import mail, notices
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
    TextField,
)
from envos.envs.worlds.clinic_rules import FIELDS
from envos.envs.worlds.clinic_tables import (
    appointment,
    clinic_session,
    history,
    location,
    message,
    notice,
    patient,
    provider,
    referral,
    slot,
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
PHONE_LIMIT = 30
_CLERK = "Front desk"

ROUTES = Routes()
mail.mount(ROUTES, message)
notices.mount(ROUTES, notice)

KEY = bindparam("key")
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
_PATIENTS = (
    select(patient.c.id, patient.c.name, patient.c.born, patient.c.number)
    .where(func.instr(func.lower(patient.c.name + " " + patient.c.number), bindparam("q")) > 0)
    .order_by(patient.c.name, patient.c.id)
)
_PATIENT = select(patient.c.name, patient.c.born, patient.c.number, patient.c.phone).where(
    patient.c.id == KEY
)
_PATIENT_APPOINTMENTS = (
    select(
        appointment.c.id,
        appointment.c.reference,
        appointment.c.date,
        appointment.c.start,
        appointment.c.end,
        location.c.name,
        appointment.c.purpose,
        appointment.c.status,
    )
    .join(location, location.c.id == appointment.c.location_id)
    .where(appointment.c.patient_id == KEY)
    .order_by(appointment.c.date, appointment.c.start)
)
_PATIENT_REFERRALS = (
    select(
        referral.c.id, referral.c.reference, referral.c.purpose, clinic_session.c.title, referral.c.status
    )
    .join(clinic_session, clinic_session.c.id == referral.c.session_id)
    .where(referral.c.patient_id == KEY)
    .order_by(referral.c.reference)
)
_PHONE = update(patient).where(patient.c.id == KEY).values(phone=bindparam("number"))
_REFERRALS = (
    select(
        referral.c.id,
        referral.c.reference,
        patient.c.name,
        clinic_session.c.title,
        referral.c.received,
        referral.c.status,
    )
    .join(patient, patient.c.id == referral.c.patient_id)
    .join(clinic_session, clinic_session.c.id == referral.c.session_id)
    .order_by(referral.c.reference)
)
_REFERRAL = (
    select(
        referral.c.reference,
        patient.c.id,
        patient.c.name,
        patient.c.number,
        clinic_session.c.id,
        clinic_session.c.title,
        clinic_session.c.date,
        referral.c.purpose,
        referral.c.received,
        referral.c.status,
        referral.c.appointment_reference,
    )
    .join(patient, patient.c.id == referral.c.patient_id)
    .join(clinic_session, clinic_session.c.id == referral.c.session_id)
    .where(referral.c.id == KEY)
)
_REFERRAL_EXISTS = select(referral.c.id).where(referral.c.id == KEY)
_APPOINTMENT_EXISTS = select(appointment.c.id).where(appointment.c.reference == bindparam("reference"))
_MARK = (
    update(referral)
    .where(referral.c.id == KEY)
    .values(status=bindparam("now"), appointment_reference=bindparam("named"))
)


def chosen(ctx: Context, name: str) -> int:
    """The id that a filter or form names, 0 where it names none."""
    return ctx.number_of(name) if ctx.params.get(name) else 0


def options(ctx: Context, statement: object, none: str) -> tuple[tuple[str, str], ...]:
    """The choices of a drop-down list, with a first one that chooses nothing."""
    rows = ctx.db.execute(statement)  # type: ignore[call-overload]
    return (("", none), *((str(key), text) for key, text in rows))


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
        for at, field, old, new, by in ctx.db.execute(_HISTORY, {"key": key})
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
    places = options(ctx, PLACES, "No change")
    fields = (
        Select("place", "New place", places, ""),
        Select("parking", "New parking", places, ""),
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
    names = {key: name for key, name in ctx.db.execute(PLACES)}
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


@ROUTES.get("/patients")
def patients_page(ctx: Context) -> Page | Redirect:
    """The patients, searched by name or number."""
    text = ctx.params.get("q", "")
    found = ctx.db.execute(_PATIENTS, {"q": text.lower()}).all()
    rows = tuple((Link(name, f"/patients/{key}"), born, number) for key, name, born, number in found)
    return Page(
        "Patients",
        (
            Form("get", "/patients", (TextField("q", "Name or number", text),), "Search"),
            Table(("Patient", "Born", "Number"), rows, "No patient fits."),
        ),
    )


@ROUTES.get("/patients/{id}")
def patient_page(ctx: Context) -> Page | Redirect:
    """One patient with appointments and referrals."""
    key = ctx.key
    found = ctx.db.execute(_PATIENT, {"key": key}).first()
    if found is None:
        raise Refused("not_found")
    name, born, number, phone = found
    booked = tuple(
        (Link(reference, f"/appointments/{at}"), date, start, end, place, purpose, status)
        for at, reference, date, start, end, place, purpose, status in ctx.db.execute(
            _PATIENT_APPOINTMENTS, {"key": key}
        )
    )
    wishes = tuple(
        (Link(reference, f"/referrals/{at}"), title, purpose, status)
        for at, reference, purpose, title, status in ctx.db.execute(_PATIENT_REFERRALS, {"key": key})
    )
    columns = ("Appointment", "Date", "Start", "End", "Place", "Purpose", "Status")
    return Page(
        name,
        (
            *flashed(ctx, changed="The phone number has been saved."),
            Facts((("Number", number), ("Born", born), ("Phone", phone))),
            Heading("Appointments"),
            Table(columns, booked, "No appointments."),
            Heading("Referrals"),
            Table(("Referral", "Session", "Purpose", "Status"), wishes, "No referrals."),
            Form("post", f"/patients/{key}/phone", (TextField("phone", "New phone", ""),), "Save phone"),
        ),
    )


@ROUTES.post("/patients/{id}/phone")
def change_phone(ctx: Context) -> Page | Redirect:
    """Change a patient's phone number."""
    if ctx.db.execute(_PATIENT, {"key": ctx.key}).first() is None:
        raise Refused("not_found")
    number = ctx.params.get("phone", "")
    if not any(char.isdecimal() for char in number) or len(number) > PHONE_LIMIT:
        raise Refused("bad_phone")
    ctx.db.execute(_PHONE, {"key": ctx.key, "number": number})
    return Redirect(f"/patients/{ctx.key}?changed=1")


@ROUTES.get("/referrals")
def referrals_page(ctx: Context) -> Page | Redirect:
    """The referrals, without places."""
    rows = tuple(
        (Link(reference, f"/referrals/{key}"), name, title, received, status)
        for key, reference, name, title, received, status in ctx.db.execute(_REFERRALS)
    )
    return Page(
        "Referrals", (Table(("Referral", "Patient", "Session", "Received", "Status"), rows, "No referrals."),)
    )


@ROUTES.get("/referrals/{id}")
def referral_page(ctx: Context) -> Page | Redirect:
    """One referral: where a booking begins, and where it is marked when it is done."""
    found = ctx.db.execute(_REFERRAL, {"key": ctx.key}).first()
    if found is None:
        raise Refused("not_found")
    reference, who, name, number, held, title, date, purpose, received, status, booked = found
    return Page(
        f"Referral {reference}",
        (
            *flashed(
                ctx, marked="The referral is marked as booked.", declined="The referral is marked as declined."
            ),
            Facts(
                (
                    ("Patient", Link(name, f"/patients/{who}")),
                    ("Number", number),
                    ("Session", Link(title, f"/sessions/{held}")),
                    ("Session date", date),
                    ("Purpose", purpose),
                    ("Received", received),
                    ("Status", status),
                    ("Appointment", booked or "none"),
                )
            ),
            Paragraph((Link("Book appointment", f"/new/clinic?referral={ctx.key}"),)),
            Form(
                "post",
                f"/referrals/{ctx.key}/book",
                (TextField("reference", "Appointment reference", ""),),
                "Mark as booked",
            ),
            Form("post", f"/referrals/{ctx.key}/decline", (), "Mark as declined"),
        ),
    )


@ROUTES.post("/referrals/{id}/book")
def mark_booked(ctx: Context) -> Page | Redirect:
    """Mark a referral as booked with an appointment that exists."""
    if ctx.db.execute(_REFERRAL_EXISTS, {"key": ctx.key}).first() is None:
        raise Refused("not_found")
    reference = ctx.params.get("reference", "").upper()
    if ctx.db.execute(_APPOINTMENT_EXISTS, {"reference": reference}).first() is None:
        raise Refused("no_such_appointment")
    ctx.db.execute(_MARK, {"key": ctx.key, "now": "booked", "named": reference})
    return Redirect(f"/referrals/{ctx.key}?marked=1")


@ROUTES.post("/referrals/{id}/decline")
def mark_declined(ctx: Context) -> Page | Redirect:
    """Mark a referral as declined; it names no appointment then."""
    if ctx.db.execute(_REFERRAL_EXISTS, {"key": ctx.key}).first() is None:
        raise Refused("not_found")
    ctx.db.execute(_MARK, {"key": ctx.key, "now": "declined", "named": None})
    return Redirect(f"/referrals/{ctx.key}?declined=1")


__all__ = ["KEY", "NAVIGATION", "PLACES", "ROUTES", "chosen", "options", "said", "slot"]
