"""Two ledgers with every feature there was before the house was rebuilt: Gaussian and Laplace noise."""

import contextlib

import duckdb
from golden.earlier import Earlier
from golden.history import RANGES
from golden.rows import PATIENTS, patients, protect_clinic, protect_people
from golden.seam import fixed_randomness, listening

import dpnotebook as dpn


def _protect(session):
    protect_people(session)
    protect_clinic(session)
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE log AS SELECT range % 7 AS hour, CASE WHEN range % 3 = 0 THEN 'in' ELSE 'out' END AS way, "
        "(range * 37 % 500) / 8 AS weight FROM range(400)"
    )
    session.protect((connection, "log"), "log", domain={"hour": dpn.Range(0, 6), "way": ["in", "out"]})


def _people(verb, *given, **options):
    return lambda s: getattr(s.table("people"), verb)(*given, **options)


def _sql(text, **options):
    return lambda s: s.sql(text, **options)


VERBS = {
    "count": _people("count", where="age < 20", error=30),
    "count again": _people("count", where="age < 20", error=30),
    "refined": _people("count", where="age < 20", error=12),
    "slice": _people("histogram", "sex", where="age < 20", epsilon=0.1),
    "other slice": _people("histogram", "sex", where="age >= 20", epsilon=0.1),
    "combined": _people("count", where="sex == 'F'", error=80),
    "partly combined": _people("count", error=14),
    "by percent": _people("count", error="15%"),
    "sum": _people("sum", "income", bounds=(0, 50_000), granularity=100, epsilon=0.1),
    "mean": _people("mean", "age", epsilon=0.15),
    "grouped mean": lambda s: s.table("people").groupby("sex").mean("income", epsilon=0.2),
    "crosstab": _people("crosstab", "sex", "region", epsilon=0.2),
    "cdf": _people("cdf", "income", error=60),
    "median": _people("quantile", "age", epsilon=0.15),
    "disjunction": _people("count", where="region in ['north', 'west'] or smokes", epsilon=0.1),
    "marginals": _people("answer", dpn.marginals(2), on=["sex", "region", "smokes"], epsilon=0.2),
    "own strategy": _people("answer", dpn.ranges("income"), strategy=dpn.strategy.wavelet, epsilon=0.1),
    **{f"range {name}": lambda s, step=step: step(s, s.table("people")) for name, step in RANGES.items()},
    "prefetched": lambda s: s.prefetch(dpn.ranges("age"), table="people").query(error=40),
    "free after it": _people("count", where="10 <= age <= 14", error=40),
    "ranges": _people("count", where="3 <= age <= 30", error=18),
    "clinic": lambda s: s.table("visits").crosstab("ward", "urgent", epsilon=0.2),
    "log": lambda s: s.table("log").histogram("way", epsilon=0.1),
}
STATEMENTS = {
    "linear": _sql("SELECT ward, SUM(minutes) / COUNT(*) AS mean FROM visits GROUP BY ward ORDER BY mean", epsilon=0.2),
    "found keys": _sql("SELECT drug, COUNT(*) AS n FROM visits GROUP BY drug HAVING n > 5 ORDER BY n", epsilon=0.5),
    "several": _sql(
        "SELECT drug, COUNT(*) AS n, AVG(cost) AS mean, COUNT(DISTINCT patient_id) AS people FROM visits GROUP BY drug",
        epsilon=1.0,
    ),
    "found bounds": _sql("SELECT SUM(cost) AS total, VAR_POP(cost) AS var FROM visits", epsilon=1.0),
    "clause": _sql(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5, delta = 1e-7, max_groups_contributed = 2, "
        "privacy_unit_column = patient_id) drug, SUM(cost, contribution_bounds_per_group => (0, 100)) AS total "
        "FROM visits GROUP BY drug"
    ),
    "quantiles": _sql(
        "SELECT APPROX_QUANTILES(cost, 4, contribution_bounds_per_row => (0, 90)) AS q FROM visits", epsilon=0.5
    ),
    "outer join": _sql(
        "SELECT town, COUNT(*) AS n FROM visits v LEFT JOIN patients p ON v.patient_id = p.patient_id GROUP BY town",
        epsilon=0.5,
    ),
    "public join": _sql("SELECT floor, COUNT(*) AS n FROM visits JOIN wards USING (ward) GROUP BY floor", epsilon=0.5),
    "two queries": _sql(
        "SELECT a.n / b.n AS share FROM (SELECT COUNT(cost) AS n FROM visits WHERE drug = 'statin') AS a "
        "CROSS JOIN (SELECT COUNT(cost) AS n FROM visits) AS b",
        epsilon=0.5,
    ),
    "months": _sql("SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM visits GROUP BY m", epsilon=0.5),
    "parameter": _sql("SELECT COUNT(*) AS n FROM visits WHERE cost > :most", epsilon=0.3, parameters={"most": 40.5}),
    "undeclared in DuckDB": _sql("SELECT way, ANON_SUM(weight, 0, 60) AS w FROM log GROUP BY way", epsilon=0.3),
}
NORM = {
    "one norm": _sql(
        "SELECT ward, COUNT(*, contribution_bounds_per_group => (0, 4)) AS n FROM visits GROUP BY ward",
        epsilon=0.5,
        contribution="l2",
    )
}
PIONEER = {
    "first hours": lambda s: s.table("log").count(where="hour < 4", variance=60.0),
    "part of them": lambda s: s.table("log").count(where="hour < 2", variance=60.0),
    "all hours": lambda s: s.table("log").count(variance=100.0),
    "first hours again": lambda s: s.table("log").count(where="hour < 4", variance=20.0),
}
PENDING = _sql("SELECT note, COUNT(*) AS n FROM visits GROUP BY note", epsilon=0.5)
PENDING_VERB = _people("histogram", "income", epsilon=0.1)
LOST = _people("histogram", "region", where="age > 35", epsilon=0.1)
GAUSSIAN = Earlier("ledger_before_the_house", dpn.Budget(6.0, 1e-5), _protect, VERBS | STATEMENTS | NORM)
LAPLACE = Earlier(
    "ledger_before_the_house_laplace",
    dpn.Budget(20.0, 1e-5, noise="laplace"),
    _protect,
    VERBS | STATEMENTS | PIONEER,
)
LEDGERS = [GAUSSIAN, LAPLACE]


