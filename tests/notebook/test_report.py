"""What is published of a session: nothing but what was released, whole or not at all, in a form that others read."""

import html.parser
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import dpnotebook as dpn
from dpnotebook.notebook.report import publish as module

SHIFT = 5_000  # what is added in place of noise: what is released is told from what is true
WARDS = ["Oncology", "<b>Surgery</b> & co", "=SUM(A1)", "Maternity"]
VOID = {"meta", "img", "br", "link", "hr"}
# Keys and words of the registry's own template and schema (opendp/deployments-registry-data, 2026).
TEMPLATE = {
    "basic": {"name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region",
              "data_product_sector", "publication_date"},
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {"privacy_unit", "privacy_unit_details", "number_of_privacy_units", "privacy_parameters",
                     "privacy_parameters_details"},
    "deployment_model": {"model_name", "model_name_details", "trust_assumptions", "actors", "release_type",
                         "release_type_details", "data_source_type", "data_source_type_details", "access_type",
                         "access_type_details"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "composition", "post_processing",
                       "justification", "utility", "additional_information"},
    "administrative": {"evidence_sources", "status", "registry_authors", "tier"},
}  # fmt: skip
REQUIRED = TEMPLATE["basic"]


@pytest.fixture
def frame():
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 100, 4321),
            "ward": rng.choice(WARDS, 4321, p=[0.4, 0.3, 0.26, 0.04]),  # no count is a minute of the clock
            "income": rng.integers(0, 50, 4321) * 1000 + 777,
            "religion": rng.choice(["CANARY LEVEL ONE", "CANARY LEVEL TWO"], 4321),
            "note": "CANARY RAW TEXT",
        }
    )


@pytest.fixture
def session(frame, tmp_path, monkeypatch):
    """Return a session whose answers are all 5,000 too large, so that none of them is true."""
    monkeypatch.chdir(tmp_path)
    opened = dpn.Session(dpn.Budget(epsilon=2.0), "clinic.ledger", planner="naive")
    opened._questions.draw = lambda item, *_: np.full(item.measurement.answers, SHIFT * 2**item.bits, dtype=np.int64)
    opened.protect(
        frame,
        "patients",
        domain={
            "age": dpn.Range(0, 99),
            "ward": WARDS,
            "income": dpn.Bins(0, 50_000, width=5_000, unit="euros"),
            "religion": ["CANARY LEVEL ONE", "CANARY LEVEL TWO"],
        },
    )
    yield opened
    opened.close()


@pytest.fixture
def releases(session):
    table = session.table("patients")
    return [table.count(epsilon=0.1).run(), table.histogram("ward", epsilon=0.1).run()]


