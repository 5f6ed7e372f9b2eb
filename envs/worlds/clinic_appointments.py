"""The clinic's appointments, and what can be done with one: cancel it, or give it another slot."""

from sqlalchemy import bindparam, exists, literal, or_, select, union_all, update

from envos.envs.app import Context, Redirect, Refused, Routes
from envos.envs.page import Facts, Form, Link, Node, Page, Paragraph, Radio, Select, Table
from envos.envs.worlds.clinic_pages import ANY, KEY, chosen, flashed, places
from envos.envs.worlds.clinic_tables import appointment, location, patient, referral, slot

ROUTES = Routes()


_APPOINTMENTS = (
    select(
        appointment.c.id,
        appointment.c.reference,
        patient.c.name,
        appointment.c.date,
        appointment.c.start,
        appointment.c.end,
        location.c.name,
        appointment.c.status,
    )
    .join(patient, patient.c.id == appointment.c.patient_id)
    .join(location, location.c.id == appointment.c.location_id)
    .where(or_(bindparam("date") == "", appointment.c.date == bindparam("date")))
    .where(or_(bindparam("patient") == 0, appointment.c.patient_id == bindparam("patient")))
    .order_by(appointment.c.date, appointment.c.start, appointment.c.id)
)
_CHOICES = union_all(
    select(literal(0), appointment.c.date.label("text")).distinct(), select(patient.c.id, patient.c.name)
).order_by("text")
_APPOINTMENT = (
    select(
        appointment.c.reference,
        patient.c.id,
        patient.c.name,
        location.c.name,
        appointment.c.date,
        appointment.c.start,
        appointment.c.end,
        appointment.c.purpose,
        appointment.c.status,
        referral.c.id,
        referral.c.reference,
        appointment.c.form_key,
        appointment.c.final,
    )
    .join(patient, patient.c.id == appointment.c.patient_id)
    .join(location, location.c.id == appointment.c.location_id)
    .outerjoin(referral, referral.c.id == appointment.c.referral_id)
    .where(appointment.c.id == KEY)
)
_HOLDS = select(appointment.c.status, appointment.c.slot_id, appointment.c.reference, appointment.c.final).where(
    appointment.c.id == KEY
)
_CANCEL = update(appointment).where(appointment.c.id == KEY).values(status="cancelled")
# A slot that two appointments came to hold stays booked until both are gone.
_FREE = (
    update(slot)
    .where(slot.c.id == KEY)
    .where(~exists().where(appointment.c.slot_id == KEY, appointment.c.status == "booked"))
    .values(status="free")
)
_RESCHEDULE = (
    update(appointment)
    .where(appointment.c.id == KEY)
    .values(
        location_id=bindparam("place"),
        slot_id=bindparam("slot"),
        date=bindparam("day"),
        start=bindparam("begins"),
        end=bindparam("ends"),
    )
)
FINAL = (
    "This appointment is final: it can be neither rescheduled nor cancelled. If it is not the one that was chosen, "
    "say so in the report: add chosen, the start that was chosen."
)
"""What the page of a final appointment says."""
TAKE = update(slot).where(slot.c.id == KEY).values(status="booked")
SLOTS = (
    select(location.c.name, slot.c.id, slot.c.date, slot.c.start, slot.c.end, slot.c.status)
    .outerjoin(slot, slot.c.location_id == location.c.id)
    .where(location.c.id == KEY)
    .order_by(slot.c.date, slot.c.start)
)
SLOT = (
    select(slot.c.location_id, location.c.name, slot.c.date, slot.c.start, slot.c.end, slot.c.status)
    .join(location, location.c.id == slot.c.location_id)
    .where(slot.c.id == KEY)
)


@ROUTES.get("/appointments")
def appointments_page(ctx: Context) -> Page | Redirect:
    """The appointments of all patients."""
    day, who = ctx.params.get("date", ""), chosen(ctx, "patient")
    rows = tuple(
        (Link(reference, f"/appointments/{key}"), name, date, f"{start}-{end}", place, status)
        for key, reference, name, date, start, end, place, status in ctx.db.execute(
            _APPOINTMENTS, {"date": day, "patient": who}
        ).all()
    )
    choices = ctx.db.execute(_CHOICES).all()
    dates = (ANY, *((text, text) for key, text in choices if not key))
    people = (ANY, *((str(key), text) for key, text in choices if key))
    fields = (Select("date", "Date", dates, day), Select("patient", "Patient", people, str(who or "")))
    columns = ("Appointment", "Patient", "Date", "Time", "Place", "Status")
    return Page(
        "Appointments",
        (
            Table(columns, rows, "No appointment fits."),
            Form("get", "/appointments", fields, "Filter"),
        ),
    )


