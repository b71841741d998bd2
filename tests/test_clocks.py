"""No test reads the clock on the wall: what it says is about the other programs of the machine."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
WALL = {
    "time": {"time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"},
    "timeit": {"default_timer", "timeit", "repeat", "Timer"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "Timestamp": {"now", "utcnow", "today"},
}
SEEN = re.compile(r"perf_counter|monotonic|time_ns|timeit|default_timer|now\b|today|time\.time\b|time as|from time\b")
ALLOWED = {"clocks.py", "mutant.py"}  # the one place where tests wait; and what reports how long a study took


def wall_clocks(source):
    """Return the lines of a program that name a clock on the wall."""
    found = []
    for node in ast.walk(ast.parse(source)) if SEEN.search(source) else ():
        if isinstance(node, ast.ImportFrom):
            found += [node.lineno for name in node.names if name.name in WALL.get(node.module, ()) or name.name == "*"]
        elif isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", None)
            # datetime.time is a type, time.time a clock
            if node.attr in WALL.get(owner, ()) or (isinstance(node.value, ast.Call) and node.attr in WALL["datetime"]):
                found.append(node.lineno)
        elif isinstance(node, ast.Import):
            found += [node.lineno for name in node.names if name.name in ("time", "timeit") and name.asname]
    return found


FILES = [path for path in sorted(TESTS.rglob("*.py")) if "benchmarks" not in path.parts and path.name not in ALLOWED]


def test_no_test_reads_the_clock_on_the_wall():
    assert len(FILES) > 100
    found = {str(path.relative_to(TESTS)): wall_clocks(path.read_text()) for path in FILES}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        ("import time\nassert time.perf_counter() - t < 5", [2]),
        ("from time import monotonic", [1]),
        ("import time as t", [1]),
        ("import datetime\nd = datetime.datetime.now()", [2]),
        ("from datetime import datetime\nd = datetime.now(utc)", [2]),
        ("import timeit\ntimeit.timeit(f)", [2]),
        ("end = time.time() + 3\nwhile time.time() < end: pass", [1, 2]),
        (
            "import time, datetime\ntime.process_time(); time.sleep(1); datetime.time(1)",
            [],
        ),
    ],
)
def test_what_reads_it_is_seen(program, lines):
    assert sorted(wall_clocks(program)) == lines
