"""What of the package is public: there, an error says in the user's words what is wrong with an argument."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from dpnotebook import inference, ledger, strategy, workload
from dpnotebook.domain import Bins, Boolean, Categories, Dates, Domain, Range, Times
from dpnotebook.domain.attribute import Attribute
from dpnotebook.domain.domain_workloads import Asking
from dpnotebook.domain.named_workloads import WorkloadRequest
from dpnotebook.notebook.accessor import DPAccessor
from dpnotebook.notebook.arguments import public, public_class
from dpnotebook.notebook.dashboard.dashboard import Dashboard
from dpnotebook.notebook.explorer.explorer import Explorer
from dpnotebook.notebook.guide.guide import ProtectGuide
from dpnotebook.notebook.workbench.budget_planner import BudgetPlanner
from dpnotebook.notebook.workbench.workbench import Workbench
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.unit import Unit
from dpnotebook.session.joint_purchase import JointPurchase
from dpnotebook.session.ledger_report import LedgerReport
from dpnotebook.session.offer import Offer
from dpnotebook.session.picked_columns import PickedColumns
from dpnotebook.session.protected import ProtectedTable
from dpnotebook.session.query import Query
from dpnotebook.session.release import Release
from dpnotebook.session.session import Session
from dpnotebook.session.verbs import Grouped, Verbs

WIDGETS = (Explorer, Dashboard, Workbench, BudgetPlanner, ProtectGuide)
ASKED = (
    Session,
    ProtectedTable,
    Verbs,
    Grouped,
    PickedColumns,
    DPAccessor,
    Query,
    Release,
    Offer,
    JointPurchase,
    LedgerReport,
    *WIDGETS,
)
DECLARED = (Budget, Unit, Domain, Asking, Attribute, Range, Bins, Categories, Boolean, Dates, Times, WorkloadRequest)
ROOMS = (workload, strategy, inference, ledger)


def guard(package: MutableMapping[str, Any]) -> None:
    """Make public what the package shows and what that leads to; inside of it, functions are called as they are.

    Parameters
    ----------
    package
        The names of the package itself.
    """
    done: set[type] = set()
    for kind in (*ASKED, *DECLARED):
        public_class(kind, done)
    for names in (package, *map(vars, ROOMS)):
        for name in names["__all__"]:
            if isinstance(names[name], type):
                if names is not package:
                    public_class(names[name], done)
            elif callable(names[name]) and "ipython" not in name:
                names[name] = public(names[name])
