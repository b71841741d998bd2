"""Shared by the tests: random workloads, workloads built row by row from definitions, and a table of made-up people."""

import gc
import importlib.util
import os
import sys
from contextlib import nullcontext
from functools import cache, reduce
from pathlib import Path
from types import SimpleNamespace

if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the processors: threads of BLAS would wait for each other
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
else:  # workers keep what they free for their next arrays: the system takes longer to hand out pages than to fill them
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(2**30))
    os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(2**30))

os.environ["DPNOTEBOOK_CACHE"] = "off"  # nothing of the user's is read or written; tests of the folder name their own

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from dpnotebook.domain import Bins, Range
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.randomness import Randomness
from dpnotebook.session.session import Session
from dpnotebook.testing import exact_session
from dpnotebook.workload import (
    AllRange,
    Centred,
    Coarse,
    Difference,
    Explicit,
    Fourier,
    Hierarchy,
    Identity,
    Kron,
    Marginals,
    Ones,
    Padded,
    Permuted,
    PIdentity,
    Predicates,
    Prefix,
    Stack,
    Toeplitz,
    Total,
    Wavelet,
    Weighted,
    WeightedRows,
    WidthRange,
)

SAME_CHANCE = os.environ.get("DPNOTEBOOK_SAME_CHANCE") == "1"  # as in CI: what has passed passes again

# Wall clocks say nothing where other processes have the machine.
settings.register_profile(
    "any clock",
    settings.default,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=SAME_CHANCE,
    **({"database": None} if SAME_CHANCE else {}),
)
settings.load_profile("any clock")


def _load(name, path):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