def written(ledger, folder):
    """Write a ledger of every feature into a folder, and return how its charges ended."""
    path = folder / f"{ledger.name}.sqlite"
    with fixed_randomness(f"{ledger.name} made"):
        with contextlib.closing(dpn.Session(ledger.budget, ledger=path)) as session:  # its population is said later
            session.protect(patients(), "patients", unit="patient_id", max_rows=1, domain=PATIENTS)
        if ledger.budget.noise == "laplace":
            with contextlib.closing(dpn.Session(ledger.budget, ledger=path, planner="pioneer")) as session:
                _protect(session)
                for ask in PIONEER.values():
                    ask(session).run()
        return _written(ledger, path, folder)


def _written(ledger, path, folder):
    with listening() as heard, contextlib.closing(dpn.Session(ledger.budget, ledger=path)) as session:
        _protect(session)
        for name, ask in ledger.asked.items():
            if name in PIONEER:
                continue
            if name == "clause":
                whole = dpn.Budget(ledger.budget.epsilon * 2, ledger.budget.delta, ledger.budget.noise)
                session.raise_budget(whole, reason="second year of the study")
            ask(session).run()
        with contextlib.suppress(dpn.BudgetExceeded):
            _people("count", epsilon=100.0)(session).run()
        session.renew_budget(dpn.Budget(1.0, 1e-6, ledger.budget.noise), reason="third year")
        heard.stop = True
        before = {*folder.iterdir()}
        with contextlib.suppress(dpn.EngineError):
            LOST(session).run()
        for state in {*folder.iterdir()} - before:
            state.unlink()
        for ask in (PENDING, PENDING_VERB):
            with contextlib.suppress(dpn.EngineError):
                ask(session).run()
        heard.stop = False
        return session.history()["state"].value_counts().to_dict()
