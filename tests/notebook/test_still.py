"""Still pictures: what matplotlib drew is held against the release's frame, and the SVG against what was to be said."""

import base64
import io
import json
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from matplotlib import rcParams
from matplotlib.colors import to_hex
from matplotlib.dates import num2date
from PIL import Image

import dpnotebook as dpn
from dpnotebook.notebook.plots.images import svg
from dpnotebook.notebook.plots.still import still
from dpnotebook.notebook.plots.theme import CLEAR

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def table(session):
    return session.table("people")


@pytest.fixture(scope="module")
def visits():
    """Return a protected table of visits on days of two years, in 10,000 clinics."""
    rng = np.random.default_rng(3)
    seen = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 731, 3_000), "D")
    frame = pd.DataFrame(
        {"seen": seen, "clinic": rng.integers(0, 10_000, 3_000).astype(str), "cost": rng.integers(0, 9_999, 3_000)}
    )
    frame.loc[:9, "seen"] = pd.NaT
    with dpn.Session(budget=dpn.Budget(epsilon=100.0)) as session:
        domain = {
            "seen": dpn.Dates("2023-01-01", "2024-12-31", nullable=True),
            "clinic": [str(number) for number in range(10_000)],
            "cost": dpn.Range(0, 9_999),
        }
        yield session.protect(frame, "visits", domain=domain)


def segments(axes):
    """Return the ends of all error bars that stand upright, in the order they were drawn."""
    return [(float(line[0][1]), float(line[1][1])) for part in axes.collections if hasattr(part, "get_segments")
            for line in part.get_segments() if len(line) == 2 and line[0][0] == line[1][0]]  # fmt: skip


