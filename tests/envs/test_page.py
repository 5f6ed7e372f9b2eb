"""Pages as text: every expected text, list and offset was worked out by hand from the node kinds."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envos.envs.page import (
    ELEMENTS_LIMIT,
    FIELD_LIMIT,
    Banner,
    Element,
    Facts,
    Form,
    Heading,
    Hidden,
    Link,
    Mark,
    Modal,
    Page,
    Paragraph,
    Radio,
    Select,
    Table,
    TextField,
    Value,
    clean,
    listing,
    observe,
    standing,
)

NOTHING: Mapping[tuple[int, str], str] = {}
PLACE = Value("Riverside", "clinic_session", 7, "location_id")
PLACES = Radio("place", "Place", (("1", "Riverside"), ("2", "Harbour")))
KIND = Select("kind", "Kind", (("", "All"), ("r", "Review")), "r")

PAGE = Page(
    "Sessions",
    (
        Banner(("Saved.", Link("Undo", "/undo"))),
        Form("get", "/sessions", (Hidden("sort", "date"), TextField("q", "Title", "baby"), KIND), "Filter"),
        Table(
            ("Title", "Date", "Place"),
            (
                (Link("Group A", "/sessions/7"), "2026-03-12", PLACE),
                (Link("Group B", "/sessions/8"), "", "Harbour"),
            ),
        ),
        Heading("Details"),
        Facts((("Held at", PLACE), ("Room", ""), ("Doctor", Link("Dr. Lee", "/staff/2")))),
        Table(("Old", "New"), (), "No changes."),
        Paragraph(("See", Link("the log", "/log"), "for more.")),
        Form("post", "/sessions/7/move", (PLACES,), "Move"),
    ),
    (Link("Home", "/"), Link("Inbox", "/inbox")),
)

TEXT = """\
# Sessions
[1] Home | [2] Inbox
! Saved. [3] Undo
Title: [4] "baby"
Kind: [5] Review
[6] Filter
Title | Date | Place
[7] Group A | 2026-03-12 | Riverside
[8] Group B |  | Harbour
## Details
Held at: Riverside
Room:{space}
Doctor: [9] Dr. Lee
Old | New
No changes.
See [10] the log for more.
Place:
[11] ( ) Riverside
[12] ( ) Harbour
[13] Move""".format(space=" ")

LISTING = """\
[1] link "Home"
[2] link "Inbox"
[3] link "Undo"
[4] textbox "Title" value="baby"
[5] combobox "Kind" value="Review" options="All"; "Review"
[6] button "Filter"
[7] link "Group A"
[8] link "Group B"
[9] link "Dr. Lee"
[10] link "the log"
[11] radio "Riverside" off
[12] radio "Harbour" off
[13] button "Move\""""


def test_every_kind_of_node_has_one_shape() -> None:
    view = observe(PAGE, NOTHING)
    assert view.text == TEXT
    assert view.listing == LISTING
    assert view.notice == ""


def test_elements_say_how_to_act_on_them() -> None:
    elements = observe(PAGE, NOTHING).elements
    assert elements[0] == Element(1, "link", "Home", "", "/", -1, "", (), -1)
    assert elements[3] == Element(4, "textbox", "Title", "baby", "q", 0, "", (), -1)
    assert elements[4] == Element(5, "combobox", "Kind", "Review", "kind", 0, "", ("All", "Review"), -1)
    assert elements[5] == Element(6, "button", "Filter", "", "", 0, "", (), -1)
    assert elements[6] == Element(7, "link", "Group A", "", "/sessions/7", -1, "", (), 0)
    assert elements[7] == Element(8, "link", "Group B", "", "/sessions/8", -1, "", (), 1)
    assert elements[11] == Element(12, "radio", "Harbour", "off", "place", 1, "2", (), -1)
    assert elements[12] == Element(13, "button", "Move", "", "", 1, "", (), -1)


def test_marks_are_where_the_values_are() -> None:
    # "# Sessions" 10, "[1] Home | [2] Inbox" 20, "! Saved. [3] Undo" 17, 'Title: [4] "baby"' 17, "Kind: [5] Review" 16,
    # "[6] Filter" 10, "Title | Date | Place" 20, seven line ends, and "[7] Group A | 2026-03-12 | " 27.
    first = 10 + 20 + 17 + 17 + 16 + 10 + 20 + 7 + 27
    # "Riverside" 9, "[8] Group B |  | Harbour" 24, "## Details" 10, three line ends, "Held at: " 9.
    second = first + 9 + 24 + 10 + 3 + 9
    assert observe(PAGE, NOTHING).marks == (Mark(PLACE, first), Mark(PLACE, second))
    assert TEXT[first : first + 9] == TEXT[second : second + 9] == "Riverside"


