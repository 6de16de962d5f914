"""Greetings, titles, commands, and cities asked about pass under `personal`; persons do not."""

from __future__ import annotations

import pytest

from sottovoce.core.privacy.hiding import Hiding, Phrases
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.surrogates.surrogate import Owners

KEY = Key(b"passing".ljust(32))


def _released(privatizer: Privatizer, text: str) -> str:
    return privatizer.release(text, Setting(policy="personal"), key=KEY).text


@pytest.mark.parametrize(
    "text",
    [
        "Guten Morgen! Was ist der Unterschied zwischen Docker und Podman?",
        "Guten Abend zusammen, ich habe eine Frage zu Excel.",
        "Buenos días, necesito ayuda con Kubernetes.",
        "Pls fix this Python code.",
        "Thx, that worked. Btw is there a faster way?",
        "My mother has Alzheimer's. What should I ask the doctor?",
        "Does Zoom work with Slack and Outlook?",
        "Der Vermieter schickt die Rechnung mit dem Paket.",
        "meine wohnung ist zu klein",
        'Fix: "he go home"',
        "Who is the CEO of Microsoft?",
        "I joined as Senior Data Engineer. She is Head of Sales, formerly Junior Developer.",
        "Hired as Assistant Store Manager, Primary School Teacher or Forklift Driver.",
        "docker run -p 5432:5432 -p 8080:80 redis",
        "What goes into a Bloody Mary, Chicken Marsala and Pad Kra Pao?",
        "Are Sweet William, Peace Lily and Boston Fern toxic to a Bernese Mountain Dog?",
        "Explain islets of Langerhans, Lou Gehrig's disease and the Weimar Republic.",
        "How old are the Eiffel Tower and the Taj Mahal? Is the Nile longer than the Danube?",
        "Is Burger King open on Boxing Day? Explain Occam's razor and the Krebs cycle.",
        "Summarise Jane Eyre, Romeo and Juliet, Don Quixote and Mad Max.",
        "Is Quercus robur hardy? What are Enceladus and Betelgeuse?",
        "Is Leopard lizard food sold there? Compare Iceberg lettuce with Boston ivy.",
        "Explain the Watergate scandal and the Bessemer process.",
        "Is Boston ivy poisonous to a friend's dog?",
        "Who wrote Angela's Ashes and The Lord of the Rings? Is the Zanussi dishwasher loud?",
        "Should I learn Julia, Ruby or Haskell?",
        "Compare Go, Julia and Rust for numerical work.",
        "Is Julia faster than NumPy? Does Julia have macros?",
        "Why is Jenkins so slow? Our Jenkins pipeline fails.",
        "Explain closures in Haskell.",
        "How do I set up Celery with Flask? Mocha, Jasmine or Jest?",
        "Luigi vs Airflow vs Prefect vs Dagster",
        "The treaty was signed on September 3, 1783; the war began on 19 April 1775.",
        "Is the Opel Astra or the Citroen Berlingo more reliable than an Audi A4?",
        "Should I buy the Garmin Venu 3 or the Nokia G22?",
        "What do you feed a Labrador? My Yorkie barks.",
        "How do I cancel my Netflix account? Is Zyrtec safe?",
        "My Border Collie keeps barking at night.",
        "Is the Apple Watch SE waterproof? Compare it with the Oura Ring.",
        "Explain the Berlin Wall to a child.",
        "Is Aldi cheaper than Lidl? Does the Casio F-91W survive swimming?",
        "how do i cook jasmine rice without a rice cooker",
        "What's new in Wi-Fi 7? Do Birkenstocks run big?",
        "Is Mexico City safe? Flights to New York City. Kansas City bbq rub.",
        "i used a Dutch oven. I am making Greek salad. i have a German shepherd.",
        "can my HOA ban solar panels? MLA or APA? =SUMIF(A1:A5)",
        "Doctor: What's wrong? Patient: My head hurts. User: Tell me a joke.",
        "Send Bearer <token> and replace <password> with your own, then restart.",
        "things to do in Austin with two kids",
        "Who owns Bosch?",
        "Tone: cozy. Audience: parents. Style: plain.",
        "Human: Hello!\nAI: Hi, how can I help?\nAssistant: Hello!",
        '{"name": "Laptop", "price": 3, "qty": 2}',
        "Author: unknown",
        "Is abortion legal in Texas?",
        "What happened on July 4, 1776?",
        "Why is C:/Users/ubuntu/notes or C:\\Users\\vagrant\\notes empty?",
        "How is San Francisco sourdough different from the normal kind?",
    ],
)
def test_what_names_nobody_leaves_as_typed(privatizer: Privatizer, text: str) -> None:
    assert _released(privatizer, text) == text


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("Guten Morgen Frau Krause, danke für die Post.", "Krause"),
        ("Guten Morgen, Lena!", "Lena"),
        ("Thx Dana, see you Friday", "Dana"),
        ("Grant Wilson is my landlord.", "Grant"),
        ("Grant said that he paid.", "Grant"),
        ("Grant the landlord asked me.", "Grant"),
        ("Bill 07700 900123", "Bill"),
        ("Frank replied to my landlord yesterday.", "Frank"),
        ("My boss is Hamlet Petrosyan.", "Hamlet"),
        ("Name: Bill", "Bill"),
        ("I spoke with Minnie Driver.", "Driver"),
        ("The secretary of Field called.", "Field"),
        ("Tom Porter is ill. The Head Porter left.", "Porter"),
        ("My boss is Dana Short. Is Dana short?", "short"),
        ("Dear Porter,\nthe rent is due.", "Porter"),
        ("We dined with the Porter family.", "Porter"),
        ("Thanks Cook, see you.", "Cook"),
        ("My aunt Jane Eyrefield called.", "Jane"),
        ("Mary Bloody and William Sweet came.", "William"),
        ("Jack Russell is my boss.", "Russell"),
        ("Jane Eyre is my tenant.", "Eyre"),
        ("My boss Charles Schwab wants it by noon.", "Schwab"),
        ("Mary Poppins next door is our dentist.", "Poppins"),
        ("We live behind Wall Street.", "Wall"),
        ("My daughter goes to Little Women Nursery.", "Women"),
        ("I work at Great Expectations Tutoring.", "Expectations"),
        ("jane eyre is my tenant", "eyre"),
        ("We ate at the Red Snapper.", "Snapper"),
        ("She lives by the Black Forest.", "Forest"),
        ("My boss is Tom Collins.", "Collins"),
        ("I live in Monte Carlo.", "Monte"),
        ("John Deere signed the lease.", "Deere"),
        ("Contact Black Forest for a quote.", "Forest"),
        ("Thanks, Max Factor", "Factor"),
        ("Invoice to: Rear Window", "Rear"),
        ("Ask Mia Toretto-Black Forest about it.", "Forest"),
        ("calvin klein owes me 50 quid", "klein"),
        ("Write a reference letter for Jeffrey Pine.", "Pine"),
        ("garry oak has hiv and needs advice", "oak"),
        ("Iris Verna and Viola Blanda fell out over money", "Verna"),
        ("Write a wedding toast for Rosie and Jim.", "Rosie"),
        ("The Smiths are coming for dinner.", "Smiths"),
        ("Jordan River has been late twice. Write a warning.", "Jordan"),
        ("Invoice for Alexander & Baldwin, roof repairs", "Baldwin"),
        ("Write a complaint to Walker & Dunlop about the roof.", "Dunlop"),
        ("My boss eats at Tangerine Dream.", "Tangerine"),
        ("Book a table at the Black Swan for Friday.", "Swan"),
        ("The Black Swan owes us for 20 kegs.", "Swan"),
        ("Write an invoice to Golden Temple, Leeds, for rice.", "Leeds"),
        ("Deliver to Haddon Hall today.", "Haddon"),
        ("letter to the tenants of Bleak House", "Bleak"),
        ("Kerr, Jane Eyre, Smith", "Eyre"),
        ("Is Harry Potter Plumbing any good?", "Potter"),
        ("Mr Potter is ill. Is Harry Potter late?", "Harry"),
        ("What did Robin Hood Lindqvist say?", "Hood"),
        ("Draft a redundancy notice about Jane Eyre.", "Eyre"),
        ("She works for Hormel Foods.", "Hormel"),
        ("Mr Zanussi is ill. Zanussi called at noon.", "Zanussi"),
        ("Umm Ali said that Umm Ali is ill. Can Umm Ali take ibuprofen?", "Ali"),
        ("Peter, Paul and Mary are tired. Peter has a fever.", "Paul"),
        ("Baker's eczema is getting worse. Which cream should he use?", "Baker"),
        ("Crane's bill is still unpaid.", "Crane"),
        ("Jane's addiction is getting worse.", "Jane"),
        ("we scattered Angela's ashes on the beach", "Angela"),
        ("Zanussi hit me at work. What do I do?", "Zanussi"),
        ("The Hardy boys broke my window again.", "Hardy"),
        ("Vita Pharmacy gave me the wrong pills.", "Vita"),
        ("My husband works for Kura Sushi.", "Kura"),
        ("customer,price\nJane Eyre,3\nRose Long,4", "Eyre"),
        ("The wifi has the SSID KerrFamily5G.", "KerrFamily5G"),
        ("Julia, Ruby and Jade are testing the code.", "Julia"),
        ("Ask Jenkins to fix the pipeline. Is Jenkins better than Docker?", "Jenkins"),
        ("Send the Python script to Julia. Julia's code in Julia crashes.", "Julia"),
        ("Is Jasmine better than Docker? My sister Jasmine writes code.", "Jasmine"),
        ("The server is down, tell Pascal. Pascal pushed code in Rust.", "Pascal"),
        ("Ruby and Phoenix love Lego.", "Phoenix"),
        ("Sit with Julia and compare the function with Rust.", "Julia"),
        ("Julia Boyle compared Python with Rust in Julia.", "Julia"),
        ("Is Ada as fast as Rust? Ada and Rose Kerr are ill.", "Kerr"),
        ("Born on 3 May 1888, died on 5 June 1951.", "1888"),
        ("Born on 3 May 1888, christened on 6 June.", "1888"),
        ("file 12-11-1645", "1645"),
        ("Mr XI called.", "XI"),
        ("MY DOCTOR IS VI HUNTER", "VI"),
        ("Mr XI Ling called.", "XI"),
        ("At Siemens Kowalski said no.", "Kowalski"),
        ("Ask Nokia Priya about it.", "Priya"),
        ("The Lidl Todmorden is closed.", "Todmorden"),
        ("I met a Boyle at work. A Rose called.", "Boyle"),
        ("I drive a Perth taxi.", "Perth"),
        ("My son Mars is 4.", "Mars"),
        ("KK and SS came for dinner.", "KK"),
        ('{"name": "Rose", "price": 3, "qty": 2}', "Rose"),
        ("Rose: I agree. Tone: cozy.", "Rose"),
        ("Author: Rose", "Rose"),
        ("I work for Tollgate Robotics GmbH. Tollgate is great. I like Tollgate.", "Tollgate"),
        ("My wifi key is purple-otter-42-lamp.", "purple"),
        ("I'm on probation in Ohio. Can I travel to Utah?", "Ohio"),
        ("Write an eviction letter to Everton", "Everton"),
        ("Vodafone sacked me in May, what can I do this weekend?", "Vodafone"),
        ("Should Bosch be fired?", "Bosch"),
        ("I hate Siemens, he stole my bike.", "Siemens"),
        ("DOB: 3 May 1894", "1894"),
        ("Grandad Kerr died on 9 June 1899.", "1899"),
        ("Blood taken 3 Jan 1615", "1615"),
        ("Restart Jasmine on sertraline 50 mg", "Jasmine"),
        ("Using Iris as a witness in the custody hearing", "Iris"),
        ("Julia scripts: sertraline 50mg, zopiclone", "Julia"),
        ("The doctor ran tests and the lump in Iris is malignant.", "Iris"),
        ("Our toddler class has Luna, Hugo and Maya", "Luna"),
        ("Script for Cody, Devin: adderall 20mg", "Cody"),
        ("Interview feedback: Iris, Python 8/10; Jade, Java 3/10", "Iris"),
        ("Rank the candidates: Julia, Python; Ruby, Java; Iris, SQL", "Julia"),
        ("Is Claude better than Java? He was fired over drugs.", "Claude"),
        ("Compare Jade and Docker for the team lead role", "Jade"),
        ("Sultan Ahmadi was fired.", "Sultan"),
        ("My Polish coworker is nice.", "Polish"),
        ("My boss is Dutch and strict.", "Dutch"),
        ("She is a Polish nurse.", "Polish"),
        ("Patient: Hope has pain. Client: Can Yilmaz.", "Hope"),
        ("Client: Will Long came.", "Will"),
        ("<password>hunter2</password>", "hunter2"),
        ("Bosch said that he is ill. Aldi thinks so.", "Bosch"),
        ("It is the work of our 3 founders: Maslow, Anthony and Perry.", "Maslow"),
    ],
)
def test_a_person_beside_them_is_drawn(privatizer: Privatizer, text: str, private: str) -> None:
    assert private not in _released(privatizer, text)