def texts(picture):
    return ["".join(element.itertext()) for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_bars_stand_from_0_to_the_value_with_the_interval_on_them(table):
    release = table.histogram("sex", epsilon=0.1).run()
    with still(release.plot()) as drawn:
        (axes,) = drawn.axes
        found = [(patch.get_y(), patch.get_height()) for patch in axes.patches]
        assert found == [(0, value) for value in release.frame["value"]]
        np.testing.assert_allclose(segments(axes), release.frame[["lower", "upper"]])
        low, high = axes.get_ylim()
        assert low == 0
        assert high > release.frame["upper"].max()
        assert [label.get_text() for label in axes.get_xticklabels()] == ["F", "M"]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("sex", "rows")


def test_small_and_negative_counts_are_not_cut_at_0(table):
    release = table.histogram("sex", epsilon=0.1).run()
    below = replace(release, frame=release.frame.assign(value=[-7.0, 3.0], lower=[-27.0, -17.0], upper=[13.0, 23.0]))
    with still(below.plot()) as drawn:
        (axes,) = drawn.axes
        assert [patch.get_height() for patch in axes.patches] == [-7, 3]
        assert segments(axes) == [(-27, 13), (-17, 23)]
        assert axes.get_ylim()[0] < -27
        assert any(np.ptp(line.get_ydata()) == 0 == line.get_ydata()[0] for line in axes.lines)  # where 0 is


def test_a_line_and_its_band_are_the_frame(table):
    release = table.histogram("age", epsilon=0.1).run()
    with still(release.plot()) as drawn:
        (axes,) = drawn.axes
        (line,) = axes.lines
        np.testing.assert_array_equal(line.get_xdata(), release.frame["age"])
        np.testing.assert_array_equal(line.get_ydata(), release.frame["value"])
        (band,) = axes.patches
        outline = band.get_xy()
        n = len(release.frame)
        np.testing.assert_array_equal(outline[:n, 1], release.frame["upper"])
        np.testing.assert_array_equal(outline[n : 2 * n, 1][::-1], release.frame["lower"])


def test_months_are_months_on_a_time_axis(visits):
    release = visits.groupby({"seen": "month"}).count(epsilon=1.0).run()
    figure = release.plot()
    assert figure.layout.xaxis.type == "date"
    assert figure.data[1].customdata[4].startswith("2023-05: ")
    known = release.frame[release.frame["seen"].notna()]
    with still(figure) as drawn:
        (axes,) = drawn.axes
        line = axes.lines[-1]
        assert [f"{num2date(at):%Y-%m-%d}" for at in line.get_xdata()] == known["seen"].dt.strftime("%Y-%m-%d").tolist()
        np.testing.assert_array_equal(line.get_ydata(), known["value"])
        drawn.canvas.draw()
        said = [label.get_text() for label in axes.get_xticklabels()]
    assert "May\n2023" in said
    assert all(re.fullmatch(r"[A-Z][a-z]{2}\n202\d", text) for text in said)
    missing = release.frame[release.frame["seen"].isna()]["value"].iloc[0]
    assert f"not on the axis: (missing): {missing:,.0f} ±" in figure.layout.title.subtitle.text
    assert release.to_markdown().splitlines()[2].startswith("| 2023-01 ")


def test_quarters_are_named_as_quarters(visits):
    figure = visits.groupby({"seen": "quarter"}).count(epsilon=1.0).run().plot()
    assert list(figure.layout.xaxis.ticktext)[:5] == [
        "Q1<br>2023",
        "Q2<br>2023",
        "Q3<br>2023",
        "Q4<br>2023",
        "Q1<br>2024",
    ]
    assert list(figure.layout.xaxis.tickvals)[1] == "2023-04-01"
    assert "Q3\n2024" in "\n".join(texts(svg(figure))) or {"Q3", "2024"} <= set(texts(svg(figure)))


def test_a_heat_map_is_the_frame(table):
    release = table.crosstab("age", "income", epsilon=0.1).run()
    with still(release.plot()) as drawn:
        axes = drawn.axes[0]
        (image,) = axes.images
        np.testing.assert_array_equal(image.get_array(), release.frame["value"].to_numpy().reshape(30, 11))
        assert [label.get_text() for label in axes.get_yticklabels()][:2] == ["0", "1"]
        assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first row is at the top


def test_what_is_not_there_or_may_be_anything_is_said_in_its_place(table):
    release = table.histogram("sex", epsilon=0.1).run()
    frame = release.frame.assign(value=[np.nan, 5.0], lower=[np.nan, -np.inf], upper=[np.nan, np.inf])
    odd = replace(release, frame=pd.concat([frame, frame.assign(value=7.0, lower=1.0, upper=9.0)]), notes=("a note",))
    figure = odd.plot()
    assert [value for value in figure.data[0].y if value == value] == [7, 7]
    assert list(figure.data[1].text) == ["not found", "may be anything"]
    assert {"not found", "may be anything"} <= set(texts(svg(figure)))
    assert [line.split("|")[2].strip() for line in odd.to_markdown().splitlines()[2:4]] == [
        "not found",
        "may be anything",
    ]
    assert "a note" in odd.to_markdown()
    assert "a note" in figure.layout.title.subtitle.text
    assert "Infinity" not in figure.to_json()


def test_a_line_has_a_gap_where_a_value_may_be_anything(table):
    release = table.histogram("age", epsilon=0.1).run()
    frame = release.frame.copy()
    frame.loc[9, ["lower", "upper"]] = -np.inf, np.inf
    with still(replace(release, frame=frame).plot()) as drawn:
        (axes,) = drawn.axes
        assert np.flatnonzero(np.isnan(axes.lines[0].get_ydata())).tolist() == [9]
        runs = [sorted({int(x) for x in patch.get_xy()[:, 0]}) for patch in axes.patches]
    assert runs == [list(range(9)), list(range(10, 30))]


def test_ten_thousand_levels_stay_small_and_say_what_is_left_out(visits):
    release = visits.histogram("clinic", epsilon=1.0).run()
    figure = release.plot()
    largest = release.frame["value"].nlargest(40)
    assert sorted(figure.data[0].x) == sorted(largest)
    assert "the 40 largest of 10,000" in figure.layout.title.subtitle.text
    costs = visits.histogram("cost", epsilon=1.0).run()
    line = costs.plot()
    assert np.nanmax(line.data[1].y) == costs.frame["value"].max()
    assert np.nanmin(line.data[1].y) == costs.frame["value"].min()
    assert len(line.data[1].y) <= 602
    for one in (figure, line):
        bundle = one._repr_mimebundle_()
        assert len(json.dumps(bundle)) < 200_000
        assert len(one.to_image("svg")) < 40_000


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "keys", ["sex", "region", "age", "income", ("region", "sex"), ("age", "sex"), ("age", "income")]
)
def test_usual_pictures_are_small(table, keys):
    keys = (keys,) if isinstance(keys, str) else keys
    figure = table.groupby(list(keys)).count(epsilon=0.1).run().plot()
    assert len(figure.to_image("svg")) < 30_000


