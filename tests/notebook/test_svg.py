import base64
import re
from xml.etree import ElementTree

import pytest

from dpnotebook.notebook import svg
from dpnotebook.notebook.plots.theme import COLOURS, INK

SVG = "{http://www.w3.org/2000/svg}"


def drawing(html):
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html).group(1)
    return ElementTree.fromstring(base64.b64decode(data))


def widths(html):
    return [float(rect.get("width")) for rect in drawing(html).findall(f"{SVG}rect")]


def contrast(one, other):
    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", [svg.SPENT, svg.THIS, svg.LINE])
@pytest.mark.parametrize("background", ["#ffffff", "#111111"])
def test_tones_are_seen_in_both_themes(colour, background):
    assert contrast(colour, background) >= 3


@pytest.mark.parametrize("colour", [*COLOURS, INK])
@pytest.mark.parametrize("background", ["#ffffff", "#111111"])
def test_tones_of_figures_are_seen_in_both_themes(colour, background):
    assert contrast(colour, background) >= (4 if colour == INK else 3)


def test_the_budget_bar_is_to_scale():
    assert widths(svg.budget_bar(0.4, 0.1, "x", width=400)) == [160.0, 40.0, 400.0]


def test_a_tiny_slice_is_still_seen():
    assert widths(svg.budget_bar(0.4, 1e-6, "x", width=400))[1] == 3.0


def test_a_query_that_does_not_fit_ends_with_the_bar():
    spent, this, whole = widths(svg.budget_bar(0.9, 5.0, "x", width=400))
    assert spent + this == whole == 400


def test_the_alternative_text_is_escaped():
    html = svg.image("", 1, 1, '"><script>')
    assert "<script>" not in html
    assert 'alt="&quot;&gt;&lt;script&gt;"' in html


def test_an_interval_is_to_scale_and_stays_inside():
    html = svg.interval(-10.0, 0.0, 10.0, -20.0, 20.0, "x", width=112)
    assert "M31.0 7H81.0" in drawing(html).find(f"{SVG}path").get("d")
    cut = drawing(svg.interval(-99.0, 0.0, 99.0, -20.0, 20.0, "x", width=112)).find(f"{SVG}path").get("d")
    assert cut.startswith("M6.0 7H106.0")


def test_an_interval_without_width_can_be_drawn():
    assert drawing(svg.interval(5.0, 5.0, 5.0, 5.0, 5.0, "x")) is not None


def test_the_staircase_falls_to_the_share_that_is_left():
    path = drawing(svg.burn_down([0.75, 0.5], "x", height=70)).findall(f"{SVG}path")[2].get("d")
    levels = [float(level) for level in re.findall(r"V([\d.]+)", path)]
    base, top = 66, 6
    assert levels == [base - 0.75 * (base - top), base - 0.5 * (base - top)]


def test_a_long_staircase_is_thinned_and_keeps_its_end():
    left = [1 - number / 20_000 for number in range(1, 10_001)]
    path = drawing(svg.burn_down(left, "x", height=70)).findall(f"{SVG}path")[2].get("d")
    levels = re.findall(r"V([\d.]+)", path)
    assert svg.MOST_STEPS / 2 < len(levels) <= svg.MOST_STEPS + 1
    assert float(levels[-1]) == 66 - 0.5 * 60


def test_progress_of_unknown_length_wanders():
    starts = {drawing(svg.progress(None, tick, "x")).find(f"{SVG}rect").get("x") for tick in range(16)}
    assert len(starts) > 5
    assert widths(svg.progress(0.5, 0, "x", width=200))[0] == 100.0


def test_dots_stand_on_each_other_where_values_are_close():
    values = [5.0, 5.0, 5.0, 1.0, 9.0]
    circles = drawing(svg.dots(values, 0.0, 10.0, "x", width=112)).findall(f"{SVG}circle")
    places = [(float(one.get("cx")), float(one.get("cy"))) for one in circles]
    assert len(set(places)) == len(values)
    middle = [across for across, _ in places[:3]]
    assert len(set(middle)) == 1
    assert places[3][0] < middle[0] < places[4][0]
    assert [up for _, up in places[:3]] == sorted((up for _, up in places[:3]), reverse=True)