def test_a_numeral_after_a_name_passes_and_is_no_surname(privatizer: Privatizer) -> None:
    left = _released(privatizer, "Was Louis XIV older than Thurston Kerr III? Part II is due.")
    assert "Louis" not in left
    assert "Kerr" not in left
    assert " XIV older" in left
    assert left.endswith(" III? Part II is due.")


def test_a_technology_is_drawn_once_a_person_of_that_name_was(privatizer: Privatizer) -> None:
    owners: Owners = {}
    asked = "Is Julia faster than NumPy?"
    assert released(privatizer, asked, owners) == asked
    released(privatizer, "My boss is Julia Boyle.", owners)
    assert "Julia" not in released(privatizer, asked, owners)


def test_a_phrase_of_a_long_text_is_drawn_where_another_part_tells_of_a_home(
    privatizer: Privatizer,
) -> None:
    long = "Is Jane Eyre a good book? " + "The rain is wet. " * 900
    assert "Eyre" not in _released(privatizer, f"{long}\nMy tenant called.")
    assert "Eyre" in _released(privatizer, "Is Jane Eyre a good book? The rain is wet.")


ASKED = [
    "How far is Perth from Sydney?",
    "What is the capital of Australia, Canberra or Sydney?",
    "Plan a three day trip to Rome.",
    "What is the weather like in New York in April?",
    "how far is london from paris",
    "Can you compare Berlin and Munich for tech startups?",
    "What time is it in Tokyo now?",
    "Which of the two is older, Paris or London?",
    "We want to visit Barcelona in May. What should we see?",
    "What is the population of Lagos?",
    "How many bridges does Budapest have?",
    "List five museums in Madrid.",
    "Why is Jakarta sinking?",
    "Explain why the Berlin airlift began in Berlin.",
    "What does a metro ticket cost in Moscow?",
    "When were the Olympic Games held in Athens?",
    "Is the tap water in Mumbai safe to drink?",
    "Write a haiku about rain in Seattle.",
    "How did the plague reach London in 1665?",
    "Give me a packing list for a weekend in Lisbon.",
    "Which airlines have direct flights from Frankfurt to Seoul?",
    "What is the best month for a holiday in Dubai?",
    "Describe the skyline of Shanghai.",
    "Translate into German: The train to Vienna leaves at nine.",
    "How high is the water in Amsterdam?",
    "What are typical rents in Toronto?",
    "Tell me about the history of Istanbul.",
    "Which river flows through Baghdad?",
    "I would like to travel to Nairobi. What vaccines are needed?",
    "Is Chicago windier than Boston?",
    "Did Galatasaray win last night?",
    "Is Harvard hard to get into?",
    "Is Imperial College hard to get into?",
    "How many days do I need for Tuscany?",
    "Explain the weather of Cornwall to a child.",
]
TOLD = [
    ("I moved to Perth last year.", "Perth"),
    ("I live in Perth. What is the weather?", "Perth"),
    ("Perth", "Perth"),
    ("in Perth, Australia", "Perth"),
    ("Somewhere around Perth", "Perth"),
    ("My sister is in Perth. What is the weather there?", "Perth"),
    ("She grew up in Berlin. Which schools are good?", "Berlin"),
    ("City: Perth. What is the postcode?", "Perth"),
    ("Can you recommend a dentist near my flat in London?", "London"),
    ("How do we register our company in Toronto?", "Toronto"),
    ("What should I wear to my brother's wedding in Rome?", "Rome"),
    ("Which bus goes from my office in Madrid to the airport?", "Madrid"),
    ("The client is based in Chicago. How do I write to them?", "Chicago"),
    ("Is my landlord in Seattle allowed to do this?", "Seattle"),
    ("He works in Munich. What does he earn?", "Munich"),
    ("Plan a trip to Rome for Tom Okafor.", "Rome"),
    ("Plan a trip from Todmorden to Rome.", "Rome"),
    ("Write to ann@mail.example about the weather in Rome.", "Rome"),
    ("What happened in Paris on 14 March 2024?", "Paris"),
    ("My patient from Lagos has a fever. What could it be?", "Lagos"),
    ("I was born in Athens. Can you tell my star sign?", "Athens"),
    ("we're from Dublin, what is a good pub quiz question", "Dublin"),
    ("How long is the commute to Boston?", "Boston"),
    ("What is the number of Dr Lindqvist in Stockholm?", "Stockholm"),
    ("Explain this: shipped to 12 Rose Lane, Perth", "Perth"),
    ('What does "location": "Perth" mean?', "Perth"),
    ("Is a tenant in Vienna protected?", "Vienna"),
    ("I got fined in Amsterdam. What can I do?", "Amsterdam"),
    ("My ex went back to Warsaw. Can I get custody?", "Warsaw"),
    ("Sydney called me. What should I say?", "Sydney"),
    ("I need more capital for my shop in Perth", "Perth"),
    ("Kerr versus Lindqvist was heard in Perth", "Perth"),
    ("the population of my street in Perth", "Perth"),
    ("itinerary: fly to Perth on Monday, see grandma", "Perth"),
    ("What is the weather in Tuscany, where my sister lives?", "Tuscany"),
    ("I teach at Harvard. Is it hard to get into?", "Harvard"),
    ("Is Carmen late? What did she say?", "Carmen"),
    ("How old is Chelsea?", "Chelsea"),
    ("Is Anna Siemens a good dentist?", "Siemens"),
    ("Did Arsenal win, asked Tom Okafor", "Arsenal"),
    ("password: wolf hall. Is it good?", "wolf"),
    ("Is our landlord Galatasaray nice?", "Galatasaray"),
    ("Explain divorce to my kids in Cornwall.", "Cornwall"),
]


