"""The clinic's patients and referrals."""

from sqlalchemy import bindparam, func, select, update

from envos.envs.app import Context, Redirect, Refused, Routes
from envos.envs.page import Facts, Form, Heading, Link, Page, Paragraph, Table, TextField
from envos.envs.worlds.clinic_pages import KEY, flashed
from envos.envs.worlds.clinic_tables import appointment, clinic_session, location, patient, referral

ROUTES = Routes()


PHONE_LIMIT = 30
"""Code points of a phone number."""

_PATIENTS = (
    select(patient.c.id, patient.c.name, patient.c.born, patient.c.number)
    .where(func.instr(func.lower(patient.c.name + " " + patient.c.number), bindparam("q")) > 0)
    .order_by(patient.c.name, patient.c.id)
)
_PATIENT = select(patient.c.name, patient.c.born, patient.c.number, patient.c.phone).where(patient.c.id == KEY)
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
    select(referral.c.id, referral.c.reference, referral.c.purpose, clinic_session.c.title, referral.c.status)
    .join(clinic_session, clinic_session.c.id == referral.c.session_id)
    .where(referral.c.patient_id == KEY)
    .order_by(referral.c.reference)
)
_PHONE = update(patient).where(patient.c.id == KEY).values(phone=bindparam("dialled"))
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
        ).all()
    )
    wishes = tuple(
        (Link(reference, f"/referrals/{at}"), title, purpose, status)
        for at, reference, purpose, title, status in ctx.db.execute(_PATIENT_REFERRALS, {"key": key}).all()
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
    ctx.db.execute(_PHONE, {"key": ctx.key, "dialled": number})
    return Redirect(f"/patients/{ctx.key}?changed=1")


@ROUTES.get("/referrals")
def referrals_page(ctx: Context) -> Page | Redirect:
    """The referrals, without places."""
    rows = tuple(
        (Link(reference, f"/referrals/{key}"), name, title, received, status)
        for key, reference, name, title, received, status in ctx.db.execute(_REFERRALS).all()
    )
    return Page("Referrals", (Table(("Referral", "Patient", "Session", "Received", "Status"), rows, "No referrals."),))


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
            *flashed(ctx, marked="The referral is marked as booked.", declined="The referral is marked as declined."),
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
