"""Two releases in one figure: both as their frames say, and their difference as the release of it says."""

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.notebook.plots.still import still


@pytest.fixture
def table(session):
    return session.table("people")


def asked(table, by, epsilon=0.1):
    return [table.groupby(by).count(where=f"sex == '{sex}'", epsilon=epsilon).run() for sex in "FM"]


def test_both_stand_beside_one_another_with_their_intervals(table):
    women, men = asked(table, "region")
    figure = dpn.compare(women, men, names=("women", "men"))
    assert [trace.name for trace in figure.data] == ["women", "men"]
    for trace, release in zip(figure.data, (women, men), strict=True):
        np.testing.assert_array_equal(trace.y, release.frame["value"])
        np.testing.assert_allclose(trace.y + trace.error_y.array, release.frame["upper"])
        np.testing.assert_allclose(trace.y - trace.error_y.arrayminus, release.frame["lower"])
    with still(figure) as drawn:
        (axes,) = drawn.axes
        middles = np.array([patch.get_x() + patch.get_width() / 2 for patch in axes.patches]).reshape(2, 3)
        assert (middles[0] < middles[1]).all()
        np.testing.assert_allclose(middles.mean(axis=0), [0, 1, 2])
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["women", "men"]


def test_lines_along_an_order_and_the_difference_below(table):
    women, men = asked(table, "age")
    figure = dpn.compare(women, men, difference=True)
    lines = [trace for trace in figure.data if trace.fill != "toself"]
    assert [line.name for line in lines[:2]] == ["sex == 'F'", "sex == 'M'"]
    less = women - men
    np.testing.assert_array_equal(lines[2].y, less.frame["value"])
    assert lines[2].yaxis == "y2"
    band = next(trace for trace in figure.data if trace.fill == "toself" and trace.yaxis == "y2")
    np.testing.assert_allclose(band.y[:30], less.frame["upper"])
    assert figure.layout.annotations[1].text == "sex == 'F' − sex == 'M'"
    with still(figure) as drawn:
        assert len(drawn.axes) == 2
        above, below = (axes.get_position() for axes in drawn.axes)
        assert below.y1 < above.y0


def test_single_answers_are_points_on_one_axis(table):
    one, other = table.mean("income", epsilon=0.2).run(), table.mean("income", epsilon=0.4).run()
    figure = dpn.compare(one, other)
    assert [trace.name for trace in figure.data] == [f"release #{release.number}" for release in (one, other)]
    assert [trace.y[0] for trace in figure.data] == [one.value, other.value]
    assert figure.layout.title.subtitle.text.startswith(f"release #{one.number} · ")


def test_levels_that_only_one_has_are_drawn_once(table):
    both = table.groupby("region").count(epsilon=0.1).run()
    north = table.groupby("region").count(where="region == 'North'", epsilon=0.1).run()
    figure = dpn.compare(both, north)
    assert [list(trace.x)[:1] for trace in figure.data] == [["North"], ["North"]]
    assert [len(trace.x) for trace in figure.data] == [3, 1]
    table_of = figure._repr_mimebundle_()["text/plain"].splitlines()
    assert sum("±" in line.split("  ")[-1] for line in table_of[1:]) >= 1


def test_the_picture_is_told_and_listed(table, page):
    women, men = asked(table, "region")
    read = page(dpn.compare(women, men, names=("women", "men"), difference=True)._repr_mimebundle_()["text/html"])
    assert read.rows[0] == ["region", "women", "men", "difference"]
    assert [row[0] for row in read.rows[1:]] == women.frame["region"].tolist()
    less = (women - men).frame
    assert [row[3].split(" ±")[0] for row in read.rows[1:]] == [f"{value:,.0f}" for value in less["value"]]
    assert f"North women {women.frame['value'][0]:,.0f} ±" in read.alts[0]


def test_what_cannot_be_compared_is_said_and_nothing_is_spent(table):
    regions, ages, income = asked(table, "region")[0], asked(table, "age")[0], table.mean("income", epsilon=0.1).run()
    count = table.count(epsilon=0.1).run()
    spent = table.session.spent.epsilon if hasattr(table, "session") else None
    for pair, options, message in [
        ((regions, ages), {}, "compared by the same keys: not by region and by age"),
        ((count, income), {}, "different units and share no axis: rows and income"),
        ((regions, regions), {"measure": "n"}, "both releases have no measure 'n'; they share value"),
        ((regions, regions), {"names": "women"}, "names= is two texts"),
        ((regions, regions), {"names": ("a", 3)}, "names= is two texts"),
        ((regions, 3), {}, "two releases are compared, what .run\\(\\) returns"),
        ((table.count(epsilon=0.1), count), {}, "two releases are compared"),
    ]:
        with pytest.raises(dpn.DPError, match=message):
            dpn.compare(*pair, **options)
    if spent is not None:
        assert table.session.spent.epsilon == spent