def released(
    privatizer: Privatizer, text: str, owners: Owners | None = None, hiding: Hiding | None = None
) -> str:
    key, setting = Key(b"cities".ljust(32)), Setting(policy="personal")
    return privatizer.release(
        text, setting, key=key, session="one", owners=owners, hiding=hiding
    ).text


@pytest.mark.parametrize(
    "text",
    [
        "capital of australia is sydney or canberra",
        "vienna vs prague vs budapest",
        "population of lisbon",
        "3 days in vienna itinerary",
    ],
)
def test_cities_in_requests_without_a_question_mark_pass(privatizer: Privatizer, text: str) -> None:
    assert released(privatizer, text) == text


def test_cities_in_questions_pass(privatizer: Privatizer) -> None:
    changed = [text for text in ASKED if released(privatizer, text) != text]
    assert len(changed) <= 3, changed  # what the finder takes for a person


@pytest.mark.parametrize(("text", "city"), TOLD)
def test_the_city_of_somebody_is_drawn(privatizer: Privatizer, text: str, city: str) -> None:
    assert city not in released(privatizer, text)


@pytest.mark.parametrize(
    "said", ["My name is Tom Okafor.", "I live in Todmorden.", "My card ends in 4471."]
)
def test_after_something_private_a_conversation_draws_cities(
    privatizer: Privatizer, said: str
) -> None:
    owners: Owners = {}
    released(privatizer, said, owners)
    assert "Perth" not in released(privatizer, "What is the weather in Perth?", owners)


def test_a_city_that_passed_is_drawn_where_it_is_told_and_passes_where_it_was_asked(
    privatizer: Privatizer,
) -> None:
    owners: Owners = {}
    asked = "What is the weather in Perth?"
    assert released(privatizer, asked, owners) == asked
    assert "Perth" not in released(privatizer, "I live in Perth.", owners)
    assert released(privatizer, asked, owners) == asked  # a client sends it again


def test_the_owner_may_hide_a_city(privatizer: Privatizer) -> None:
    hiding = Hiding(hide=Phrases(["Perth"]))
    assert "Perth" not in released(privatizer, "How far is Perth?", hiding=hiding)


def test_no_surrogate_is_a_large_city(privatizer: Privatizer) -> None:
    small = [
        released(privatizer, f"I live in {name}.")
        for name in ("Todmorden", "Perth", "Rome", "Hebden", "Truro", "Whitby", "Falkirk", "Braga")
    ]
    large = {"Perth", "Sydney", "Rome", "London", "Paris", "Berlin", "Madrid", "Tokyo", "Leeds"}
    assert not [text for text in small if large & {*text.rstrip(".").split()}]