clocks = _load("clocks", "clocks.py")
card_texts = _load("card_texts", "notebook/card_texts.py")
noise_laws = _load("noise_laws", "noise_laws.py")
servers = _load("servers", "engine/servers.py")
same_table = _load("same_table", "engine/same_table.py")
spends = _load("spends", "spends.py")
published_descent = _load("published_descent", "strategy/published_descent.py")
fresh = _load("fresh", "fresh.py")
privacy_part = _load("privacy_part", "privacy_part.py")
quick_part = _load("quick_part", "quick_part.py")
thinned = _load("thinned", "thinned.py")
together = _load("together", "together.py")
compiled = _load("compiled", "compiled.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let tests that wait for one slow server run in one worker, which starts it once."""
    if config.getoption("dist") != "loadfile":
        return None
    return together.Scheduling(config, log)


def pytest_ignore_collect(collection_path, config):
    """Read only the files of a part where nothing else is asked for: reading all takes longer."""
    part = {"privacy": privacy_part, "quick": quick_part}.get(config.getoption("markexpr"))
    if part is not None and collection_path.name.startswith("test_"):
        return not part.has_part(collection_path.relative_to(Path(__file__).parent).as_posix()) or None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Compile each file of tests once, whichever worker comes to it first."""
    with compiled.by_one_worker(collector.path) if isinstance(collector, pytest.Module) else nullcontext():
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what belongs to the quick parts, and what takes minutes; put what takes longest first."""
    items.sort(key=lambda item: together.place_of(item.nodeid))
    for item in thinned.left_out(items):
        item.add_marker(pytest.mark.slow)
    for item in items:
        if item.path.name in ("published.ipynb", "tour.ipynb"):  # the latter is run by test_tour, from the wheel
            item.add_marker(pytest.mark.slow)
        file = _file_of_tests(item.path)
        if file is not None:
            if privacy_part.is_part(file, getattr(item, "originalname", None) or item.name):
                item.add_marker(pytest.mark.privacy)
            if SAME_CHANCE and not item.get_closest_marker("privacy") and isinstance(item, pytest.Function):
                thinned.with_fewer_examples(item.obj)
            chosen = quick_part.has_part(file)
            if chosen and not any(item.get_closest_marker(name) for name in ("slow", "statistical")):
                item.add_marker(pytest.mark.quick)


@cache  # files are hundreds, tests are thousands
def _file_of_tests(path):
    here = Path(__file__).parent
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for garbage seldom, and never among the tests themselves: a tenth of the time of most tests went there."""
    gc.disable()  # 700,000 objects are made, none of them garbage
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


def _fix_noise(patch):
    """Let noise, keys of samples, and what generators without a seed draw be those of one stream from its beginning."""
    drawn, generator = Randomness(bytes(32)).source("tests"), np.random.default_rng
    for module in ("noise", "noise_down", "randomness"):  # the others take it from the last one when they are imported
        patch.setattr(f"dpnotebook.privacy.{module}.random_bytes", drawn)
    patch.setattr("dpnotebook.ledger.writing.secrets", SimpleNamespace(token_bytes=drawn))
    patch.setattr(np.random, "default_rng", lambda seed=None: generator(list(drawn(32)) if seed is None else seed))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """In CI draw the same noise at every run of a test, but where that is what is tested."""
    if not SAME_CHANCE or item.get_closest_marker("fresh_noise"):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        _fix_noise(patch)
        return (yield)


@pytest.fixture
def same_noise(monkeypatch):
    """Draw the same noise and samples at every run: for tests of what becomes of them, not of how they are drawn."""
    _fix_noise(monkeypatch)


@pytest.fixture(scope="session")
def postgres():
    """Return the address of an empty PostgreSQL server."""
    with servers.running_postgres() as address:
        yield address


@pytest.fixture(scope="session")
def spark():
    """Return a Spark session on this machine."""
    with servers.running_spark() as session:
        yield session


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """Return an environment with the wheel of this repository in it, and nothing else of it."""
    return fresh.install(tmp_path_factory.mktemp("fresh"))


@pytest.fixture(scope="session")
def toured(installed, tmp_path_factory):
    """Return a folder where `dpnotebook tour --run` has run, cut off from the network; its name needs quoting."""
    folder = tmp_path_factory.mktemp("an empty folder, café")
    found = installed.run("tour", "--run", cwd=folder, alone=True)
    assert found.returncode == 0, found.stdout + found.stderr
    return folder, found


@pytest.fixture(scope="session")
def plotted(tmp_path_factory):
    """Return a function that makes a notebook of some cells, run as nbconvert and papermill do: with nobody there."""
    made = {}

    def run(cells):
        from nbclient import NotebookClient
        from nbformat.v4 import new_code_cell, new_notebook

        if tuple(cells) not in made:
            notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
            where = {"metadata": {"path": str(tmp_path_factory.mktemp("run"))}}
            client = NotebookClient(
                notebook, timeout=None, kernel_name="python3", store_widget_state=False, resources=where
            )
            client.execute()
            made[tuple(cells)] = notebook
        return made[tuple(cells)]

    return run


def _by_definition(w):
    if isinstance(w, Identity):
        return np.eye(w.n)
    if isinstance(w, Total):
        return np.ones((1, w.n))
    if isinstance(w, Prefix):
        return np.array([[float(j <= i) for j in range(w.n)] for i in range(w.n)])
    if isinstance(w, AllRange):
        ranges = [(s, e) for s in range(w.n) for e in range(s, w.n)]
        return np.array([[float(s <= j <= e) for j in range(w.n)] for s, e in ranges])
    if isinstance(w, Hierarchy):
        rows = []
        for level in range(w.levels):
            size = w.branching**level
            for start in range(0, w.n, size):
                rows.append([float(start <= j < start + size) for j in range(w.n)])
        return np.array(rows)
    if isinstance(w, Explicit):
        return np.array(w.matrix, dtype=float)
    if isinstance(w, Kron):
        return reduce(np.kron, map(_by_definition, w.factors))
    if isinstance(w, Stack):
        return np.vstack([_by_definition(part) for part in w.parts])
    if isinstance(w, WidthRange):
        return np.array([[float(i <= j < i + w.width) for j in range(w.n)] for i in range(w.n - w.width + 1)])
    if isinstance(w, Ones):
        return np.ones((w.m, w.n))
    if isinstance(w, Padded):
        return np.hstack([_by_definition(w.workload), np.zeros((w.shape[0], w.extra))])
    if isinstance(w, Predicates):
        rows = np.zeros(w.shape)
        for row, (first, last) in enumerate(zip(w.offsets, w.offsets[1:], strict=False)):
            for run in range(first, last):
                rows[row, w.starts[run] : w.ends[run]] = 1
        return rows
    if isinstance(w, Coarse):
        rows = np.zeros(w.shape)
        for run, (first, end) in enumerate(zip(w.edges[:-1], w.edges[1:], strict=True)):
            rows[:, first:end] = _by_definition(w.workload)[:, [run]]
        return rows
    if isinstance(w, Toeplitz):
        return np.array([[float(w.coefficients[i - j]) if j <= i else 0.0 for j in range(w.n)] for i in range(w.n)])
    if isinstance(w, Permuted):
        rows = np.empty(w.shape)
        inner = _by_definition(w.workload)
        for place, cell in enumerate(w.order):
            rows[:, cell] = inner[:, place]
        return rows
    if isinstance(w, PIdentity):
        return np.vstack([np.diag(w.diagonal), w.extra]).astype(float)
    if isinstance(w, Difference):
        return _by_definition(w.left) - _by_definition(w.right)
    if isinstance(w, WeightedRows):
        return w.weights[:, None] * _by_definition(w.workload)
    if isinstance(w, Wavelet | Fourier):  # held to their definitions by tests of their own
        return w.dense().astype(float)
    if isinstance(w, Centred):
        return w.n * np.eye(w.n) - 1
    if isinstance(w, Marginals):
        rows = []
        for subset, weight in w.weights:
            factors = [_by_definition(f) if i in subset else np.ones((1, f.shape[1])) for i, f in enumerate(w.factors)]
            rows.append(weight * reduce(np.kron, factors))
        return np.vstack(rows)
    return w.weight * _by_definition(w.workload)


@cache  # Hypothesis looks a strategy over once
def _leaf(n):
    basic = [st.just(kind(n)) for kind in (Identity, Total, Prefix, AllRange)]
    trees = st.integers(2, max(2, n)).flatmap(
        lambda b: st.integers(1, Hierarchy(n, b).levels).map(lambda levels: Hierarchy(n, b, levels))
    )
    rows = st.lists(st.lists(st.integers(-2, 3), min_size=n, max_size=n), min_size=1, max_size=4)
    explicit = rows.filter(lambda matrix: np.any(matrix)).map(Explicit)
    width = st.integers(1, n).map(lambda width: WidthRange(n, width))
    masks = st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=4)
    predicates = masks.filter(np.any).map(Predicates)
    permuted = st.permutations(range(n)).map(lambda order: Permuted(AllRange(n), order))
    padded = st.just(Padded(Prefix(n - 1), 1) if n > 1 else Ones(1, 2))
    more = st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1, max_size=3)
    p_identity = more.map(lambda extra: PIdentity(5 + np.arange(n), extra))
    coarse = st.sets(st.integers(0, n), min_size=2).map(lambda found: _coarse(sorted(found), n))
    toeplitz = st.lists(st.integers(-1, 1), min_size=n - 1, max_size=n - 1).map(lambda rest: Toeplitz([4, *rest]))
    rest = (permuted, padded, p_identity, coarse, toeplitz, _difference(n))
    return st.one_of(*basic, trees, explicit, width, predicates, *rest)


def _coarse(edges, n):
    return Coarse(Explicit(np.arange(2 * (len(edges) - 1)).reshape(2, -1) - 1), edges, n)


def _difference(n):
    entries = st.lists(st.integers(-2, 3), min_size=n, max_size=n).filter(any)
    two = st.tuples(entries, entries).filter(lambda pair: pair[0] != pair[1])
    return two.map(lambda pair: Difference(Explicit([pair[0]]), Explicit([pair[1]])))


@cache
def _over(n, depth, integer):
    leaf = _leaf(n)
    if depth == 0:
        return leaf
    inner = _over(n, depth - 1, integer)
    weight = st.integers(1, 5) if integer else st.one_of(st.integers(1, 5), st.sampled_from([0.5, 1.25, 2.5]))
    splits = [(a, n // a) for a in range(1, n + 1) if n % a == 0]
    kron = st.sampled_from(splits).flatmap(
        lambda split: st.tuples(*(_over(size, depth - 1, integer) for size in split)).map(lambda two: Kron(*two))
    )
    stack = st.lists(inner, min_size=1, max_size=3).map(lambda parts: Stack(*parts))
    return st.one_of(leaf, kron, stack, st.tuples(weight, inner).map(lambda pair: Weighted(*pair)))


@pytest.fixture(scope="session")
def by_definition():
    """Return the function that builds a workload's matrix entry by entry."""
    return _by_definition


@pytest.fixture(scope="session")
def workloads():
    """Return a Hypothesis strategy for workloads over n cells, two levels of Kron, Stack and Weighted deep."""

    def over(n=None, integer=False, depth=2):
        sizes = st.integers(1, 12) if n is None else st.just(n)
        return sizes.flatmap(lambda size: _over(size, depth, integer))

    return over


PEOPLE = {
    "age": Range(0, 99),
    "sex": ["F", "M"],
    "region": ["north", "east", "south", "west"],
    "income": Bins(0, 100_000, width=10_000),
    "smokes": bool,
}


@pytest.fixture
def people():
    """Return a made-up table of 400 people."""
    rng = np.random.default_rng(11)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 100, 400),
            "sex": rng.choice(["F", "M"], 400),
            "region": rng.choice(["north", "east", "south", "west"], 400),
            "income": rng.uniform(0, 100_000, 400).round(2),
            "smokes": rng.choice([True, False], 400),
        }
    )


@pytest.fixture
def opened(people, monkeypatch):
    """Return a function that makes a session with the people protected in it; `exact=True` leaves the noise out."""
    made = []

    def open_session(epsilon=1.0, delta=0.0, *, exact=False, frame=None, domain=PEOPLE, ledger=":memory:", **options):
        if exact:
            monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
        session = (exact_session if exact else Session)(Budget(epsilon, delta), ledger)
        made.append(session)
        session.protect(people if frame is None else frame, "people", domain=domain, **options)
        return session

    yield open_session
    for session in made:
        session.close()