def test_marks_in_banners_and_paragraphs() -> None:
    page = Page("T", (Banner(("Now", PLACE)), Paragraph((Link("Go", "/"), PLACE, "!"))))
    view = observe(page, NOTHING)
    assert view.text == "# T\n! Now Riverside\n[1] Go Riverside !"
    # 4 to the banner and 6 in it; 4 + 16 to the paragraph and 7 in it.
    assert view.marks == (Mark(PLACE, 10), Mark(PLACE, 27))


@pytest.mark.parametrize(
    ("limit", "text", "marks"),
    [
        (17, "# T\nA: Riverside\n", 1),
        (16, "# T\nA: Riverside", 1),
        (15, "# T\nA: Riversid", 0),
        (32, "# T\nA: Riverside\nHere: Riverside", 2),
        (31, "# T\nA: Riverside\nHere: Riversid", 1),
        (0, "", 0),
    ],
)
def test_a_mark_needs_its_whole_value_in_the_clipped_text(limit: int, text: str, marks: int) -> None:
    page = Page("T", (Facts((("A", PLACE), ("Here", PLACE))),))
    view = observe(page, NOTHING, limit)
    assert view.text == text
    assert view.marks == (Mark(PLACE, 7), Mark(PLACE, 23))[:marks]


def test_clipping_counts_code_points_and_keeps_elements() -> None:
    page = Page("\U0001f600" * 6, (Paragraph((Link("Go", "/"),)),))
    view = observe(page, NOTHING, 5)
    assert view.text == "# " + "\U0001f600" * 3
    assert view.listing == '[1] link "Go"'


def test_a_modal_comes_first_and_makes_the_rest_inert() -> None:
    form = Form("post", "/notices/1/acknowledge", (Hidden("back", "/sessions"),), "Acknowledge")
    view = observe(PAGE._replace(modal=Modal("Notice", "The place is now Harbour.", form)), NOTHING)
    assert view.notice == "Notice: The place is now Harbour."
    assert view.listing == '[1] button "Acknowledge"'
    assert view.elements == (Element(1, "button", "Acknowledge", "", "", 0, "", (), -1),)
    assert view.text.startswith(
        "!! Notice\nThe place is now Harbour.\n[1] Acknowledge\n# Sessions\nHome | Inbox\n! Saved. Undo\n"
        'Title: "baby"\nKind: Review\nFilter\nTitle | Date | Place\nGroup A | 2026-03-12 | Riverside\n'
    )
    assert view.text.endswith("Place:\n( ) Riverside\n( ) Harbour\nMove")
    # The values beneath are still there to be read, and the forms still count.
    assert [view.text[mark.offset :][:9] for mark in view.marks] == ["Riverside", "Riverside"]
    assert [item.submit for item in view.forms] == ["Acknowledge", "Filter", "Move"]


def test_what_was_typed_and_chosen_is_shown() -> None:
    typed = {(0, "q"): 'a "b" \\', (0, "kind"): "", (1, "place"): "2"}
    view = observe(PAGE, typed)
    lines = view.text.split("\n")
    assert lines[3:5] == ['Title: [4] "a "b" \\"', "Kind: [5] All"]
    assert lines[17:19] == ["[11] ( ) Riverside", "[12] (x) Harbour"]
    assert '[4] textbox "Title" value="a \\"b\\" \\\\"\n' in view.listing
    assert '[5] combobox "Kind" value="All" options="All"; "Review"\n' in view.listing
    assert '[11] radio "Riverside" off\n[12] radio "Harbour" on\n' in view.listing
    assert view.forms[0].fields == (
        Hidden("sort", "date"),
        TextField("q", "Title", 'a "b" \\'),
        KIND._replace(value=""),
    )
    assert view.forms[1].fields == (PLACES._replace(value="2"),)
    assert observe(PAGE, NOTHING).forms == (PAGE.body[1], PAGE.body[7])