def test_shortened_coordinates_leave_every_text_as_it_was(table, evil):
    said = [
        f"ε 0.0182 and 12.3456789 of {evil} $x_1$ \\alpha M 1.23456 2.34567 L",
        "0.0182",
        "5.678901e-05",
        "π 3.14159265",
    ]
    figure = go.Figure(
        go.Bar(x=[text.replace("&", "&amp;").replace("<", "&lt;") for text in said], y=[1.23456, 2, 3, 4])
    )
    figure.update_layout(title="ε 0.0182 at 12.3456789")
    found = texts(svg(figure))
    assert "ε 0.0182 at 12.3456789" in found
    assert set(said[1:]) <= set(found)
    assert any(text == (said[0] if len(said[0]) <= 60 else said[0][:59] + "…") for text in found)


def test_shortening_moves_nothing_by_more_than_a_twentieth_of_a_pixel(table):
    figure = table.histogram("age", epsilon=0.1).run().plot()
    raw = io.BytesIO()
    with still(figure) as drawn:
        drawn.savefig(raw, format="svg")
        (axes,) = drawn.axes
        points = axes.transData.transform(axes.lines[0].get_xydata())
        height = drawn.bbox.height
    path = next(element.get("d") for element in ElementTree.fromstring(svg(figure)).iter(f"{SVG}path")
                if element.get("d", "").count("L") == 29 and not element.get("d").endswith("z"))  # fmt: skip
    numbers = np.array(re.findall(r"-?\d+(?:\.\d+)?", path), dtype=float).reshape(-1, 2)
    np.testing.assert_allclose(numbers, np.column_stack([points[:, 0], height - points[:, 1]]), atol=0.051)
    assert len(svg(figure)) < len(raw.getvalue()) / 2


def test_a_picture_has_no_background_of_its_own(table):
    figure = table.histogram("sex", epsilon=0.1).run().plot()
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == CLEAR
    picture = Image.open(io.BytesIO(figure.to_image("png"))).convert("RGBA")
    assert picture.getpixel((1, 1))[3] == 0
    assert picture.size == (2 * 700, 2 * figure.layout.height)
    assert np.asarray(picture)[..., 3].max() == 255


def test_what_somebody_changes_in_the_figure_is_in_the_picture(table):
    figure = table.histogram("sex", epsilon=0.1).run().plot()
    figure.update_layout(title="Patients", yaxis_title="people").update_traces(marker_color="#ff0000")
    assert {"Patients", "people"} <= set(texts(svg(figure)))
    with still(figure) as drawn:
        assert {to_hex(patch.get_facecolor()) for patch in drawn.axes[0].patches} == {"#ff0000"}


def test_a_bundle_has_the_live_figure_a_picture_and_the_numbers(table, page):
    release = table.histogram("region", epsilon=0.1).run()
    figure = release.plot()
    bundle = figure._repr_mimebundle_()
    assert set(bundle) == {"application/vnd.plotly.v1+json", "text/html", "text/plain", "image/png"}
    assert Image.open(io.BytesIO(base64.b64decode(bundle["image/png"]))).size == (700, figure.layout.height)
    read = page(bundle["text/html"])
    (alt,) = read.alts
    first = release.frame.iloc[0]
    assert f"North {first['value']:,.0f} ±" in alt
    assert read.rows[0] == ["region", "rows"]
    assert [row[0] for row in read.rows[1:]] == release.frame["region"].tolist()
    assert f"{first['value']:,.0f} ±" in bundle["text/plain"]
    source = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', bundle["text/html"])[1]
    assert "North" in texts(base64.b64decode(source))


def test_where_somebody_is_there_the_live_figure_is_shown_at_once(table, monkeypatch):
    figure = table.histogram("sex", epsilon=0.1).run().plot()
    monkeypatch.setattr("dpnotebook.notebook.plots.figure.interactive", lambda: True)
    assert set(figure._repr_mimebundle_()) == {"application/vnd.plotly.v1+json", "text/html", "text/plain"}


