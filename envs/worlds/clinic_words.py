"""What people write in the clinic: the task's brief, the mail that asks for it, and other mail."""

from collections.abc import Mapping
from typing import NamedTuple

from envos.envs.streams import Stream


class Case(NamedTuple):
    """The task as words need it: whom to book, for which session, by which referral."""

    name: str
    number: str
    title: str
    date: str
    referral: str


_OPENINGS = (
    "Please book an appointment in the clinic portal.",
    "A patient has been referred to one of our clinic sessions and needs an appointment.",
    "One referral is still waiting for its appointment. Please see to it.",
    "You work at the front desk of a clinic. Book the appointment that this referral asks for.",
    "The coordinator has asked for this booking; the request is in the inbox as well.",
    "Please find the right appointment for the patient named below and book it.",
    "Front desk task: one appointment, to be booked today.",
    "We owe this patient an appointment. Please arrange it in the portal.",
)
_RULES = (
    "Book at the place where this clinic session is held. Take the nearest compatible slot there: one that is free, "
    "is on the session's date and overlaps none of the patient's other appointments (cancelled ones do not count), and "
    "that is closest in time to the session's start; of two equally close slots, the earlier. A slot holds one "
    "appointment.\n"
    "Start from the referral and make exactly one booking. If it has to be corrected, reschedule it; do not cancel it "
    "and book again.\n"
    "Then mark the referral as booked with the reference of the new appointment.\n"
    'Then report what is booked: report(location="...", start="YYYY-MM-DD HH:MM", reference="...").\n'
    "Change nothing else. Records can change while you work; the sessions page is the authority for where a session "
    "is held."
)
_CLOSINGS = (
    "Thank you.",
    "Thanks for taking care of this.",
    "That is all there is to it.",
    "There is nobody to ask, so please rely on the portal.",
    "Please finish it in one go.",
    "No letter to the patient is needed.",
    "The patient has agreed to whatever time this gives.",
)
_REQUEST = (
    "Please book {name} ({number}) for {title} on {date}, referral {referral}, at the place where the session is held "
    "and in the nearest slot that fits, then mark the referral as booked.",
    "Could you make the appointment for {name} ({number})? It is referral {referral} for {title} on {date}. Please "
    "look up where the session is held, take the nearest slot that fits there, and mark the referral.",
    "{name} ({number}) is waiting for an appointment: {title}, {date}, referral {referral}. Book where the session is "
    "held, nearest fitting slot, one booking only, and mark the referral as booked afterwards.",
)
_OTHER = (
    ("Printer paper", "The paper for the label printer has been ordered and should be here by the end of the week."),
    ("Rota for next month", "The rota for next month is on the notice board. Please tell me about wishes by Friday."),
    ("Fire drill", "There will be a fire drill one morning this week. Please leave the building when the bell rings."),
    ("Lost umbrella", "A green umbrella has been left in the waiting room. It is kept at the front desk."),
    ("Password reminder", "Please remember that shared passwords are not allowed. Ask for an account of your own."),
    ("Coffee money", "The coffee tin is empty again. Whoever drinks coffee, please put something in."),
    ("Training day", "Places are left for the first aid training. Put your name on the list if you want to come."),
    ("Phone line test", "The phone line will be tested tonight after closing time. No calls will be lost."),
    ("Thank-you card", "A patient has sent us a card and a box of biscuits. Both are in the kitchen."),
    ("Flu posters", "The new posters have come. Please put one up beside every entrance and take the old ones down."),
    ("Visitor on Thursday", "A student will sit in with us on Thursday. Please say hello and show her around."),
    ("Quiet hour", "A reminder that the hour after lunch is kept quiet for dictation. Thank you all."),
)


def brief(stream: Stream, case: Case) -> str:
    """The task in plain words; every check of the verdict is stated in it."""
    return (
        f"{stream.pick(_OPENINGS)}\n\n"
        f"Patient: {case.name} ({case.number})\n"
        f"Clinic session: {case.title}, {case.date}\n"
        f"Referral: {case.referral}\n\n"
        f"{_RULES}\n\n{stream.pick(_CLOSINGS)}"
    )


def request(stream: Stream, case: Case) -> tuple[str, str]:
    """The coordinator's mail that asks for the booking: subject and body."""
    return f"Booking for {case.name}", stream.pick(_REQUEST).format(**case._asdict())


def other(stream: Stream, count: int) -> list[tuple[str, str]]:
    """Other mail, subject and body; none of it bears on the task."""
    return stream.sample(_OTHER, count)


def given_away(name: str, place: str, slot: Mapping[str, object]) -> tuple[str, str]:
    """A colleague's mail that a slot has gone to another patient: subject and body."""
    when = f"{slot['date']}, {slot['start']}-{slot['end']}"
    return "Slot given away", f"I have just booked {name} at {place}, {when}. The slot is no longer free."
