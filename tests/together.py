"""Which tests run in the same worker of pytest-xdist: those of a file, and those that wait for one slow server.

Spark is slow until the Java machine has warmed up, some thirty seconds of processor time; JupyterLab and Chromium start
in ten. Each is started, and warmed up, once. So is what browsers and others look at: an installed wheel with its tour,
and a notebook of all plots.
"""

from xdist.scheduler import LoadFileScheduling

BROWSER = "tests/browser/"
SPARK = "spark"
SHOWN = ("tests/test_tour.py", "tests/notebook/test_exports.py")  # beside the browsers that look at what these make
LONGEST = (  # what takes over 15 s of processor time, as measured in a whole run
    BROWSER,
    SPARK,
    *("tests/promises/test_promises_of_sessions.py", "tests/test_derived_intervals.py", "tests/test_privacy.py"),
    *("tests/sql/test_sql_privacy.py", "tests/golden/test_golden.py", "tests/test_growing_tables.py"),
    *("tests/sql/test_pieces.py", "tests/sql/test_spans_of_days.py", "tests/sql/test_bounded_apart.py"),
    *("tests/sql/test_together_and_after.py", "tests/promises/test_mixed_sessions.py", "tests/test_profiles.py"),
    *("tests/test_within.py", "tests/sql/test_influence.py", "tests/engine/test_forms.py"),
    *("tests/sql/test_distinct_values.py", "tests/sql/test_rolled_up.py", "tests/sql/test_weighted_means.py"),
    *("tests/test_forks.py", "tests/test_after_charge.py", "tests/test_first_look.py", "tests/test_statistics.py"),
    *("tests/test_running_count.py", "tests/test_quantile_rows.py"),
    *("tests/test_quality.py", "tests/test_moments.py", "tests/test_wide_habits.py"),  # would be among the last
)


def scope_of(nodeid):
    """Return what the tests have in common that run in one worker, one after another.

    Parameters
    ----------
    nodeid
        Of a test, as pytest writes it: one that needs Spark says so in its name or in the name of its parameters.
    """
    if nodeid.startswith((BROWSER, *SHOWN)):
        return BROWSER
    return SPARK if SPARK in nodeid.lower() else nodeid.partition("::")[0]


def place_of(nodeid):
    """Return where in the order of tests one stands: what takes longest starts first, so that no worker ends alone."""
    scope = scope_of(nodeid)
    return LONGEST.index(scope) if scope in LONGEST else len(LONGEST)


class Scheduling(LoadFileScheduling):
    """Gives whole files to workers, but all tests of a slow server to one."""

    def _split_scope(self, nodeid):
        return scope_of(nodeid)
