"""SQL: what the planner answers, what is bounded for each unit, what is worked out afterwards."""

from golden.rows import protect_clinic
from golden.stories import GAUSSIAN, THRESHOLDS, Story

DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
LINEAR = {
    "count": ("SELECT COUNT(*) AS n FROM visits", {"epsilon": 0.2}),
    "count by declared keys": ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", {"error": 80}),
    "sum where": (
        "SELECT ward AS place, urgent, SUM(minutes) AS m FROM visits WHERE age >= 40 GROUP BY place, urgent",
        {"epsilon": 0.5},
    ),
    "ratio ordered": (
        "SELECT ward, SUM(minutes) / COUNT(*) AS mean FROM visits GROUP BY ward ORDER BY ward DESC LIMIT 2",
        {"epsilon": 0.5},
    ),
    "case": (
        "SELECT SUM(CASE WHEN urgent THEN 1 ELSE 0 END) AS hurried, COUNT(*) AS n FROM visits WHERE ward IN ('A', 'B')",
        {"epsilon": 0.4},
    ),
    "having": ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING n > 100", {"epsilon": 0.4}),
    "again, less accurate": ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", {"error": 120}),
}
OWN = {
    "found keys": ("SELECT drug, COUNT(*) AS n FROM visits GROUP BY drug", {"epsilon": 1.0}),
    "found keys again": ("select v.drug, count(1) as many from visits v group by 1", {"epsilon": 0.5}),
    "found keys by error": ("SELECT drug, COUNT(*) AS n FROM visits WHERE urgent GROUP BY drug", {"error": 60}),
    "distinct units": (
        "SELECT ward, COUNT(DISTINCT patient_id) AS people FROM visits WHERE drug = 'statin' GROUP BY ward",
        {"epsilon": 1.0},
    ),
    "several aggregates": (
        "SELECT drug, COUNT(*) AS n, COUNT(cost) AS priced, AVG(cost) AS mean, COUNT(DISTINCT patient_id) AS people "
        "FROM visits GROUP BY drug HAVING people > 10 ORDER BY n DESC LIMIT 3",
        {"epsilon": 4.0},
    ),
    "bounds to be found": ("SELECT SUM(cost) AS total FROM visits", {"epsilon": 2.0}),
    "bounds that are written": (
        f"{DP}(epsilon = 1, delta = 1e-7, max_groups_contributed = 2, privacy_unit_column = patient_id) "
        "drug, SUM(cost, contribution_bounds_per_group => (0, 100)) AS total FROM visits GROUP BY drug",
        {},
    ),
    "rows of a unit": (
        f"{DP}(epsilon = 2, max_rows_contributed = 2, privacy_unit_column = patient_id) "
        "AVG(cost, contribution_bounds_per_row => (0, 90)) AS mean, COUNT(*) AS n FROM visits",
        {},
    ),
    "fewest units of a group": (
        f"{DP}(epsilon = 2, min_privacy_units_per_group = 5, group_selection_epsilon = 0.5) "
        "drug, COUNT(*) AS n FROM visits GROUP BY drug",
        {},
    ),
    "public groups": (
        f"{DP}(epsilon = 2, group_selection_strategy = PUBLIC_GROUPS) "
        "d.drug, COUNT(v.cost) AS n FROM visits v JOIN drugs d ON d.drug = v.drug GROUP BY d.drug",
        {},
    ),
    "anonymization": (
        "SELECT WITH ANONYMIZATION OPTIONS(epsilon = 1, kappa = 2) ward, ANON_SUM(cost CLAMPED BETWEEN 0 AND 50) "
        "AS total, ANON_AVG(minutes CLAMPED BETWEEN 0 AND 240) AS mean FROM visits GROUP BY ward",
        {},
    ),
    "spread": (
        "SELECT VAR_POP(cost) AS var, STDDEV_POP(cost) AS sd FROM visits WHERE drug <> 'rare'",
        {"epsilon": 4.0},
    ),
    "bounded spread": ("SELECT ward, ANON_VAR(cost, 0, 90) AS var FROM visits GROUP BY ward", {"epsilon": 4.0}),
    "extremes": ("SELECT MIN(cost) AS low, MAX(cost) AS high FROM visits", {"epsilon": 4.0}),
    "median": ("SELECT MEDIAN(cost) AS middle FROM visits", {"epsilon": 3.0}),
    "percentiles": (
        "SELECT ward, PERCENTILE_CONT(cost, 0.25, contribution_bounds_per_row => (0, 90)) AS low, "
        "PERCENTILE_CONT(cost, 0.75, contribution_bounds_per_row => (0, 90)) AS high FROM visits GROUP BY ward",
        {"epsilon": 4.0},
    ),
    "quantiles": (
        "SELECT APPROX_QUANTILES(cost, 4, contribution_bounds_per_row => (0, 90)) AS q FROM visits",
        {"epsilon": 3.0},
    ),
    "join": (
        "SELECT sex, COUNT(*) AS n, SUM(cost, contribution_bounds_per_group => (0, 200)) AS total "
        "FROM visits JOIN patients USING (patient_id) GROUP BY sex",
        {"epsilon": 2.0},
    ),
    "left join": (
        "SELECT town, COUNT(*) AS n FROM visits v LEFT JOIN patients p ON v.patient_id = p.patient_id GROUP BY town",
        {"epsilon": 2.0},
    ),
    "public join": (
        "SELECT floor, COUNT(*) AS n, SUM(price, contribution_bounds_per_group => (0, 40)) AS paid FROM visits "
        "JOIN wards USING (ward) JOIN drugs USING (drug) GROUP BY floor",
        {"epsilon": 2.0},
    ),
    "common table": (
        "WITH t AS (SELECT drug, COUNT(*) AS n FROM visits GROUP BY drug) SELECT drug, 2 * n AS twice FROM t "
        "WHERE n > 20 ORDER BY n",
        {"epsilon": 1.0, "fresh": True},
    ),
    "unit by unit": (
        "WITH each AS (SELECT patient_id, COUNT(*) AS visits, MAX(cost) AS dearest FROM visits GROUP BY patient_id) "
        "SELECT visits, COUNT(*) AS n FROM each WHERE dearest > 10 GROUP BY visits",
        {"epsilon": 1.0},
    ),
    "two private queries": (
        "SELECT 'a' AS what, n FROM (SELECT COUNT(*) AS n FROM visits WHERE drug = 'aspirin') "
        "UNION ALL SELECT 'b', n FROM (SELECT COUNT(*) AS n FROM visits WHERE drug = 'statin')",
        {"epsilon": 1.0},
    ),
    "union of units": (
        "SELECT g, COUNT(*) AS n FROM (SELECT patient_id, drug AS g FROM visits UNION ALL SELECT patient_id, town AS g "
        "FROM patients) AS all_of GROUP BY g",
        {"epsilon": 1.0},
    ),
    "except": (
        "SELECT COUNT(*) AS n FROM (SELECT patient_id FROM patients EXCEPT SELECT patient_id FROM visits) AS q",
        {"epsilon": 1.0},
    ),
    "months": (
        "SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS n FROM visits GROUP BY month ORDER BY month",
        {"epsilon": 2.0},
    ),
    "years": (
        "SELECT EXTRACT(YEAR FROM day) AS year, COUNT(*) AS n FROM visits "
        "WHERE day >= DATE '2024-01-01' AND day < DATE '2024-01-01' + INTERVAL 60 DAY GROUP BY year",
        {"epsilon": 2.0},
    ),
    "a sample": ("SELECT COUNT(*) AS n FROM visits TABLESAMPLE SYSTEM (25 PERCENT)", {"epsilon": 1.0}),
    "cases of text": (
        "SELECT CASE WHEN LOWER(note) LIKE 'call%' THEN 'call' ELSE SUBSTR(note, 1, 2) END AS what, COUNT(*) AS n "
        "FROM visits WHERE LENGTH(TRIM(note)) BETWEEN 1 AND 9 GROUP BY what",
        {"epsilon": 1.0},
    ),
    "arithmetic": (
        "SELECT SUM(GREATEST(0, LEAST(cost * 1.5 - 3, 80)), contribution_bounds_per_group => (0, 160)) AS s, "
        "SUM(COALESCE(ROUND(SQRT(cost), 2), 0) / NULLIF(minutes, 0), contribution_bounds_per_group => (-5, 5)) AS r "
        "FROM visits",
        {"epsilon": 2.0},
    ),
    "conditions": (
        "SELECT COUNTIF(cost > 40) AS dear, COUNT(*) AS n FROM visits WHERE drug IN (SELECT drug FROM drugs WHERE "
        "price < :most) AND NOT (ward = 'C' AND cost IS NULL)",
        {"epsilon": 1.0, "parameters": {"most": 8}},
    ),
    "in by itself": (
        "SELECT COUNT(*) AS n FROM visits WHERE patient_id IN (SELECT patient_id FROM patients WHERE town = 'Ulm')",
        {"epsilon": 1.0},
    ),
    "keys that are computed": (
        "SELECT ward, CAST(FLOOR(cost / 30) AS INTEGER) AS dear, COUNT(*) AS n FROM visits GROUP BY ward, dear",
        {"epsilon": 3.0},
    ),
}
NORM = {
    "bounded by one norm": (
        "SELECT drug, SUM(cost, contribution_bounds_per_group => (0, 100)) AS total FROM visits GROUP BY drug",
        {"epsilon": 2.0, "contribution": "l2"},
    ),
    "count by one norm": (
        "SELECT ward, COUNT(*, contribution_bounds_per_group => (0, 4)) AS n FROM visits GROUP BY ward",
        {"epsilon": 2.0, "contribution": "l2"},
    ),
}
PAIRS = {
    "covariance": (
        "SELECT COVAR_POP(minutes, cost) AS c, COVAR_SAMP(cost, age) AS s FROM visits WHERE drug <> 'rare'",
        {"epsilon": 4.0},
    ),
    "correlation": (
        f"{DP}(epsilon = 4, max_groups_contributed = 2) ward, ANON_CORR(age, cost, 18, 88, 0, 90) AS r, COUNT(*) AS n "
        "FROM visits GROUP BY ward HAVING r > -2",
        {},
    ),
    "correlation of rows": (
        f"{DP}(epsilon = 4, max_rows_contributed = 2) "
        "CORR(minutes, cost, contribution_bounds_per_row => ((0, 240), (0, 90))) AS r FROM visits",
        {},
    ),
}
# What depends on the noise law, again.
AGAIN = (
    *("found keys", "several aggregates", "bounds to be found", "bounds that are written", "quantiles", "join"),
    *("covariance", "correlation"),
)
ALL = OWN | NORM | PAIRS


def _asked(listed):
    return {
        name: lambda s, t, text=text, options=options: s.sql(text, **options)
        for name, (text, options) in listed.items()
    }


STORIES = [
    Story("statements_linear", GAUSSIAN, protect_clinic, _asked(LINEAR), dialects=True, html=True),
    Story("statements_gaussian", GAUSSIAN, protect_clinic, _asked(ALL), dialects=True),
    Story("statements_laplace", THRESHOLDS, protect_clinic, _asked({name: ALL[name] for name in AGAIN}), html=True),
]