def test_a_list_always_has_a_choice_and_radio_buttons_need_not() -> None:
    assert standing(KIND, None) is KIND
    assert standing(KIND, "r") is KIND
    assert standing(KIND, "x") == KIND._replace(value="")
    assert standing(KIND._replace(options=()), None) == KIND._replace(options=(), value="")
    assert standing(PLACES, "2") == PLACES._replace(value="2")
    assert standing(PLACES, "3") is PLACES
    assert standing(PLACES._replace(value="9"), None) is not PLACES
    assert standing(PLACES._replace(value="9"), None) == PLACES


def test_nothing_but_a_title() -> None:
    view = observe(Page("", ()), NOTHING)
    assert (view.text, view.listing, view.notice) == ("# ", "", "")
    assert (view.elements, view.marks, view.forms) == ((), (), ())


def test_empty_texts_keep_their_places() -> None:
    body = (
        Paragraph(()),
        Paragraph(("", "a", "")),
        Table(("", ""), (("", ""), (Link("", "/x"), PLACE._replace(text="")))),
        Facts((("", ""),)),
        Form("get", "", (TextField("", ""), Radio("r", "", (("", ""),))), ""),
        Heading(""),
    )
    view = observe(Page("T", body), NOTHING)
    assert view.text.split("\n") == [
        "# T",
        "",
        " a ",
        " | ",
        " | ",
        "[1]  | ",
        ": ",
        ': [2] ""',
        ":",
        "[3] (x) ",
        "[4] ",
        "## ",
    ]
    # 4 + 1 + 4 + 4 + 4 characters before the row, and 7 in it.
    assert view.marks == (Mark(PLACE._replace(text=""), 24),)


def test_the_list_is_cut_at_whole_lines() -> None:
    elements = observe(Page("T", (Paragraph((Link("ab", "/"), Link("cd", "/"), Link("ef", "/"))),)), NOTHING).elements
    # Each line has 13 code points and its line end.
    one, two = '[1] link "ab"', '[1] link "ab"\n[2] link "cd"'
    assert listing(elements, 43) == listing(elements, 42) == f'{two}\n[3] link "ef"'
    assert listing(elements, 41) == listing(elements, 28) == two
    assert listing(elements, 27) == listing(elements, 14) == one
    assert listing(elements, 13) == listing(elements, 0) == ""
    assert listing(()) == ""


def test_a_long_list_is_cut_on_the_page_too() -> None:
    rows = tuple((Link("x" * 90, f"/{number}"), "y") for number in range(100))
    view = observe(Page("T", (Table(("A", "B"), rows),)), NOTHING)
    lines = view.listing.split("\n")
    # '[1] link ""' is 11 code points, from the tenth on 12: 9 * 102 + 49 * 103 = 5965, and no room for 103 more.
    assert len(lines) == 58
    assert len(view.listing) == 5964 < ELEMENTS_LIMIT
    assert lines[-1] == '[58] link "' + "x" * 90 + '"'
    assert len(view.elements) == 100
    assert view.listing == listing(view.elements)


def test_labels_are_quoted_in_the_list_and_plain_in_the_text() -> None:
    view = observe(Page("T", (Paragraph((Link('a "b" c\\', "/"),)),)), NOTHING)
    assert view.text == '# T\n[1] a "b" c\\'
    assert view.listing == '[1] link "a \\"b\\" c\\\\"'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("  a \t b\r\n", "a b"),
        ("a\x00b\x1f\x7fc", "a b c"),
        ("a\u00a0b\u2028c\u3000d", "a b c d"),
        ("\u202eabc\u200f", "abc"),
        ("\ud800x", "x"),
        ("שלום e\u0301 \U0001f600", "שלום e\u0301 \U0001f600"),
        ("<b>&amp;</b>", "<b>&amp;</b>"),
        ("x" * 300, "x" * FIELD_LIMIT),
        ("x" * (FIELD_LIMIT - 1) + " yz", "x" * (FIELD_LIMIT - 1)),
    ],
)
def test_clean(text: str, expected: str) -> None:
    assert clean(text) == expected


@given(st.text(st.characters(exclude_categories=()), max_size=60), st.integers(0, 40))
def test_clean_text_is_printable_single_spaced_short_and_stays_so(text: str, limit: int) -> None:
    done = clean(text, limit)
    assert done.isprintable()
    assert done == " ".join(done.split())
    assert len(done) <= limit
    assert clean(done, limit) == done
    # Up to the cut, nothing printable is lost or moved.
    printable = "".join(char for char in text[: 4 * limit] if char.isprintable()).replace(" ", "")
    assert printable.startswith(done.replace(" ", ""))
