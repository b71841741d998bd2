"""From an empty notebook to a first answer in a few lines, in a kernel whose front end has no status bar."""

import re

import nbformat
import numpy as np
import pandas as pd
import pytest

LINES = """\
import pandas as pd
import dpnotebook as dpn
patients = pd.read_csv("patients.csv")
session = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="clinic.ledger")
session.protect(patients, "patients", domain={"age": dpn.Range(0, 115), "sex": ["F", "M"]})
patients.dp.count(where="age >= 65", error=25).run()
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Return the notebook after nbclient has run it, and the exact answer."""
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("first")
    ages = np.random.default_rng(9).integers(0, 110, 5000)
    pd.DataFrame({"age": ages, "sex": np.where(ages % 2, "F", "M")}).to_csv(folder / "patients.csv", index=False)
    cells = [nbformat.v4.new_code_cell(LINES), nbformat.v4.new_code_cell("%load_ext dpnotebook")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}, timeout=120).execute()
    return notebook, int((ages >= 65).sum())


def test_a_first_answer_takes_eight_lines_at_most(ran):
    notebook, exact = ran
    assert len(LINES.splitlines()) <= 8
    text = notebook.cells[0].outputs[-1]["data"]["text/plain"]
    found = [float(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", text)]
    assert any(abs(number - exact) < 200 for number in found)  # noise of 8.4: e^-23 is beyond


def test_where_nobody_asks_the_estimate_says_nothing(ran):
    """Neither the import nor the extension leaves an output behind: no line, no warning, no widget."""
    notebook, _ = ran
    assert [output["output_type"] for output in notebook.cells[0].outputs] in (["execute_result"], ["display_data"])
    assert notebook.cells[1].outputs == []
