"""The workload builder: parts of a workload, each with a weight or an error of its own, and what all of it costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.domain.named_workloads import WorkloadRequest, cdf, identity, marginals, ranges, total
from dpnotebook.errors import WorkloadError
from dpnotebook.notebook import cards, formatting, models
from dpnotebook.notebook.cards.model import Table, cell
from dpnotebook.notebook.html import at_most
from dpnotebook.notebook.workbench.button_words import COPIES, copied, said_of_run
from dpnotebook.notebook.workbench.composed import amount_of
from dpnotebook.notebook.workbench.live_part import LivePart, NotBought
from dpnotebook.notebook.workbench.named import table_code
from dpnotebook.planner.explain import request_code
from dpnotebook.query.question import Question
from dpnotebook.workload.terms import row_weights

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Plan
    from dpnotebook.session.protected import ProtectedTable
    from dpnotebook.session.query import Query
    from dpnotebook.session.release import Release
    from dpnotebook.session.session import Session

KINDS = (
    ("every level, or combination of levels", "identity"),
    ("every range of levels", "ranges"),
    ("the number up to every level", "cdf"),
    ("all tables of so many columns", "marginals"),
    ("the number of rows", "total"),
)
OF_COLUMNS = {"identity": identity, "ranges": ranges, "cdf": cdf}
START = "100"  # rows of error, of a new part
WIDE = {"description_width": "initial"}


@dataclass(frozen=True)
class PartControls:
    """The widgets of one part of a workload."""

    kind: Any
    columns: Any
    count: Any
    said: Any
    remove_button: Any
    widget: Any

    @property
    def request(self) -> WorkloadRequest:
        """What they say, without its weight or error."""
        if self.kind.value == "total":
            return total()
        if self.kind.value == "marginals":
            return marginals(self.count.value)
        if not self.columns.value:
            raise WorkloadError("choose at least one column for every part of the workload")
        return OF_COLUMNS[self.kind.value](*self.columns.value)


class WorkloadBuilder(LivePart):
    """A workload put together of parts, with its price and the error of each part.

    Parameters
    ----------
    session
        Who pays.
    table
        Name of the table that is asked.
    """

    def __init__(self, session: Session, table: str) -> None:
        super().__init__(session, "session.workbench()")
        self.table = table
        self.parts: list[PartControls] = []
        self.release: Release | None = None
        self._agreed: Plan | None = None
        self._answered = ""

    @property
    def protected(self) -> ProtectedTable:
        """The table that is asked."""
        return self.session.table(self.table)

    @property
    def request(self) -> WorkloadRequest:
        """The workload as it is written, each part with its weight or its error.

        Raises
        ------
        WorkloadError
            If there is no part, or one has no columns.
        """
        if not self.parts:
            raise WorkloadError("a workload has at least one part: add one")
        found = [self._weighed(part) for part in self.parts]
        joined = found[0]
        for one in found[1:]:
            joined = joined + one
        return joined

    @property
    def query(self) -> Query:
        """The query for all answers of the workload."""
        if self.how.value == "within":
            return self.protected.answer(self.request)
        return self.protected.answer(self.request, epsilon=float(amount_of("epsilon", self.epsilon.value)))

    @property
    def pandas(self) -> str:
        """The Python that asks the identical question."""
        rest = "" if self.how.value == "within" else f", epsilon={amount_of('epsilon', self.epsilon.value)!r}"
        return f"{table_code(self.protected)}.answer({request_code(repr(self.request))}{rest}).run()"

    def add_part(self, kind: str = "identity", columns: tuple[str, ...] = (), said: str = "") -> PartControls:
        """Add a part.

        Parameters
        ----------
        kind
            One of `KINDS`.
        columns
            Those that it is about.
        said
            Its error, or its weight.
        """
        import ipywidgets as widgets

        self.panel  # noqa: B018  # makes it
        domain = self.protected.table.domain
        names = [(domain.label_of(name), name) for name in self.protected.table.columns.names]
        shown = min(len(names), 5)
        rows = {"rows": shown} if shown > 1 else {}
        part = PartControls(
            widgets.Dropdown(options=KINDS, value=kind, style=WIDE),
            widgets.SelectMultiple(
                options=names,
                value=columns or (names[0][1],),
                style=WIDE,
                **rows,
            ),
            widgets.BoundedIntText(value=2, min=1, max=max(1, min(4, len(names))), style=WIDE),
            widgets.Text(said or (START if self.how.value == "within" else "1"), style=WIDE),
            widgets.Button(layout=widgets.Layout(width="auto")),
            widgets.HBox(layout=widgets.Layout(align_items="center", flex_flow="wrap")),
        )
        part.widget.children = (part.kind, part.columns, part.count, part.said, part.remove_button)
        part.kind.observe(lambda _: self._fit(), "value")
        for control in (part.kind, part.columns, part.count, part.said):
            control.observe(lambda _: self.changed(), "value")
        part.remove_button.on_click(lambda _: self.remove_part(part))
        self.parts.append(part)
        self._fit()
        self.rows.children = (*self.rows.children, part.widget)
        self.changed()
        return part

    def remove_part(self, part: PartControls) -> None:
        """Take a part away."""
        self.parts.remove(part)
        self.rows.children = tuple(each.widget for each in self.parts)
        models.close(part.widget)
        self._fit()
        self.changed()

    def _make(self) -> list[Any]:
        import ipywidgets as widgets

        auto = widgets.Layout(width="auto")
        self.how = widgets.Dropdown(
            options=[("an error for each part", "within"), ("weights, and a price for all", "weights")],
            description="Accurate by",
            style=WIDE,
            layout=auto,
        )
        self.epsilon = widgets.Text("0.1", description="at a price of at most ε", style=WIDE)
        self.add_button = widgets.Button(description="Add a part", layout=auto)
        self.pandas_button = widgets.Button(description="Copy as pandas", layout=widgets.Layout(width="auto"))
        self.pandas_button.add_class(COPIES)
        self.rows = widgets.VBox()
        self.code = widgets.Textarea(
            description="The workload as text", rows=3, style=WIDE,
            layout=widgets.Layout(width="100%", max_width=at_most(680), display="none"),
        )  # fmt: skip
        self.how.observe(self._other_way, "value")
        self.epsilon.observe(lambda _: self.changed(), "value")
        self.add_button.on_click(lambda _: self.add_part())
        self.pandas_button.on_click(lambda _: self._copy())
        self._fit()
        return [
            widgets.HBox([self.how, self.epsilon], layout=widgets.Layout(flex_flow="wrap")),
            self.rows,
            widgets.HBox([self.add_button, self.pandas_button], layout=widgets.Layout(flex_flow="wrap")),
            self.code,
        ]

    def _fit(self) -> None:
        """Show the controls that matter for what is chosen."""
        self.epsilon.layout.display = "none" if self.how.value == "within" else ""
        for number, part in enumerate(self.parts, start=1):
            part.columns.layout.display = "" if part.kind.value in OF_COLUMNS else "none"
            part.count.layout.display = "" if part.kind.value == "marginals" else "none"
            what = "error at most ±" if self.how.value == "within" else "weight"
            part.kind.description = f"Part {number}"
            part.columns.description = f"Part {number}: columns"
            part.count.description = f"Part {number}: so many"
            part.said.description = f"Part {number}: {what}"
            part.remove_button.description = f"Remove part {number}"

    def _other_way(self, _change: object) -> None:
        for part in self.parts:
            part.said.value = START if self.how.value == "within" else "1"
        self._fit()
        self.changed()

    def _weighed(self, part: PartControls) -> WorkloadRequest:
        number = float(amount_of("error", part.said.value))
        if self.how.value == "within":
            return part.request.within(number)
        return part.request if number == 1 else number * part.request

    def _copy(self) -> None:
        from dpnotebook.errors import DPError

        try:
            self.code.value = self.pandas
        except DPError as error:
            self.say(str(error))
            return
        self.code.layout.display = ""
        self.say("")
        self.message.value = copied(self.code.value)

    def _card(self) -> tuple[cards.Card, str]:
        if self.release is not None and self._answered == self.pandas:
            return cards.release_card(self.release), "Answered: change the workload to ask another"
        query = self.query
        self._agreed = plan = query.plan
        shown = cards.plan_card(plan)
        errors = tuple(errors_by_weight(query, plan, self.request))
        if len(errors) > 1 and self.how.value == "weights":
            rows = tuple((cell(name), cell(f"±{formatting.error(error)} {plan.unit}")) for name, error in errors)
            shown = cards.Card((*shown.blocks, Table(("part", "error"), "lr", rows)))
        return shown, said_of_run(plan)

    def _run(self) -> str:
        query, agreed = self.query, self._agreed
        plan = query.plan
        if agreed is None or plan.cost.units > agreed.cost.units:
            raise NotBought("The price has changed since it was shown: press Run again to spend it.")
        if not plan.affordable:
            raise NotBought("Not enough budget: nothing was spent.")
        self.release, self._answered = query.run(), self.pandas
        return f"Answered: release #{self.release.number}; each of its answers can be asked now for nothing."


def errors_by_weight(query: Query, plan: Plan, request: WorkloadRequest) -> Iterator[tuple[str, float]]:
    """Yield the parts of a workload, those of one weight together, and the largest error among their answers."""
    assert isinstance(query.question, Question)
    workload = query.question.measures[0].workload
    assert workload is not None
    weights = row_weights(workload)
    reach = plan.error / plan.std_error if plan.std_error else 1.0
    spread = np.asarray(plan.std_errors, dtype=np.float64)
    for weight in dict.fromkeys(request.weights):
        rows = np.isclose(weights, float(weight))
        if rows.any():
            parts = zip(request.weights, request.parts, strict=True)
            name = " + ".join(repr(part) for own, (_, part) in parts if own == weight)
            yield name, reach * float(spread[rows].max())
