"""The names that fill every world: people, places, sessions, firms, policies, causes of claims.

Splits share no name: an agent that learned the training names by heart meets none of them in a test. Within a kind, no
name is part of another one in any split, so that comparing or searching text never confuses two. Some hold an
apostrophe or a hyphen, so that escaping is exercised in every world. All are invented for EnvOS.

| kind | what | splits |
|---|---|---|
| given, family | a person's names | disjoint |
| place | a building where sessions are held | disjoint, and no distinguishing word in common |
| street | a street | the same |
| session | a title of a clinic session | the same |
| purpose | why someone comes | disjoint |
| company | a firm | disjoint, and no distinguishing word in common |
| product | an insurance policy as it is sold | the same |
| cause | why a claim is made | disjoint |
| role, department | what people do, and where | shared |

A name is at most 32 ASCII letters, spaces, hyphens and apostrophes. Adding, dropping or moving one changes instances.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from envos.envs.streams import SPLITS, Stream, check_split
from envos.errors import UnknownName, UsageError

__all__ = ["POOLS", "SHARED", "like_name", "pool"]

SHARED = ("role", "department")
"""The kinds whose names are the same in every split."""


def _pools(train: str, validation: str, test: str) -> Mapping[str, tuple[str, ...]]:
    """Split -> names, of three texts with one comma between two names."""
    texts = (train, validation, test)
    return MappingProxyType(
        {
            split: tuple(" ".join(name.split()) for name in text.split(","))
            for split, text in zip(SPLITS, texts, strict=True)
        }
    )


def _shared(text: str) -> Mapping[str, tuple[str, ...]]:
    return _pools(text, text, text)


# Every initial of a given or family name occurs twice or more in its split: see like_name.
_GIVEN = _pools(
    train="""
        Adaeze, Ashwin, Anne-Sophie, Beatriz, Bronwen, Camille, Chidi, Daniyar, D'Andre, Dolores, Eilidh, Esteban,
        Farid, Fatima, Giovanni, Gwendolyn, Hannelore, Hiroshi, Ibrahim, Ingrid, Jamila, Jean-Marc, Joaquin, Kavita,
        Kwame, Leilani, Lorenzo, Marisol, Mehmet, Nadia, Nkechi, Octavia, Oluwaseun, Pavel, Priyanka, Rasheed,
        Rosalind, Siobhan, Stefan, Takeshi, Tamsin, Valentina, Viktor, Wanjiru, Winston, Yasmin, Yusuf, Zainab, Zoltan
    """,
    validation="""
        Aisling, Arjun, Babak, Birgit, Carmen, Cedric, Delphine, Dmitri, Elsbeth, Emeka, Fernando, Freya, Hamza, Helga,
        Imelda, Isma'il, Khadija, Konstantin, Mateusz, Mei-Ling, Rhiannon, Rodrigo, Sanjay, Svetlana, Tatiana, Tobias
    """,
    test="""
        Abigail, Alejandro, Bilqis, Bogdan, Catriona, Cheng-Wei, Dagny, Desmond, Florian, Folasade, Georgios, Greta,
        Haruka, Henrietta, Jacinta, Jun-ho, Lakshmi, Ludovic, Maeve, Miroslav, Niamh, Nomvula, Sa'id, Sulaiman,
        Tendai, Thandiwe
    """,
)
_FAMILY = _pools(
    train="""
        Abdullahi, Abernathy, Balakrishnan, Bancroft, Carrington, Castellanos, Dubois-Martel, Dumitrescu, Eriksen,
        Ersoy, Ferrante, Ferreira, Grabowski, Gutierrez, Haddad-Lind, Hargreaves, Ichikawa, Ikeda, Jablonski,
        Jayawardena, Kobayashi, Kowalczyk, Lightfoot, Lindqvist, Mahlangu, Marchetti, Nakamura, Nasser, O'Brien,
        O'Connell, Pemberton, Petrov, Quintero, Quispe, Rahman, Ramirez, Sokolov, Somerville, Talbot, Tanaka,
        Vanterpool, Vasquez, Whitcombe, Wijaya, Yamamoto, Yilmaz, Zimmerman, Zubair
    """,
    validation="""
        Adeyemi, Adlington, Bhattacharya, Blackwood, Chevalier, Chukwu, D'Angelo, D'Souza, Goldsworthy, Gonsalves,
        Hakimi, Halvorsen, Kaplan-Reyes, Karimi, Lockhart, Lombardi, McAllister, McGregor, Norrington, Novak,
        Pereira, Petersson, Saito, Sandoval, Teixeira, Thistlewood
    """,
    test="""
        Akhtar, Akinyemi, Beaumont, Bergstrom, Calloway, Cavendish, Delacroix, Desrosiers, Fairweather, Faulkner,
        Griffiths, Grimaldi, Hoffmann, Holloway, Kamara, Kaur-Bennett, Mazur, Mbatha, N'Diaye, N'Dour, O'Leary,
        O'Sullivan, Rodriguez-Vega, Rosenthal, Shapiro, Sheridan, Tremblay, Trevelyan, Vikander, Villanueva
    """,
)
_PLACE = _pools(
    train="""
        Harbour House, Linden Street Health Centre, Quarry Lane Surgery, Saint Brigid's Wing, Foundry Medical Centre,
        Cedar Court, Millbrook Community Hub, Northgate Practice, Orchard Hall, Peregrine House, Wharfside Clinic,
        Beacon Hill Health Centre, Juniper Lodge, Tannery Square Rooms, Fennel Park Surgery, King's Meadow Pavilion,
        Copperfield Road Clinic, Silverdale Annexe, Lantern Court Practice, Riverbend Medical Centre, Thornbury Gate,
        Magnolia Lane Clinic, Customs House, Windmill Green Health Centre, Abbot's Quay Surgery, Heron Building,
        Saddler's Court, Larkspur Community Hub, Stow-on-Marsh Surgery
    """,
    validation="""
        Amber Street Surgery, Bellwether House, Chestnut Hill Clinic, Dovecote Medical Centre, Elmhurst Practice,
        Falconer's Hall, Granary Square Clinic, Hollybank Lodge, Ironside Road Surgery, Jasmine Court Rooms,
        Kestrel Park Health Centre, Lighthouse Quay Clinic, Mariner's Gate, Nettlefold Annexe
    """,
    test="""
        Alder Street Practice, Bramble House, Cobbler's Lane Clinic, Driftwood Pavilion, Evergreen Medical Centre,
        Fuller's Quay Surgery, Glassworks Court, Hawthorn Hill Surgery, Ivybridge Health Centre, Jubilee Square Clinic,
        Kiln Park Practice, Lock-Keeper's Lodge, Monarch Road Surgery, Nightingale Hall
    """,
)
_STREET = _pools(
    train="""
        Almond Way, Bakehouse Row, Canal Terrace, Dyer's Lane, Eastfield Avenue, Ferry Road, Gosling Close,
        Hatter's Yard, Inkwell Street, Jackdaw Drive, Kipling Crescent, Lavender Rise, Marlowe Gardens, Nutmeg Street
    """,
    validation="""
        Osier Way, Parsonage Road, Quill Street, Rosemary Close, Sparrow Drive, Turnpike Lane, Umber Terrace,
        Verbena Avenue, Weaver's Row
    """,
    test="""
        Acorn Rise, Bluebell Crescent, Chandler's Yard, Damson Drive, Eddystone Avenue, Foxglove Close, Gannet Lane,
        Yarrow Street, Zephyr Road
    """,
)
_SESSION = _pools(
    train="""
        Well Baby Clinic, Travel Vaccination Clinic, Asthma Review Clinic, Diabetes Foot Check, Blood Pressure Check,
        Cervical Screening Session, Minor Injuries Clinic, Smoking Cessation Group, Anticoagulation Review,
        Hearing Assessment, Wound Dressing Clinic, Memory Assessment, Eczema Advice Session, Antenatal Class,
        Speech Therapy Group, Knee Physiotherapy Class, Allergy Testing Clinic, Thyroid Review Clinic,
        Migraine Advice Clinic, Drop-In Contraception Clinic, Spirometry Session, Leg Ulcer Clinic, Mole Mapping Clinic,
        Ear Irrigation Session, Women's Wellness Clinic, Carer's Support Group
    """,
    validation="""
        Flu Jab Session, Cholesterol Check, Gout Review Clinic, Heart Failure Clinic, Bone Density Assessment,
        Lymphoedema Clinic, Nutrition Advice Group, Epilepsy Review Clinic, Sleep Apnoea Assessment,
        Hand Splint Session, Newborn Feeding Support, Retinal Photography Session, Men's Wellbeing Clinic,
        Walk-In Sexual Health Clinic
    """,
    test="""
        Shingles Booster Session, Glaucoma Review Clinic, Coeliac Advice Group, Menopause Clinic, Pelvic Floor Class,
        Iron Infusion Session, Arthritis Review Clinic, Stammer Support Group, Tinnitus Assessment,
        Varicose Vein Clinic, Toddler Growth Check, Long-Term Pain Clinic, Parkinson's Review Clinic,
        Kidney Function Check
    """,
)
_PURPOSE = _pools(
    train="""
        Annual medication review, Follow-up of blood results, Persistent cough, Ankle sprain, Repeat prescription query,
        Sore throat, Lower back stiffness, Skin rash, School form signature, Removal of stitches, Seasonal hay fever,
        Headache diary discussion, Child's ear discomfort, Post-operative check
    """,
    validation="""
        Knee swelling, Sick note extension, Fit-to-fly letter, Insect bite, Dizziness on standing, Trouble sleeping,
        Wrist strain, Baby's first check, Pre-employment medical
    """,
    test="""
        Heartburn after meals, Eye irritation, Shoulder tension, Vaccine record request, New-patient registration,
        Nosebleeds, Specialist's letter explained, Tick removal, Fear of flying
    """,
)
_COMPANY = _pools(
    train="""
        Ashgrove Mutual, Brightwater Assurance, Calder and Finch, Dunmore Logistics, Everline Foods, Fairhaven Textiles,
        Goldcrest Partners, Hollins-Baptiste Ltd, Ironwood Supplies, Juno's Bakery, Kingfisher Utilities,
        Larchmont Press, Meridian Glass, Northwind Freight
    """,
    validation="""
        Oakhurst Mutual, Plover Ceramics, Quayside Catering, Redfern Assurance, Stonebridge Tools, Tidewater Marine,
        Umbra Lighting, Verity-Okonjo Ltd, Wren's Nursery
    """,
    test="""
        Arrowleaf Mutual, Bellfounder Metals, Curlew Shipping, Dragonfly Software, Emberley Energy, Fitch-Moreau Ltd,
        Gabler's Hardware, Yellowhammer Paper, Zenobia Assurance
    """,
)
_PRODUCT = _pools(
    train="""
        Homeguard Plus, Hearthcover Basic, Roofline Standard, Tenant Shield, Motorwise Comprehensive, Voyager Annual,
        Petcare Gold, Landlord's Choice, Boatman Select, Gadget Protect, Cyclist Cover, Smallholder Farm Policy,
        Shopfront Combined, Workshop Liability, Caravan Complete, Student Belongings, Heirloom Valuables,
        First-Time Buyer Cover
    """,
    validation="""
        Nestkeeper Premier, Wheelhouse Third-Party, Wayfarer Single Trip, Pawprint Essential, Innkeeper's Package,
        Fruitgrower Crop Cover, Keystone Buildings, Musician's Instrument Cover, Allotment Saver, Canalboat Extra,
        Bookseller Stock Policy
    """,
    test="""
        Doorstep Deluxe, Roadfarer Complete, Globetrotter Family, Whisker Lifetime, Cottage-Let Cover,
        Surgeon's Indemnity, Greenhouse Policy, Threshold Contents, Scooter Flex, Vintner Cellar Policy,
        Beekeeper Standard
    """,
)
_CAUSE = _pools(
    train="""
        Burst pipe in the kitchen, Storm damage to roof tiles, Theft from a locked shed, Fallen tree on the fence,
        Washing machine leak, Broken patio window, Cracked shower tray, Frozen condensate line, Chip-pan fire,
        Lightning strike on the aerial, Dropped laptop, Stolen bicycle, Rear-end collision, Hail dents on the bonnet,
        Flooded cellar, Blocked drain, Spilled paint on carpet, Freezer failure, Lost luggage, Vandalised garden wall,
        Subsidence at the porch, Neighbour's bath overflow, Candle scorch on a table
    """,
    validation="""
        Toppled chimney pot, Cancelled ferry crossing, Scratched hob, Snapped garage spring, Cat's emergency surgery,
        Smoke from a tumble dryer, Windscreen stone chip, Break-in at the office, Collapsed ceiling plaster,
        Missing wedding ring, Damp from a failed seal
    """,
    test="""
        Leaking skylight, Escaped cattle on the road, Overheated charger, Shattered greenhouse panes,
        Delayed connecting flight, Dog's swallowed toy, Hit-and-run in a car park, Uprooted gatepost, Soaked piano lid,
        Moth holes in a rug, Ruptured oil tank
    """,
)
_ROLE = _shared("""
    Practice nurse, Receptionist, Physiotherapist, Claims handler, Loss adjuster, Underwriter, Team leader,
    Office manager, Finance analyst, Night-shift coordinator, General practitioner, Health visitor, Pharmacist,
    Procurement officer, Service desk agent, Site engineer, Chair's secretary
