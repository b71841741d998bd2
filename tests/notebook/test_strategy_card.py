"""What a strategy shows at the end of a cell, and its figures."""

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError, WorkloadError
from dpnotebook.workload import AllRange, Identity, Kron, Prefix, marginals


def test_a_strategy_says_what_it_measures(page):
    found = dpn.strategy.h2(AllRange(16))
    assert repr(found).splitlines()[:2] == [
        "Strategy: H2",
        "  136 answers from 31 measurements, sensitivity 5; Laplace noise",
    ]
    assert f"{found.optimality:.2f}"[:3] in repr(found)
    bundle = found._repr_mimebundle_()
    parsed = page(bundle["text/html"])
    assert "Strategy: H2" in parsed.text
    assert any(alt.startswith("heat map of 31 by 16") for alt in parsed.alts)
    assert bundle["text/plain"] == repr(found)


def test_the_optimum_says_so():
    assert "the best possible" in repr(dpn.strategy.identity(Identity(5)))
    assert "the best possible" in repr(dpn.strategy.opt_residual(marginals((2, 3, 4), 2)))


def test_names_are_escaped(page, evil):
    found = dpn.strategy.Strategy(Identity(3), Identity(3), "laplace", evil)
    assert evil in page(found._repr_mimebundle_()["text/html"]).text


def test_what_is_measured_is_plotted_to_scale():
    (heat,) = dpn.strategy.h2(Prefix(8)).plot().data
    assert heat.type == "heatmap"
    assert np.abs(heat.z).sum(axis=0) == pytest.approx(np.ones(8))
    (shares,) = dpn.strategy.opt_residual(marginals((2, 3), 1)).plot().data
    assert shares.type == "bar"
    assert sum(shares.x) == pytest.approx(100)


def test_each_attribute_has_a_figure():
    found = dpn.strategy.h2(Kron(Prefix(4), Prefix(8)))
    assert [found.plot(part=part).data[0].z.shape for part in (0, 1)] == [(7, 4), (15, 8)]
    with pytest.raises(WorkloadError, match="there are 2, from part=0"):
        found.plot(part=2)


def test_errors_are_plotted_for_an_epsilon():
    found = dpn.strategy.identity(Prefix(4))
    (curve,) = found.plot("errors", epsilon=0.5).data
    assert curve.y == pytest.approx(np.sqrt(8 * np.arange(1, 5)), rel=1e-6)
    gaussian = dpn.strategy.identity(Prefix(4), "gaussian")
    (given,), (usual,) = gaussian.plot("errors", delta=1e-6).data, gaussian.plot("errors").data
    assert np.array_equal(given.y, usual.y)
    assert usual.y[0] == pytest.approx(np.sqrt(gaussian.total_squared_error(1, 1e-6) / 10), rel=1e-6)


def test_bad_plots_are_refused():
    found = dpn.strategy.identity(Prefix(4))
    with pytest.raises(WorkloadError, match='"measured" or of "errors"'):
        found.plot("noise")
    with pytest.raises(AccuracyError):
        found.plot("errors", epsilon=0)
    with pytest.raises(WorkloadError, match="drawn for up to 256 cells"):
        dpn.strategy.identity(Prefix(1000)).plot()
