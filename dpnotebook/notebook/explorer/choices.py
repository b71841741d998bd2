"""The workloads that the strategy explorer offers, and how what a person types becomes one of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from dpnotebook.errors import AccuracyError, WorkloadError, shorten
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.strategy.strategy import unit_variance
from dpnotebook.workload import AllRange, Identity, Permuted, Prefix, WidthRange, Workload, marginals, prefix_marginals
from dpnotebook.workload.terms import sparse_terms

MOST_CELLS = 4096  # of one attribute: beyond these, nobody would wait
MOST_ATTRIBUTES = 100  # that a workload on offer may have
MOST_PRODUCTS = 20_000  # of a union: beyond these, nobody would wait
WIDTH = 32  # cells of the ranges of one width on offer, as in HDMM's tables
DELTA = 1e-6  # that Gaussian noise is compared at, where no other is given: that of HDMM's tables
OWN = "own"


@dataclass(frozen=True)
class Kind:
    """A workload on offer.

    Parameters
    ----------
    name, title
        What it is called here, and what a person reads.
    make
        Called with the cells of each attribute and the number of attributes of a marginal.
    code
        How to write it, with {n}, {width}, {shape} and {k} to be filled in.
    several
        Whether it is over several attributes.
    """

    name: str
    title: str
    make: Callable[[tuple[int, ...], int], Workload]
    code: str
    several: bool = False


KINDS = (
    Kind("ranges", "all ranges", lambda shape, k: AllRange(shape[0]), "AllRange({n})"),
    Kind("prefix", "cumulative counts", lambda shape, k: Prefix(shape[0]), "Prefix({n})"),
    Kind(
        "width",
        "ranges of one width",
        lambda shape, k: WidthRange(shape[0], min(WIDTH, shape[0])),
        "WidthRange({n}, {width})",
    ),
    Kind(
        "permuted",
        "permuted ranges",
        lambda shape, k: Permuted(AllRange(shape[0]), 0),
        "Permuted(dpn.workload.AllRange({n}), 0)",
    ),
    Kind("cells", "every cell", lambda shape, k: Identity(shape[0]), "Identity({n})"),
    Kind("marginals", "marginals", lambda shape, k: marginals(shape, upto=k), "marginals({shape}, upto={k})", True),
    Kind(
        "prefix_marginals",
        "prefix-marginals",
        lambda shape, k: prefix_marginals(shape, upto=k),
        "prefix_marginals({shape}, upto={k})",
        True,
    ),
)
BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True)
class ComparedWorkload:
    """What is to be compared.

    Parameters
    ----------
    workload
        What is to be answered.
    title
        In words.
    code
        How to write the workload.
    names
        What to call its attributes.
    """

    workload: Workload
    title: str
    code: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Privacy:
    """With which noise, and how much.

    Parameters
    ----------
    noise, epsilon, delta
        "laplace" without a delta, "gaussian" with one.
    """

    noise: Noise
    epsilon: float
    delta: float = 0.0

    @property
    def unit_variance(self) -> float:
        """Variance of the noise on one measurement of sensitivity one."""
        return unit_variance(self.noise, self.epsilon, self.delta)


def question(name: str, cells: str, k: int) -> ComparedWorkload:
    """Return the workload that a person chose.

    Parameters
    ----------
    name
        Of one of `KINDS`.
    cells
        Numbers of cells, such as "256" or "2, 5, 50, 100".
    k
        Most attributes of a marginal.

    Raises
    ------
    WorkloadError
        If there is no such workload, or it is too large to compare while somebody waits.
    """
    kind = BY_NAME[name]
    shape = sizes(cells, kind.several)
    ways = min(k, len(shape))
    workload = checked(kind.make(shape, ways))
    code = "dpn.workload." + kind.code.format(n=shape[0], width=min(WIDTH, shape[0]), shape=shape, k=ways)
    if kind.several:
        title = f"{kind.title} of up to {ways} of {len(shape)} attributes of {' × '.join(map(str, shape))} cells"
    else:
        title = f"{kind.title} over {shape[0]:,} cells"
    if kind.name == "width":
        title = f"ranges of {min(WIDTH, shape[0])} of {shape[0]:,} cells"
    return ComparedWorkload(workload, title, code, attribute_names(workload))


def sizes(text: str, several: bool) -> tuple[int, ...]:
    """Return the numbers of cells in a text; one of them, unless there may be several."""
    words = [word for word in re.split(r"[\s,;x×()]+", text) if word]
    if not words or not all(re.fullmatch(r"\d{1,9}", word) and int(word) for word in words):
        example = '"2, 5, 50, 100"' if several else '"256"'
        raise WorkloadError(f"cells are whole numbers above 0, such as {example}, not {shorten(text.strip())}")
    if len(words) > 1 and not several:
        raise WorkloadError(f"these queries are over one attribute: give one number of cells, not {len(words)}")
    found = tuple(map(int, words))
    if len(found) > MOST_ATTRIBUTES or max(found) > MOST_CELLS:
        raise WorkloadError(TOO_LARGE)
    return found


TOO_LARGE = (
    f"this compares strategies for up to {MOST_CELLS:,} cells an attribute, {MOST_ATTRIBUTES} attributes and "
    f"{MOST_PRODUCTS:,} marginals while you wait; dpn.strategy.select takes larger ones"
)


def checked(workload: Workload) -> Workload:
    """Return the workload, or raise WorkloadError if comparing strategies for it would take too long."""
    found = sparse_terms(workload)
    shape, products = ((workload.shape[1],), 1) if found is None else (found[0], len(found[1]))
    if max(shape) > MOST_CELLS or len(shape) > MOST_ATTRIBUTES or products > MOST_PRODUCTS:
        raise WorkloadError(TOO_LARGE)
    return workload


def privacy(noise: Noise, epsilon: str, delta: str) -> Privacy:
    """Return epsilon and delta as a person typed them.

    Raises
    ------
    AccuracyError
        If they are no numbers, or not in their range.
    """
    found = Privacy(noise, _number(epsilon, "epsilon"), _number(delta, "delta") if law_of(noise).needs_delta else 0.0)
    try:
        _ = found.unit_variance
    except ArithmeticError:
        raise AccuracyError(
            f"no error can be computed for epsilon = {found.epsilon:g}: write one nearer to 1"
        ) from None
    return found


def attribute_names(workload: Workload) -> tuple[str, ...]:
    """Return what to call the attributes of a workload whose domain has no names."""
    found = sparse_terms(workload)
    return tuple(f"#{number}" for number in range(1, 1 + (1 if found is None else len(found[0]))))


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise AccuracyError(
            f"{what} must be a number, such as {'1e-6' if what == 'delta' else '1'}, not {shorten(text)}"
        ) from None
