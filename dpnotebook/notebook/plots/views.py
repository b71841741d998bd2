"""What a release is shown as beside its card: a figure, and tables for texts of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpnotebook.notebook.plots.numbers import answer_table
from dpnotebook.notebook.plots.release import plot_release
from dpnotebook.notebook.tables import table_html, table_latex, table_markdown

VIEWS: dict[str, Callable[..., Any]] = {
    "plot": plot_release,
    "markdown": lambda release: table_markdown(answer_table(release)),
    "latex": lambda release: table_latex(answer_table(release)),
    "html": lambda release: table_html(answer_table(release)),
}