""")
_DEPARTMENT = _shared("""
    Accounts payable, Customer care, Claims operations, Facilities, Human resources, Legal affairs, Logistics, Nursing,
    Outpatients, Patient records, Procurement, Quality assurance, Research, Safety and compliance, Information systems,
    Walk-in services, Children's services
""")

POOLS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "given": _GIVEN,
        "family": _FAMILY,
        "place": _PLACE,
        "street": _STREET,
        "session": _SESSION,
        "purpose": _PURPOSE,
        "role": _ROLE,
        "company": _COMPANY,
        "product": _PRODUCT,
        "cause": _CAUSE,
        "department": _DEPARTMENT,
    }
)
"""Kind -> split -> names."""


def pool(kind: str, split: str) -> tuple[str, ...]:
    """The names of a kind in a split. Raises UnknownName for either."""
    if kind not in POOLS:
        raise UnknownName("kind of name", kind, POOLS)
    return POOLS[kind][check_split(split)]


def like_name(stream: Stream, given: str, family: str, split: str) -> tuple[str, str]:
    """A person whom one could take for this one: (given, family), one of the two kept, the other as near as can be.

    The new name comes from the split's pool and begins as the old one does (with two letters if there is such a
    name, else with one), so that a pair of people is told apart only by reading to the end. Always two draws.
    Raises UnknownName for the split, UsageError for an empty name.

    >>> like_name(Stream(7, "train", "example"), "Yusuf", "O'Brien", "train")
    ('Yusuf', "O'Connell")
    """
    check_split(split)
    if not given or not family:
        raise UsageError(f"a person has a given and a family name; got {given!r}, {family!r}")
    if stream.chance(0.5):
        return stream.pick(_near("given", given, split)), family
    return given, stream.pick(_near("family", family, split))


@lru_cache(maxsize=1024)
def _near(kind: str, name: str, split: str) -> tuple[str, ...]:
    """The names other than this one that share its first two letters; if none, its first; if none, all others."""
    folded = name.casefold()
    others = tuple(other for other in pool(kind, split) if other.casefold() != folded)
    for length in (2, 1):
        near = tuple(other for other in others if other[:length].casefold() == folded[:length])
        if near:
            return near
    return others