def test_a_figure_stays_one_when_it_is_copied_or_pickled(table):
    figure = table.histogram("sex", epsilon=0.1).run().plot()
    again = pickle.loads(pickle.dumps(figure))
    assert type(again) is type(figure)
    assert again._repr_mimebundle_()["text/html"] == figure._repr_mimebundle_()["text/html"]


def test_pictures_are_written_without_a_browser(table, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "kaleido", None)  # what plotly would draw with
    figure = table.histogram("sex", epsilon=0.1).run().plot()
    figure.write_image(tmp_path / "sexes.svg")
    figure.write_image(str(tmp_path / "sexes.png"), width=300, height=200, scale=3)
    assert {"F", "M", "rows"} <= set(texts((tmp_path / "sexes.svg").read_text()))
    assert Image.open(tmp_path / "sexes.png").size == (900, 600)
    written = io.BytesIO()
    figure.write_image(written, format="svg")
    assert written.getvalue() == (tmp_path / "sexes.svg").read_bytes()


def test_a_picture_that_plotly_cannot_write_says_which_need_nothing(table, tmp_path, monkeypatch):
    monkeypatch.setattr(go.Figure, "to_image", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("\nno kaleido\n")))
    with pytest.raises(dpn.ArgumentError, match=r"as pdf is left to plotly, which says: no kaleido\. As svg"):
        table.histogram("sex", epsilon=0.1).run().plot().write_image(tmp_path / "sexes.pdf")


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("a.gif", {}, "written as svg or png, not as 'gif'"),
        ("a.svg", {"format": 3}, "written as svg or png, not as 3"),
        ("a.svg", {"dpi": 3}, "takes width= and height= in pixels and scale=, not dpi="),
        ("no/such/folder/a.svg", {}, "cannot write"),
    ],
)
def test_what_cannot_be_written_is_said(table, tmp_path, path, options, message):
    figure = table.histogram("sex", epsilon=0.1).run().plot()
    with pytest.raises(dpn.ArgumentError, match=message):
        figure.write_image(tmp_path / path, **options)
    assert list(tmp_path.iterdir()) == []


def test_settings_of_matplotlib_stay_as_they_are_and_do_not_matter(table):
    figure = table.histogram("sex", epsilon=0.1).run().plot()
    before = svg(figure)
    mine = {"font.size": 40.0, "axes.facecolor": "red", "text.usetex": True, "svg.fonttype": "path"}
    kept = {name: rcParams[name] for name in mine}
    try:
        rcParams.update(mine)
        assert svg(figure) == before
        assert {name: rcParams[name] for name in mine} == mine
    finally:
        rcParams.update(kept)


def test_matplotlib_comes_with_the_first_picture_and_pyplot_never():
    code = (
        "import sys, os; os.environ['DPNOTEBOOK_UNSAFE'] = '1'\n"
        "import dpnotebook\n"
        "from dpnotebook.testing import example_session\n"
        "print([name for name in ('matplotlib', 'plotly', 'PIL') if name in sys.modules])\n"
        "example_session().table('patients').histogram('sex', epsilon=0.5).run().plot().to_image('svg')\n"
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["[]", "True False"]


def test_figures_of_ones_own_are_made_portable():
    figure = go.Figure(go.Scatter(x=[1, 10, 100], y=[2.0, 4.0, 8.0], name="ours", mode="lines+markers"))
    figure.update_layout(title="mine", xaxis={"type": "log", "title": {"text": "rows"}}, template="none")
    made = dpn.portable(figure, alt="doubles with every tenfold")
    assert json.loads(made.to_json()) == json.loads(figure.to_json())
    bundle = made._repr_mimebundle_()
    assert 'alt="doubles with every tenfold"' in bundle["text/html"]
    with still(made) as drawn:
        (axes,) = drawn.axes
        assert axes.get_xscale() == "log"
        np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[1, 2], [10, 4], [100, 8]])
    with pytest.raises(dpn.ArgumentError, match="takes a figure of plotly"):
        dpn.portable(figure.to_dict())
