from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.notebook.plots.levels import positions
from dpnotebook.notebook.plots.release import plot_release
from dpnotebook.predicate import Predicate
from dpnotebook.query.question import Accuracy, Measure, Question, bounded_value


@pytest.fixture
def people_table(session):
    return session.table("people")


def ends(trace, axis="y"):
    error = trace[f"error_{axis}"]
    value = np.array(trace[axis], dtype=float)
    return value - error.arrayminus, value + error.array


def test_bars_for_categories(people_table, evil):
    release = people_table.histogram("region", epsilon=0.1).run()
    (bars,) = plot_release(release).data
    assert bars.type == "bar"
    assert bars.orientation == "h"  # a name is long
    assert list(bars.y) == ["North", "South", evil.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")]
    np.testing.assert_array_equal(bars.x, release.frame["value"])
    low, high = ends(bars, "x")
    np.testing.assert_allclose(low, release.frame["lower"])
    np.testing.assert_allclose(high, release.frame["upper"])


def test_few_short_names_stand_upright(people_table):
    release = people_table.histogram("sex", epsilon=0.1).run()
    figure = plot_release(release)
    (bars,) = figure.data
    assert list(bars.x) == ["F", "M"]
    np.testing.assert_array_equal(bars.y, release.frame["value"])
    assert figure.layout.xaxis.title.text == "sex"
    assert figure.layout.yaxis.title.text == "rows"


def test_intervals_need_not_be_symmetric(people_table):
    release = people_table.histogram("sex", epsilon=0.1).run()
    skewed = replace(release, frame=release.frame.assign(value=[10.0, 20.0], lower=[0.0, 11.0], upper=[12.0, 24.0]))
    (bars,) = plot_release(skewed).data
    low, high = ends(bars)
    assert (low.tolist(), high.tolist()) == ([0.0, 11.0], [12.0, 24.0])
    assert bars.customdata[0] == "10 (0 to 12) rows"


def test_a_line_with_a_band_for_an_ordered_key(people_table):
    release = people_table.histogram("age", epsilon=0.1).run()
    band, line = plot_release(release).data
    np.testing.assert_array_equal(line.x, release.frame["age"])
    np.testing.assert_array_equal(line.y, release.frame["value"])
    n = len(release.frame)
    np.testing.assert_array_equal(band.y[:n], release.frame["upper"])
    np.testing.assert_array_equal(band.y[n:][::-1], release.frame["lower"])
    assert band.fill == "toself"


def test_bins_lie_at_their_middle_and_what_has_no_place_is_said(people_table):
    release = people_table.histogram("income", epsilon=0.1).run()
    figure = plot_release(release)
    np.testing.assert_array_equal(figure.data[1].x, np.arange(5_000, 100_000, 10_000))
    np.testing.assert_array_equal(figure.data[1].y, release.frame["value"][:-1])
    assert "[0, 10,000): " in figure.data[1].customdata[0]
    missing = release.frame["value"].iloc[-1]
    assert f"not on the axis: (missing): {missing:,.0f} ±30 rows" in figure.layout.title.subtitle.text.replace(
        "-0 ", "0 "
    )


def test_a_cdf_is_a_line(people_table):
    release = people_table.cdf("age", epsilon=0.1).run()
    _, line = plot_release(release).data
    np.testing.assert_array_equal(line.y, release.frame["value"])


def test_grouped_bars_for_two_small_keys(people_table):
    release = people_table.crosstab("region", "sex", epsilon=0.1).run()
    figure = plot_release(release)
    assert [trace.name for trace in figure.data] == ["F", "M"]
    for trace in figure.data:
        part = release.frame[release.frame["sex"] == trace.name]
        np.testing.assert_array_equal(trace.y, part["value"])
        np.testing.assert_allclose(ends(trace)[0], part["lower"])
    assert figure.layout.barmode == "group"
    assert figure.layout.legend.title.text == "sex"


@pytest.mark.parametrize("keys", [("age", "sex"), ("sex", "age")])
def test_lines_along_a_long_ordered_key_wherever_it_stands(people_table, keys):
    release = people_table.crosstab(*keys, epsilon=0.1).run()
    figure = plot_release(release)
    lines = [trace for trace in figure.data if trace.showlegend]
    assert [line.name for line in lines] == ["F", "M"]
    for line in lines:
        part = release.frame[release.frame["sex"] == line.name]
        np.testing.assert_array_equal(line.x, part["age"])
        np.testing.assert_array_equal(line.y, part["value"])
    assert figure.layout.xaxis.title.text == "age"


def test_a_heat_map_for_two_long_keys(people_table):
    release = people_table.crosstab("age", "income", epsilon=0.1).run()
    figure = plot_release(release)
    (heat,) = figure.data
    assert heat.type == "heatmap"
    table = release.frame["value"].to_numpy().reshape(30, 11)
    np.testing.assert_array_equal(heat.z, table)
    assert heat.customdata[3][2] == f"3, [20,000, 30,000): {table[3, 2]:,.0f} ±30 rows"
    assert heat.text is None  # too many cells for numbers inside
    assert (figure.layout.yaxis.title.text, figure.layout.xaxis.title.text) == ("age", "income")


def test_a_heat_map_for_three_keys_has_the_longest_across(people_table):
    release = people_table.crosstab("region", "sex", "income", epsilon=0.1).run()
    figure = plot_release(release)
    (heat,) = figure.data
    assert np.shape(heat.z) == (6, 11)
    picked = release.frame[(release.frame["region"] == "South") & (release.frame["sex"] == "M")]
    np.testing.assert_array_equal(heat.z[list(heat.y).index("South · M")], picked["value"])
    assert figure.layout.xaxis.title.text == "income"
    assert heat.text[0][0] == f"{heat.z[0][0]:,.0f}"


def test_a_single_value_is_a_point_with_its_interval(people_table):
    release = people_table.mean("income", epsilon=0.3).run()
    figure = plot_release(release)
    (point,) = figure.data
    assert list(point.x) == [release.value]
    low, high = ends(point, "x")
    assert (low[0], high[0]) == pytest.approx(release.interval)
    assert figure.layout.xaxis.title.text == "income"


def test_the_caption_says_where_the_numbers_come_from(people_table):
    figure = plot_release(people_table.count(where="age >= 10", epsilon=0.25).run())
    assert figure.layout.title.text.startswith("COUNT <span")
    assert "in people where age &gt;= 10" in figure.layout.title.text
    assert (
        figure.layout.title.subtitle.text
        == "release #1 · measured for 25% of the budget (ε 0.25)<br>95% intervals from noise"
    )


def test_which_measure(session):
    domain = session.table("people").table.domain
    measures = (Measure("count", name="n"), Measure("sum", "age", "years", bounded_value(domain, "age")))
    question = Question("people", measures, ("sex",), Predicate.everything(domain))
    release = dpn.Query(session, question, Accuracy(epsilon=0.5)).run()
    (first,), (second,) = plot_release(release, "n").data, plot_release(release, "years").data
    np.testing.assert_array_equal(first.y, release.frame["n"])
    np.testing.assert_array_equal(second.y, release.frame["years"])
    with pytest.raises(ValueError, match="no measure 'sum'; it has n, years"):
        plot_release(release, "sum")


def test_figures_stay_small(people_table):
    release = people_table.histogram("sex", epsilon=0.1).run()
    assert len(plot_release(release).to_json()) < 2_500


def test_the_release_plots_itself(people_table):
    release = people_table.histogram("sex", epsilon=0.1).run()
    assert release.plot().data[0].type == "bar"


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([1, 2, 4], [1.0, 2.0, 4.0]),
        (["[0, 5,000)", "[5,000, 10,000)", "[10,000, 20,000]"], [2500.0, 7500.0, 15000.0]),
        (["[-2.5, 0)", "[0, 2.5)", "[2.5, 5]", None], [-1.25, 1.25, 3.75, np.nan]),
        ([1, 2], None),
        (["low", "middle", "high"], None),
        ([False, True, None], None),
    ],
)
def test_where_levels_lie(levels, expected):
    found = positions(levels)
    if expected is None:
        assert found is None
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("asked", "axis", "named"),
    [
        (lambda rows: rows.quantile("seen", [0.1, 0.5, 0.9], epsilon=5.0), "yaxis", "%b<br>%Y"),
        (lambda rows: rows.groupby("sex").median("seen", epsilon=5.0), "yaxis", None),
        (lambda rows: rows.median("seen", epsilon=5.0), "xaxis", None),
        (lambda rows: rows.groupby(["sex", "ward"]).median("seen", epsilon=5.0), "yaxis", None),
    ],
)
def test_axes_of_quantiles_of_dates_have_dates(asked, axis, named):
    random = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "seen": pd.Timestamp("2023-01-01") + pd.to_timedelta(random.integers(0, 365, 2_000), unit="D"),
            "sex": random.choice(["F", "M"], 2_000),
            "ward": random.choice(["A", "B"], 2_000),
        }
    )
    with dpn.Session(dpn.Budget(epsilon=100.0)) as session:
        domain = {"seen": dpn.Dates("2023", "2023"), "sex": ["F", "M"], "ward": ["A", "B"]}
        session.protect(rows, "visits", domain=domain)
        release = asked(rows.dp).run()
    figure = plot_release(release)
    shown = figure.layout[axis]
    days = [np.datetime64("1970-01-01") + np.timedelta64(day, "D") for day in shown.tickvals]
    assert 1 <= len(days) <= 6
    for day, name in zip(days, shown.ticktext, strict=True):
        written = day.item().strftime(named or "%d %b<br>%Y").lstrip("0")
        assert name == written
    first, last = release.frame["lower"].min(), release.frame["upper"].max()
    assert any(first <= pd.Timestamp(day) <= last for day in days)
    assert shown.rangemode is None
    assert all(trace.type != "bar" for trace in figure.data)  # 1970 is no 0 that a bar could begin at
