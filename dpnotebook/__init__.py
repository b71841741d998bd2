"""Differentially private answers in Jupyter: see the cost and the error of a query before it runs.

import dpnotebook as dpn

session = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="clinic.ledger")
session.protect(patients, "patients", domain={"age": dpn.Range(0, 115), "sex": ["F", "M"]})
query = patients.dp.count(where="age >= 65", error=25)   # nothing is spent; shows cost and error
query.run()
"""

from dpnotebook import strategy, workload
from dpnotebook.domain import Bins, Boolean, Categories, Dates, Domain, Range, Times
from dpnotebook.domain.named_workloads import (
    cdf,
    identity,
    marginals,
    prefix_marginals,
    ranges,
    small_marginals,
    small_prefix_marginals,
    total,
)
from dpnotebook.domain.suggest import suggest_domain
from dpnotebook.errors import (
    AccuracyError,
    ArgumentError,
    BudgetExceeded,
    Cancelled,
    DomainError,
    DPError,
    EngineError,
    FrameChanged,
    LedgerConflict,
    LedgerCorrupt,
    LedgerError,
    LedgerFull,
    LedgerLocked,
    LedgerMismatch,
    LedgerReadOnly,
    LedgerWarning,
    NotConfirmed,
    NotProtected,
    PolicyError,
    PredicateError,
    SQLError,
    UnknownVerb,
    WorkloadError,
)
from dpnotebook.notebook import load_ipython_extension, unload_ipython_extension
from dpnotebook.notebook.explorer.explorer import explore
from dpnotebook.notebook.guide.guide import protect_guide
from dpnotebook.notebook.plots.compare import compare
from dpnotebook.notebook.plots.portable import portable
from dpnotebook.notebook.public import guard
from dpnotebook.planner.plan import Plan
from dpnotebook.privacy.auditing import PrivacyAudit, audit
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.unit import Unit
from dpnotebook.session.ledger_report import LedgerReport, audit_ledger
from dpnotebook.session.query import Query
from dpnotebook.session.release import Release
from dpnotebook.session.session import Session, active_session

__all__ = [
    "AccuracyError",
    "ArgumentError",
    "Bins",
    "Boolean",
    "Budget",
    "BudgetExceeded",
    "Cancelled",
    "Categories",
    "DPError",
    "Dates",
    "Domain",
    "DomainError",
    "EngineError",
    "FrameChanged",
    "LedgerConflict",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerFull",
    "LedgerLocked",
    "LedgerMismatch",
    "LedgerReadOnly",
    "LedgerReport",
    "LedgerWarning",
    "NotConfirmed",
    "NotProtected",
    "Plan",
    "PolicyError",
    "PredicateError",
    "PrivacyAudit",
    "Query",
    "Range",
    "Release",
    "SQLError",
    "Session",
    "Times",
    "Unit",
    "UnknownVerb",
    "WorkloadError",
    "active_session",
    "audit",
    "audit_ledger",
    "cdf",
    "compare",
    "explore",
    "identity",
    "load_ipython_extension",
    "marginals",
    "portable",
    "prefix_marginals",
    "protect_guide",
    "ranges",
    "small_marginals",
    "small_prefix_marginals",
    "strategy",
    "suggest_domain",
    "total",
    "unload_ipython_extension",
    "workload",
]

guard(globals())
