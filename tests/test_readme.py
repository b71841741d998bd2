"""What the README says is so: its examples run, its test command is what CI runs, its links lead somewhere."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    """Return the code blocks of a language; "" for those that name none."""
    fenced = README.split("```")[1::2]
    return [block.partition("\n")[2] for block in fenced if block.partition("\n")[0] == language]


def test_the_first_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(8)
    patients = pd.DataFrame(
        {
            "patient_id": np.arange(2000),
            "age": random.integers(0, 110, 2000),
            "sex": random.choice(["F", "M"], 2000),
            "income": random.gamma(2, 20_000, 2000),
        }
    )
    names = {"patients": patients}
    example, dating, reusing, growing, publishing, choosing, _ = blocks("python")
    exec(example, names)
    session = names["session"]
    assert 0 < names["query"].plan.error <= 25
    assert session.spent.epsilon == names["release"].paid > 0
    assert len(patients.dp.groupby("sex").mean("income", epsilon=0.1).run().frame) == 2

    admitted = pd.Timestamp("2023-01-01") + pd.to_timedelta(random.integers(0, 731 * 86_400, 20_000), unit="s")
    names["visits"] = pd.DataFrame({"admitted": admitted, "ward": random.choice(["A", "B"], 20_000)})
    exec(dating, names)
    assert len(names["by_day"].run().frame) == 731
    assert names["same"].plan.free
    assert names["by_month"].plan.free
    assert len(names["by_month"].run().frame) == 24
    assert abs(names["weekdays"].run().value - 20_000 * 435 / 731) < 1000

    spent = session.spent.epsilon
    exec(reusing, names)
    assert session.spent.epsilon - spent == pytest.approx(names["table"].paid)
    assert names["part"].plan.free
    assert names["table"].number in names["part"].plan.reused
    sharper = names["sharper"].plan
    assert {action.kind for action in sharper.actions} & {"refine", "buy"}
    assert 0 < sharper.cost.epsilon < sharper.without_reuse.epsilon
    assert names["around"].plan.error < 0.05 * 2000
    assert names["offer"].prices["epsilon"].is_monotonic_increasing

    march = patients.sample(frac=0.5, random_state=1)
    names["march"] = march.assign(patient_id=march["patient_id"] + 2000)  # others: rows are in one part only
    exec(growing, names)

    exec(publishing, names)
    assert {"report.html", "registry.yaml", "releases.json"} < {file.name for file in names["report"].iterdir()}

    assert names["monthly"].paid == 0
    assert abs(names["by_part"].frame["value"] - [2_000, 1_000]).max() < 200
    assert names["everybody"].plan.error <= 40

    exec(choosing, names)
    workload, best = names["workload"], names["best"]
    assert best.workload == workload
    assert best.lower_bound(epsilon=0.2) <= best.rmse(epsilon=0.2)
    assert len(names["answers"].frame) == workload.shape[0]
    assert names["explorer"].question.workload == workload

    sql = statements()[0].split("--error 25\n")[1]
    by_sex = session.sql(sql, error=25).run()
    assert by_sex.frame.columns.tolist() == ["sex", "n", "n_std_error", "n_lower", "n_upper"]
    session.close()


def test_the_statements_run(tmp_path, monkeypatch):
    """Both are shown as they were written, with the accuracy that stands on their first line."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(8)
    patients = pd.DataFrame({"patient_id": np.arange(3000), "sex": ["F", "F", "M"] * 1000})
    visits = pd.DataFrame(
        {
            "patient_id": np.repeat(patients["patient_id"], 4),
            "diagnosis": random.choice(["asthma", "flu", "gout"], 12_000, p=[0.45, 0.45, 0.1]),
            "cost": random.gamma(2, 500, 12_000),
        }
    )
    names = {"patients": patients, "visits": visits, "wards": pd.DataFrame({"ward": ["A"], "floor": [1]})}
    exec(f"import dpnotebook as dpn\n{blocks('python')[-1]}", names)
    session = names["session"]
    _, joined, pasted = statements()
    options, _, sql = joined.partition("\n")
    release = session.sql(sql, epsilon=float(options.split()[-1])).run()
    assert release.frame["diagnosis"].iloc[:2].isin(["asthma", "flu"]).all()
    assert (release.frame["people"] > 100).all()
    options, _, sql = pasted.partition("\n")
    assert options == "%%dpsql"
    assert session.sql(sql).run().frame["cost"].between(500, 1500).all()
    assert 0 < session.spent.threshold_delta < 1e-7
    session.close()


def statements():
    """Return the cells of SQL."""
    return [block[block.index("%%dpsql") :] for block in blocks("") if "%%dpsql" in block]


def test_ci_runs_the_test_command_of_the_readme():
    command = next(block for block in blocks("sh") if "pytest" in block).strip()
    script = (ROOT / ".ci/run").read_text()
    assert command in script.replace("pip install -q ", "pip install ")


def test_the_first_command_opens_the_tour():
    """It is run as it stands in tests/test_tour_from_scratch.py, which takes minutes and a network."""
    first = blocks("sh")[0].strip()
    assert first.endswith('pip install ".[lab]" && .venv/bin/dpnotebook tour')


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
    assert (ROOT / "notebooks/tour.ipynb").exists()


def test_the_policy_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (policy,) = blocks("toml")
    (tmp_path / "clinic.toml").write_text(policy)
    with dpn.Session.from_policy("clinic.toml") as session:
        assert (session.policy.question, session.policy.together, session.policy.minimum) == (0.2, 1.5, 20)
