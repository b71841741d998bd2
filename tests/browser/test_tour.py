"""The tour, top to bottom in JupyterLab as a newcomer runs it, with the network off."""

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tour_runs_from_top_to_bottom(open_notebook, workdir, saved):
    shutil.copy(ROOT / "notebooks/tour.ipynb", workdir / "tour.ipynb")
    tour = open_notebook("tour.ipynb")
    tour.run_all(timeout=240)
    tour.save()
    cells = [cell for cell in saved("tour.ipynb").cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    errors = [output.ename for cell in cells for output in cell.outputs if output.output_type == "error"]
    assert errors == ["BudgetExceeded"]
    shown = ["".join(str(output.get("data", "")) for output in cell.outputs) for cell in cells]
    assert "±50 rows" in shown[2]  # the card, before
    assert "95% intervals" in shown[3]  # the answer, after
    assert sum("application/vnd.plotly" in each for each in shown) >= 4
