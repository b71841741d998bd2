"""Every strategy by name, those first that take no time: what somebody who compares strategies runs through."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpnotebook.errors import WorkloadError
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.progress import Progress, silent
from dpnotebook.strategy.baselines import hierarchical, identity, itself
from dpnotebook.strategy.competitors.coa import coa
from dpnotebook.strategy.competitors.datacube import datacube
from dpnotebook.strategy.competitors.fourier import fourier
from dpnotebook.strategy.competitors.greedy_h import greedy_h
from dpnotebook.strategy.competitors.lrm import lrm
from dpnotebook.strategy.competitors.trees import h2, hb, wavelet
from dpnotebook.strategy.eigen.design import eigen_design
from dpnotebook.strategy.eigen.weighted_basis import weighted_basis
from dpnotebook.strategy.explicit import FLAT_CELLS, LARGEST, explicit_choice, opt_0
from dpnotebook.strategy.marginals import opt_marginals
from dpnotebook.strategy.operators import opt_product, opt_union
from dpnotebook.strategy.registry import Registration, suiting
from dpnotebook.strategy.residual import opt_residual
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.toeplitz import toeplitz
from dpnotebook.workload import Identity, Total, Workload
from dpnotebook.workload.terms import sparse_terms

MOST_CELLS = 2048  # beyond these, a strategy of somebody else's is not worth the wait
MOST_LOW_RANK = 256  # cells of an attribute, for the two whose steps take longest
MOST_ATTRIBUTES = 18  # whose sets are all looked at
MOST_PARTS = 1000  # products that get a strategy each
MOST_TERMS = 5000  # products of a union that are measured as they are, where attributes are asked in several ways


@dataclass(frozen=True)
class Form:
    """What a workload looks like to those who offer strategies.

    Parameters
    ----------
    attributes
        Number of attributes.
    cells
        Largest number of cells of one of them.
    products
        Number of products that the workload is a union of.
    ordered
        Whether some attribute is asked for more than its levels and their total.
    alike
        Whether all products are over the same attributes.
    together
        Number of cells of all attributes together.
    """

    attributes: int
    cells: int
    products: int
    ordered: bool
    alike: bool = True
    together: int = 0


@dataclass(frozen=True)
class Candidate:
    """A way to choose what to measure.

    Parameters
    ----------
    name
        The function's name in `dpnotebook.strategy`.
    title
        What to call it.
    about
        What it measures, in a line.
    make
        Called with a workload, the noise, and what is told of progress (and may raise to stop).
    refusal
        Why it does not suit a workload of some form and noise; empty where it does.
    optimized
        Whether it searches for what suits the workload, which takes a while.
    written
        How to write the function; its name in `dpn.strategy`, unless given.
    """

    name: str
    title: str
    about: str
    make: Callable[[Workload, Noise, Progress], Strategy]
    refusal: Callable[[Form, Noise], str]
    optimized: bool = False
    written: str = ""

    @property
    def code(self) -> str:
        """How to write the function that makes it."""
        return self.written or f"dpn.strategy.{self.name}"


def candidates(workload: Workload, noise: Noise = "laplace") -> list[Candidate]:
    """Return the candidates that suit a workload, those first that take no time, and last those that are registered.

    Parameters
    ----------
    workload
        What is to be answered.
    noise
        "laplace" or "gaussian".
    """
    own = candidates_of_this_package(workload, noise)
    return [*own, *map(_registered, suiting(workload, noise))]


def candidates_of_this_package(workload: Workload, noise: Noise) -> list[Candidate]:
    """Return the candidates that suit a workload, without those that are registered."""
    found = form(workload)
    return [candidate for candidate in CANDIDATES if not candidate.refusal(found, noise)]


def form(workload: Workload) -> Form:
    """Return what a workload looks like; of one whose products are over different attributes, over all its cells."""
    products = sparse_terms(workload)
    if products is None:
        return Form(1, workload.shape[1], 1, True, False, workload.shape[1])
    sizes, parts = products
    ordered = any(not isinstance(factor, Identity | Total) for part in parts for factor in part.factors)
    return Form(len(sizes), max(sizes), len(parts), ordered, together=math.prod(sizes))


def made(candidate: Candidate, workload: Workload, noise: Noise = "laplace", *, report: Progress = silent) -> Strategy:
    """Return the strategy that a candidate makes for a workload.

    Parameters
    ----------
    candidate
        One of `candidates(workload, noise)`.
    workload, noise
        What is to be answered, and with which noise.
    report
        Told of progress; may raise to stop.

    Raises
    ------
    WorkloadError
        If the candidate cannot be made for this workload, or does not determine all of its answers.
    """
    strategy = candidate.make(workload, noise, report)
    if strategy.objective == float("inf"):
        raise WorkloadError("these measurements do not determine every answer")
    return strategy


def _registered(one: Registration) -> Candidate:
    written = f'dpn.strategy.registered()["{one.name}"]'
    return Candidate(one.name, one.title, one.about, _plain(one), _always, optimized=True, written=written)


def _plain(function: Callable[..., Strategy]) -> Callable[[Workload, Noise, Progress], Strategy]:
    return lambda workload, noise, report: function(workload, noise)


def _always(found: Form, noise: Noise) -> str:
    return ""


def _few_products(found: Form, noise: Noise) -> str:
    return "" if found.products <= MOST_TERMS else f"the queries of {found.products:,} products are too many to weigh"


def _ordered(found: Form, noise: Noise) -> str:
    if not found.alike:
        return "it is for parts over the same attributes"
    return "" if found.ordered else "no attribute is asked for more than its levels"


def _toeplitz(found: Form, noise: Noise) -> str:
    return _ordered(found, noise) if law_of(noise).euclidean else "it is for Gaussian noise"


def _greedy(found: Form, noise: Noise) -> str:
    return _ordered(found, noise) or ("" if found.cells <= MOST_CELLS else f"{found.cells:,} cells take minutes")


def _single(found: Form, noise: Noise) -> str:
    if found.attributes > 1:
        if found.products == 1:
            return "a product is measured by the best of its factors"
        few = found.together <= FLAT_CELLS[noise, "full"]
        return "" if few else f"{found.together:,} cells are too many to search at once"
    return "" if found.cells <= LARGEST[noise] else f"{found.cells:,} cells are too many to search"


def _alike(found: Form, noise: Noise) -> str:
    if found.attributes < 2:
        return "it is for several attributes"
    return "" if found.products <= MOST_TERMS else f"{found.products:,} products are too many"


def _parts(found: Form, noise: Noise) -> str:
    if found.products < 2:
        return "it is for a union of products"
    return "" if found.products <= MOST_PARTS else f"{found.products:,} products are too many"


def _eigen(found: Form, noise: Noise) -> str:
    if found.attributes > 1 and found.products > 1:
        return "it is for a product, or for one attribute"
    return "" if found.cells <= MOST_CELLS else f"{found.cells:,} cells take minutes"


def _low_rank(found: Form, noise: Noise) -> str:
    return _eigen(found, noise) or ("" if found.cells <= MOST_LOW_RANK else f"{found.cells:,} cells take minutes")


def _coa(found: Form, noise: Noise) -> str:
    return _low_rank(found, noise) if law_of(noise).euclidean else "it is for Gaussian noise"


def _marginals(found: Form, noise: Noise) -> str:
    if found.attributes < 2:
        return "it is for several attributes"
    return "it is for the counts of levels" if found.ordered else ""


def _several(found: Form, noise: Noise) -> str:
    return "" if found.attributes > 1 else "it is for several attributes"


def _opt_marginals(found: Form, noise: Noise) -> str:
    if law_of(noise).euclidean:
        return "for Gaussian noise, residuals are the optimum"
    return _several(found, noise) or ("" if found.attributes <= MOST_ATTRIBUTES else "these are too many attributes")


def _residual(found: Form, noise: Noise) -> str:
    if not law_of(noise).euclidean:
        return "it is for Gaussian noise"
    return _several(found, noise)


CANDIDATES: tuple[Candidate, ...] = (
    Candidate("identity", "identity", "the count of every cell", _plain(identity), _always),
    Candidate("itself", "workload itself", "the queries that are asked, all alike", _plain(itself), _few_products),
    Candidate("h2", "binary tree (H2)", "counts of halves, quarters, ... down to the cells", _plain(h2), _ordered),
    Candidate("hb", "wide tree (HB)", "a tree of the branching that suits all ranges", _plain(hb), _ordered),
    Candidate("wavelet", "wavelet", "differences of neighbouring halves (Privelet)", _plain(wavelet), _ordered),
    Candidate("hierarchical", "hierarchy", "the best of all trees of counts", _plain(hierarchical), _ordered),
    Candidate("toeplitz", "Toeplitz square root", "running counts, taken half of the way", _plain(toeplitz), _toeplitz),
    Candidate("greedy_h", "GreedyH", "a binary tree, its nodes weighted one by one", _plain(greedy_h), _greedy),
    Candidate("fourier", "Fourier", "the parities that the marginals need", _plain(fourier), _marginals),
    Candidate("datacube", "DataCube", "some of the marginals, all alike", _plain(datacube), _marginals),
    Candidate(
        "weighted_basis",
        "weighted wavelet",
        "the wavelet's differences, each with the best weight",
        lambda workload, noise, report: weighted_basis(workload, "wavelet", noise, report=report),
        lambda found, noise: _ordered(found, noise) or _eigen(found, noise),
        optimized=True,
    ),
    Candidate(
        "eigen_design",
        "eigen-design",
        "the queries' own directions, each with the best weight",
        lambda workload, noise, report: eigen_design(workload, noise, report=report),
        _eigen,
        optimized=True,
    ),
    Candidate(
        "opt_0",
        "optimised (OPT_0)",
        "whatever a search over all that could be measured finds",
        lambda workload, noise, report: opt_0(workload, noise, report=report),
        _single,
        optimized=True,
    ),
    Candidate(
        "opt_product",
        "product (OPT_x)",
        "the best operator of each attribute, in every combination",
        lambda workload, noise, report: opt_product(workload, noise, report=report),
        _alike,
        optimized=True,
    ),
    Candidate(
        "opt_union",
        "one a part (OPT_+)",
        "a product strategy for each part, and how much of each",
        lambda workload, noise, report: opt_union(workload, noise, report=report),
        _parts,
        optimized=True,
    ),
    Candidate(
        "opt_marginals",
        "marginals (OPT_M)",
        "marginals, each with a weight of its own",
        lambda workload, noise, report: opt_marginals(
            workload, noise, choose=explicit_choice(noise, report=report), report=report
        ),
        _opt_marginals,
        optimized=True,
    ),
    Candidate(
        "opt_residual",
        "residuals",
        "what every set of attributes adds to the smaller sets",
        lambda workload, noise, report: opt_residual(workload, report=report),
        _residual,
        optimized=True,
    ),
    Candidate(
        "lrm",
        "low rank (LRM)",
        "whatever a descent over all that could be measured comes to",
        lambda workload, noise, report: lrm(workload, noise, report=report),
        _low_rank,
        optimized=True,
    ),
    Candidate(
        "coa",
        "COA",
        "the optimum, by Newton's method",
        lambda workload, noise, report: coa(workload, noise, report=report),
        _coa,
        optimized=True,
    ),
)
