"""Which tests run in the same worker of pytest-xdist: those of a file, and those that wait for one slow server.

Spark is slow until the Java machine has warmed up, some thirty seconds of processor time; JupyterLab and Chromium start
in ten. Each is started, and warmed up, once. So is what browsers and others look at: an installed wheel with its tour,
and a notebook of all plots.
"""

from xdist.scheduler import LoadFileScheduling

BROWSER = "tests/browser/"
SPARK = "spark"
SHOWN = ("tests/test_tour.py", "tests/notebook/test_exports.py")  # beside the browsers that look at what these make
LONGEST = (
    BROWSER,
    SPARK,
    *("tests/test_within.py", "tests/test_derived_intervals.py", "tests/test_moments.py"),
    *("tests/test_privacy.py", "tests/test_growing_tables.py", "tests/test_statistics.py", "tests/sql/test_reuse.py"),
    *("tests/test_quality.py", "tests/golden/test_golden.py", "tests/sql/test_meaning.py", "tests/test_profiles.py"),
    "tests/test_wide_habits.py",  # which would be among the last
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