class Balanced(html.parser.HTMLParser):
    """Reads a page whose elements are all closed in order, and keeps what it says and what it would ask for."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.asked, self.ids, self.alts = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.asked += [value for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]
        self.ids += [given["id"]] if "id" in given else []
        self.alts += [given["alt"]] if tag == "img" else []
        assert tag not in ("script", "iframe", "object", "link", "form")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(folder):
    return Balanced((folder / "report.html").read_text())


def everything(folder):
    """Return all that the files say, pictures included, as text."""
    import base64

    texts = [file.read_text() for file in folder.iterdir()]
    page = (folder / "report.html").read_text()
    texts += [base64.b64decode(data).decode(errors="replace") for data in re.findall(r"base64,([A-Za-z0-9+/=]+)", page)]
    return "\n".join(texts)


def numbers(text):
    return {float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}


def without_head(session, text):
    """Leave out the hash that the ledger ends with: its digits are drawn, and any three of them may be the planted."""
    head = session.audit().head
    return text.replace(head, "").replace(head[:16], "")


def test_it_holds_no_value_that_was_not_released(session, frame, releases):
    folder = session.publish("report", releases)
    assert session.audit().head in everything(folder)
    said = without_head(session, everything(folder))
    assert not re.search(r"(?=[0-9a-f]*[a-f])[0-9a-f]{12}", re.sub(r"base64,[A-Za-z0-9+/=]+", "", said))  # no other
    for planted in ("CANARY", "religion", "income", "777", str(session.ledger.path)):
        assert planted not in said
    page = without_head(session, (folder / "report.html").read_text())
    shown = numbers(re.sub(r"base64,[A-Za-z0-9+/=]+", "", page))
    counts = frame["ward"].value_counts()
    for true in (len(frame), *counts):
        assert true not in shown
    released = numbers((folder / "release-2.csv").read_text())
    assert {true + SHIFT for true in counts} <= released
    for file in ("release-1.csv", "release-2.csv", "releases.json"):
        assert not {float(len(frame)), *map(float, counts)} & numbers((folder / file).read_text())


def test_it_says_what_it_should(session, releases):
    folder = session.publish(
        "report", releases, title="Visits to the clinic", curator="The clinic", published="2025-03-01"
    )
    page = read(folder)
    said = " ".join(" ".join(page.words).split())
    for words in (
        "Visits to the clinic",
        "together 2-differentially private",
        "adding or removing one privacy unit: a row of 'patients'",
        "differ by a factor of at most e^ε = 7.39",  # e^2 = 7.389..., rounded up
        "someone who thinks 50 of 100 that a person is in the data could think at most 88.1 after everything here",
        "discrete Laplace noise",
        "4 declared levels",
        "95% intervals",
        "The clinic (2025). Visits to the clinic. Differentially private statistics (ε = 2)",
        "@misc{",
        session.audit().head,
    ):
        assert words in said
    assert re.search(r"So far [\d.]+% of the budget are spent, ε = 0\.\d+, on 2 releases", said)
    assert len(page.alts) == 2
    assert "COUNT by ward" in page.alts[1]
    assert "Oncology" in page.alts[1]


def test_nothing_of_the_page_is_elsewhere(session, releases):
    page = read(session.publish("report", releases))
    assert page.asked
    assert all(one.startswith(("data:", "#")) for one in page.asked)
    text = (Path("report") / "report.html").read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"url\(|@import|https?://", re.sub(r"base64,[A-Za-z0-9+/=]+", "", text))
    assert len(set(page.ids)) == len(page.ids)


def test_levels_stay_texts(session, releases):
    folder = session.publish("report", releases)
    assert "<b>Surgery" not in (folder / "report.html").read_text()
    assert "<b>Surgery</b> & co" in " ".join(read(folder).words)
    assert '"\'=SUM(A1)"' in (folder / "release-2.csv").read_text()


def test_the_numbers_are_those_of_the_release(session, releases):
    folder = session.publish("report", releases)
    values = json.loads((folder / "releases.json").read_text())
    rows = pd.DataFrame(values["releases"][1]["rows"])
    pd.testing.assert_frame_equal(rows, releases[1].frame, check_dtype=False, check_index_type=False)
    assert values["budget"] == {"epsilon": 2.0, "delta": 0.0}
    assert values["releases"][1]["measures"][0]["unit"] == "rows"
    written = pd.read_csv(folder / "release-1.csv")
    assert written["value"].tolist() == [4321 + SHIFT]


def test_the_entry_is_one_of_the_registry(session, releases):
    folder = session.publish(
        "report", releases, title='A "title": yes\n#1', curator="Nobody", intended_use="- research"
    )
    found = yaml.safe_load((folder / "registry.yaml").read_text())
    assert found == json.loads((folder / "releases.json").read_text())["registry"]
    assert list(found) == ["url_slug", "deployment"]
    assert list(found["deployment"]) == list(TEMPLATE)
    for part, keys in TEMPLATE.items():
        assert found["deployment"][part].keys() <= keys
    assert found["deployment"]["basic"].keys() == REQUIRED
    basic = found["deployment"]["basic"]
    assert basic["name"] == 'A "title": yes #1'
    assert basic["intended_use"] == "- research"
    assert isinstance(basic["publication_date"], str)
    assert found["deployment"]["dp_variant"]["variant_name"] == "Pure DP"
    assert found["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.0}
    assert found["deployment"]["administrative"]["tier"] in (1, 2, 3)
    assert 'data_product_region: ""  # to be filled in' in (folder / "registry.yaml").read_text()


def test_without_a_choice_it_is_all(session, releases):
    folder = session.publish("report")
    assert {"release-1.csv", "release-2.csv"} <= {file.name for file in folder.iterdir()}


def test_a_comparison_of_two_tables(session, frame, releases):
    session.protect(frame.iloc[:1000].copy(), "earlier", domain={"age": dpn.Range(0, 99), "ward": WARDS})
    before = session.table("earlier").histogram("ward", epsilon=0.1).run()
    said = " ".join(read(session.publish("report", [releases[1] - before])).words)
    assert "a row of 'patients'; a row of 'earlier'" in said
    assert not {"CANARY", "religion"} & {*said.split()}


def test_one_release_in_several_ways_and_comparisons(session, releases):
    wards = releases[1]
    folder = session.publish("report", [wards, wards.simultaneous(), wards.nonnegative(), wards - wards, 1])
    assert len(list(folder.glob("*.csv"))) == 5
    read(folder)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    "asked", ["cdf", "workload", "agg", "value_counts", "shares", "sql", "planned", "std", "quantiles"]
)
def test_every_kind_of_release_is_as_it_was_answered(session, asked):
    table = session.table("patients")
    query = {
        "cdf": lambda: table.cdf("age", epsilon=0.1),
        "workload": lambda: table.answer(dpn.marginals(1), "ward", epsilon=0.1),
        "agg": lambda: table.groupby("ward").agg({"income": ["mean", "median"]}, epsilon=0.1),
        "value_counts": lambda: table.value_counts("ward", epsilon=0.1),
        "shares": lambda: table.value_counts("ward", normalize=True, epsilon=0.1),
        "sql": lambda: session.sql("SELECT ward, STDDEV(income) AS s FROM patients GROUP BY ward", epsilon=1),
        "planned": lambda: session.sql("SELECT ward AS w, 2 * COUNT(*) AS n FROM patients GROUP BY ward", epsilon=0.1),
        "std": lambda: table.std("income", epsilon=1),
        "quantiles": lambda: table.quantile("age", [0.25, 0.5], epsilon=0.1),
    }[asked]()  # fmt: skip
    assert (session.publish("report", [query.run()]) / "report.html").exists()


def test_of_another_session(session, releases, frame):
    with dpn.Session(dpn.Budget(epsilon=1.0)) as other:
        other.protect(frame, "patients", domain={"age": dpn.Range(0, 99)})
        stranger = other.table("patients").count(epsilon=0.1).run()
    for one in (stranger, stranger.simultaneous()):
        with pytest.raises(dpn.ArgumentError, match=r"release #1 was answered from another ledger"):
            session.publish("report", [one])
    assert not Path("report").exists()


def test_of_the_same_ledger_in_another_kernel(session, releases, frame):
    with dpn.Session(dpn.Budget(epsilon=2.0), "clinic.ledger") as again:
        again.protect(frame, "patients", domain=dict(session.table("patients").domain))
        assert (again.publish("report", releases) / "report.html").exists()


def test_a_frame_that_was_changed(session, releases, frame):
    releases[1].frame.loc[0, "value"] = float((frame["ward"] == WARDS[0]).sum())
    with pytest.raises(dpn.ArgumentError, match="not as it was answered"):
        session.publish("report", releases)
    releases[0].frame["exact"] = len(frame)
    with pytest.raises(dpn.ArgumentError, match="not as it was answered"):
        session.publish("report", releases[0])
    assert not Path("report").exists()


def test_a_report_is_left_as_it_is_unless_it_is_said(session, releases):
    session.publish("report", releases[:1])
    before = (Path("report") / "report.html").read_text()
    with pytest.raises(dpn.ArgumentError, match="overwrite=True"):
        session.publish("report", releases)
    assert (Path("report") / "report.html").read_text() == before
    session.publish("report", releases, overwrite=True)
    assert (Path("report") / "release-2.csv").exists()
    assert sorted(os.listdir()) == ["clinic.ledger", "report"]


def test_what_is_no_report_is_never_replaced(session, releases):
    Path("thesis").mkdir()
    Path("thesis/chapter").write_text("ten years")
    Path("file").write_text("x")
    for there in ("thesis", "file"):
        with pytest.raises(dpn.ArgumentError, match="is no report"):
            session.publish(there, releases, overwrite=True)
    assert Path("thesis/chapter").read_text() == "ten years"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("overwrite", [False, True])
def test_never_half_of_a_report(session, releases, monkeypatch, overwrite):
    if overwrite:
        session.publish("report", releases[:1])
    before = sorted(file.name for file in Path("report").iterdir()) if overwrite else None

    def stays():
        assert sorted(os.listdir()) == (["clinic.ledger", "report"] if overwrite else ["clinic.ledger"])
        assert before is None or sorted(file.name for file in Path("report").iterdir()) == before

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("dpnotebook.notebook.report.files.os.fsync", full)
        with pytest.raises(dpn.ArgumentError, match="No space left on device; nothing was changed"):
            session.publish("report", releases, overwrite=overwrite)
    stays()
    with monkeypatch.context() as broken:
        broken.setattr(module, "svg_and_png", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            session.publish("report", releases, overwrite=overwrite)
    stays()
    with monkeypatch.context() as broken:
        broken.setattr("dpnotebook.notebook.report.files.Path.rename", full)
        with pytest.raises(dpn.ArgumentError):
            session.publish("report", releases, overwrite=overwrite)
    stays()


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("path", "options", "said"),
    [
        ("report.html", {}, "is the name of one"),
        ("none/report", {}, "no such folder"),
        (3, {}, "the path of a folder"),
        ("a\0b", {}, "path"),
        ("", {}, "cannot be written"),
        ("report", {"releases": []}, "is empty"),
        ("report", {"releases": "all"}, "releases= lists"),
        ("report", {"releases": [None]}, "releases= lists"),
        ("report", {"releases": [True]}, "releases= lists"),
        ("report", {"releases": [99]}, "no release 99"),
        ("report", {"title": 3}, "title= as a text"),
        ("report", {"title": " "}, "needs a title="),
        ("report", {"published": "tomorrow"}, "published= is a day"),
        ("report", {"overwrite": "yes"}, "overwrite="),
        ("report", {"colour": "red"}, "colour"),
    ],
)
def test_what_cannot_be_published(session, releases, path, options, said):
    with pytest.raises(dpn.DPError, match=said):
        session.publish(path, **options)
    assert os.listdir() == ["clinic.ledger"]


def test_a_query_is_to_be_run_first(session):
    with pytest.raises(dpn.ArgumentError, match="run it first"):
        session.publish("report", [session.table("patients").count(epsilon=0.1)])
    with pytest.raises(dpn.ArgumentError, match="nothing was released"):
        session.publish("report")


def test_a_ledger_that_was_changed_publishes_nothing(session, releases, monkeypatch):
    audit = session.audit()
    monkeypatch.setattr(
        type(session), "audit", lambda _: type(audit)(**{**vars(audit), "ok": False, "problems": ("gone",)})
    )
    with pytest.raises(dpn.ArgumentError, match="the ledger is not as it was written"):
        session.publish("report")


def test_with_a_policy_and_units_and_delta(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("clinic.toml").write_text("[budget]\nepsilon = 20.0\ndelta = 1e-6\n[groups]\nminimum = 300\n")
    with dpn.Session.from_policy("clinic.toml") as session:
        frame["person"] = frame.index // 2
        table = session.protect(frame, "visits", unit="person", max_rows=2, domain={"ward": WARDS})
        table.histogram("ward", epsilon=10).run()
        folder = session.publish("report", curator="The clinic")
        said = everything(folder)
        assert "Maternity" not in said  # some 40 people
        for words in (
            "one person in 'visits', with all its rows, of which up to 2 count",
            "Groups with a noisy count below 300 were withheld",
            "one group is withheld",
            session.policy.digest,
            "rounded Gaussian noise",
            "but for a probability of δ = 1e-06",
            "Of one person in 'visits' at most 2 rows were counted",
        ):
            assert words in re.sub(r"&#x27;", "'", said)
        assert yaml.safe_load((folder / "registry.yaml").read_text())["deployment"]["privacy_loss"] | {} == {
            "privacy_unit": "person-level",
            "privacy_unit_details": "Data sets are adjacent if one is the other with one unit added or removed: one "
            "person in 'visits', with all its rows, of which up to 2 count.",
            "privacy_parameters": {"epsilon": 20.0, "delta": 1e-6},
            "privacy_parameters_details": "The budget of all answers together, those to come included. Spent when this "
            f"was published: epsilon {session.spent.epsilon:.6g}, delta {session.spent.delta:.6g}.",
        }