@ROUTES.get("/appointments/{id}")
def appointment_page(ctx: Context) -> Page | Redirect:
    """One appointment as it is stored; a form that has just been sent is confirmed with what was chosen in it."""
    found = ctx.db.execute(_APPOINTMENT, {"key": ctx.key}).first()
    if found is None:
        raise Refused("not_found")
    reference, who, name, place, date, start, end, purpose, status, wish, wished, form_key, final = found
    sent = "created" in ctx.params or "again" in ctx.params
    if sent and form_key:
        # The form's key names the slot that was chosen.
        _, place, date, start, end, _ = ctx.db.execute(SLOT, {"key": int(form_key.split("-")[1])}).one()
    body: list[Node] = [
        *flashed(
            ctx,
            created=f"Booked. Reference {reference}.",
            again=f"This form has been submitted already. Reference {reference}.",
            moved=f"Rescheduled. Reference {reference}.",
            cancelled=f"Cancelled. Reference {reference}.",
        ),
        Facts(
            (
                ("Reference", reference),
                ("Patient", Link(name, f"/patients/{who}")),
                ("Place", place),
                ("Date", date),
                ("Time", f"{start}-{end}"),
                ("Purpose", purpose),
                ("Status", status),
                ("Referral", Link(wished, f"/referrals/{wish}") if wish else "none"),
            )
        ),
    ]
    if sent:
        body.append(Paragraph((Link("Open the appointment", f"/appointments/{ctx.key}"),)))
    elif final:
        body.append(Paragraph((FINAL,)))
    if status == "booked" and not final:
        body.append(Paragraph((Link("Reschedule", f"/appointments/{ctx.key}/reschedule"),)))
        body.append(Form("post", f"/appointments/{ctx.key}/cancel", (), "Cancel appointment"))
    return Page("Booking confirmation" if sent else f"Appointment {reference}", tuple(body))


def _live(ctx: Context) -> tuple[int, str]:
    """The slot and the reference of the appointment; refuses one that is not there, not in force or final."""
    found = ctx.db.execute(_HOLDS, {"key": ctx.key}).first()
    if found is None:
        raise Refused("not_found")
    status, held, reference, final = found
    if status != "booked":
        raise Refused("already_cancelled")
    if final:
        raise Refused("final")
    return held, reference


@ROUTES.post("/appointments/{id}/cancel")
def cancel(ctx: Context) -> Page | Redirect:
    """Cancel an appointment and free its slot."""
    held, _ = _live(ctx)
    ctx.db.execute(_CANCEL, {"key": ctx.key})
    ctx.db.execute(_FREE, {"key": held})
    return Redirect(f"/appointments/{ctx.key}?cancelled=1")


@ROUTES.get("/appointments/{id}/reschedule")
def reschedule_page(ctx: Context) -> Page | Redirect:
    """Choose another place, then another slot."""
    _, reference = _live(ctx)
    action = f"/appointments/{ctx.key}/reschedule"
    place = chosen(ctx, "place")
    body: list[Node] = [
        Paragraph(("Appointment:", Link(reference, f"/appointments/{ctx.key}"))),
        Form(
            "get",
            action,
            (Select("place", "Place", places(ctx, "Choose"), str(place or "")),),
            "Show slots",
        ),
    ]
    if place:
        free = tuple(
            (str(key), f"{date} {start}-{end}")
            for _, key, date, start, end, status in ctx.db.execute(SLOTS, {"key": place}).all()
            if status == "free"
        )
        body.append(
            Form("post", action, (Radio("slot", "Free slots", free),), "Reschedule appointment")
            if free
            else Paragraph(("There is no free slot.",))
        )
    return Page(f"Reschedule {reference}", tuple(body))


@ROUTES.post("/appointments/{id}/reschedule")
def reschedule(ctx: Context) -> Page | Redirect:
    """Give an appointment another slot: the old one is free, the new one taken, the reference stays."""
    (held, _), key = _live(ctx), ctx.number_of("slot")
    found = ctx.db.execute(SLOT, {"key": key}).first()
    if found is None:
        raise Refused("bad_request")
    place, _, date, start, end, status = found
    if status != "free":
        raise Refused("slot_taken")
    ctx.db.execute(
        _RESCHEDULE,
        {"key": ctx.key, "place": place, "slot": key, "day": date, "begins": start, "ends": end},
    )
    ctx.db.execute(_FREE, {"key": held})
    ctx.db.execute(TAKE, {"key": key})
    return Redirect(f"/appointments/{ctx.key}?moved=1")
