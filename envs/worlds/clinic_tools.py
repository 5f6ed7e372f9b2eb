"""The clinic's operations as named tools, one for each of its routes."""

from envos.envs.tools import Tool, key, text

_SESSION = key("session_id", "Id of a clinic session, as list_sessions gives it.")
_PATIENT = key("patient_id", "Id of a patient, as list_patients gives it.")
_APPOINTMENT = key("appointment_id", "Id of an appointment, as list_appointments gives it.")
_REFERRAL = key("referral_id", "Id of a referral, as list_referrals gives it.")
_FOR = _REFERRAL._replace(param="referral")
_SLOT = key("slot_id", "Id of a slot, as list_slots gives it.", "slot")

TOOLS = (
    Tool("overview", "GET", "/", "Today's date, and how many records of each kind there are."),
    Tool(
        "list_sessions",
        "GET",
        "/sessions",
        "List the clinic sessions: title, date, time, the place where each is held, and its provider.",
        (
            key("place_id", "Only sessions at this place.", "place", required=False),
            key("provider_id", "Only sessions of this provider.", "provider", required=False),
        ),
    ),
    Tool("get_session", "GET", "/sessions/{id}", "Show one clinic session, and what has changed in it.", (_SESSION,)),
    Tool(
        "get_session_form",
        "GET",
        "/sessions/{id}/edit",
        "Show the form that moves a session, with the places that can be chosen.",
        (_SESSION,),
    ),
    Tool(
        "edit_session",
        "POST",
        "/sessions/{id}/edit",
        "Move a session to another place, or change its parking.",
        (
            _SESSION,
            key("place_id", "The new place.", "place", required=False),
            key("parking_id", "The place of the new parking.", "parking", required=False),
        ),
    ),
    Tool(
        "list_patients",
        "GET",
        "/patients",
        "List the patients, or search them.",
        (text("query", "Part of a name or of a patient number.", "q", required=False),),
    ),
    Tool(
        "get_patient",
        "GET",
        "/patients/{id}",
        "Show one patient with all appointments and referrals.",
        (_PATIENT,),
    ),
    Tool(
        "change_phone",
        "POST",
        "/patients/{id}/phone",
        "Change a patient's phone number.",
        (_PATIENT, text("phone", "The new phone number.")),
    ),
    Tool(
        "list_appointments",
        "GET",
        "/appointments",
        "List the appointments of all patients.",
        (
            text("date", "Only appointments on this date, YYYY-MM-DD.", required=False),
            key("patient_id", "Only appointments of this patient.", "patient", required=False),
        ),
    ),
    Tool("get_appointment", "GET", "/appointments/{id}", "Show one appointment as it is stored.", (_APPOINTMENT,)),
    Tool(
        "cancel_appointment",
        "POST",
        "/appointments/{id}/cancel",
        "Cancel an appointment and free its slot.",
        (_APPOINTMENT,),
    ),
    Tool(
        "get_reschedule_form",
        "GET",
        "/appointments/{id}/reschedule",
        "Show the places to which an appointment can be moved; with a place, its free slots.",
        (_APPOINTMENT, key("place_id", "The place whose free slots are shown.", "place", required=False)),
    ),
    Tool(
        "reschedule_appointment",
        "POST",
        "/appointments/{id}/reschedule",
        "Give an appointment another slot; its reference stays.",
        (_APPOINTMENT, key("slot_id", "Id of a free slot, as get_reschedule_form gives it.", "slot")),
    ),
    Tool("list_referrals", "GET", "/referrals", "List the referrals: patient, session, and status."),
    Tool("get_referral", "GET", "/referrals/{id}", "Show one referral.", (_REFERRAL,)),
    Tool(
        "mark_referral_booked",
        "POST",
        "/referrals/{id}/book",
        "Mark a referral as booked with the reference of an appointment.",
        (_REFERRAL, text("reference", "Reference of the appointment, such as AP-1042.")),
    ),
    Tool("mark_referral_declined", "POST", "/referrals/{id}/decline", "Mark a referral as declined.", (_REFERRAL,)),
    Tool(
        "start_booking",
        "GET",
        "/new/clinic",
        "Begin an appointment for a referral: show it, with the places that can be chosen.",
        (_FOR,),
    ),
    Tool(
        "list_slots",
        "GET",
        "/new/slot",
        "List a place's slots, free and booked, for the appointment of a referral.",
        (_FOR, key("place_id", "Id of a place, as start_booking gives it.", "place")),
    ),
    Tool(
        "review_booking",
        "GET",
        "/new/review",
        "Show the appointment as it would be booked, before it is confirmed; gives the form_key that confirms it.",
        (_FOR, _SLOT),
    ),
    Tool(
        "confirm_booking",
        "POST",
        "/new/review",
        "Book the appointment. The same form_key sent again books nothing more.",
        (_FOR, _SLOT, text("form_key", "The form_key that review_booking gave.", "key")),
    ),
)
