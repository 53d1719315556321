"""Figures: the data of each against outside truth, and images with the same bytes every time."""

import json
import math
import re
import subprocess
import sys
import xml.dom.minidom
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from scipy.stats import beta, norm
from verify_variance.reports.figures.catalogue import (
    FIGURES,
    Drawing,
    figure_data,
    figure_form,
    figures_of,
)
from verify_variance.reports.figures.drawing import COLOURS, INK_COLOUR, drawn, inline
from verify_variance.reports.figures.panels import Axis, Line, Panel, Points
from verify_variance.reports.figures.rows import MOST_ROWS
from verify_variance.reports.figures.series import MOST_SERIES, case_of, theory_along
from verify_variance.reports.theory import predicted
from verify_variance.stats.cases import Case
from verify_variance.stats.checks import InputError
from verify_variance.stats.predict import predict
from verify_variance.stats.request import CaseOptions
from verify_variance.stats.requested import requested_rows

TABLE = CaseOptions(quantities=("variance", "std", "kurtosis"))
ROWS = CaseOptions(dk=("16", "64"), quantities=("max_prob", "entropy", "jacobian"), n_keys=("10",))


@pytest.fixture(scope="module")
def table():
    from .conftest import fabricate

    return fabricate(TABLE, factor=1.0005).record


@pytest.fixture(scope="module")
def rows():
    from .conftest import fabricate

    return fabricate(ROWS, factor=1.001).record


def test_variance_has_the_theory_line_and_the_points_with_their_intervals(table):
    (panel,) = figure_data("variance", [table]).panels
    assert (panel.x.scale, panel.y.scale) == ("log", "log")
    assert panel.x.label == "head dimension dₖ"
    (line,), (points,) = panel.lines, panel.points
    np.testing.assert_allclose(line.x, line.y, rtol=1e-12)  # Var(q.k) = d_k for standard normals
    assert (line.x[0], line.x[-1]) == (16, 128)
    assert points.x == (16, 32, 64, 128)
    np.testing.assert_allclose(points.y, [16.008, 32.016, 64.032, 128.064])
    of_variance = [row for row in table["rows"] if row["quantity"] == "variance"]
    assert points.low == tuple(row["ci_low"] for row in of_variance)
    assert points.high == tuple(row["ci_high"] for row in of_variance)


def test_a_wrong_theory_shows_on_the_line(table):
    wrong = json.loads(json.dumps(table))
    for row in wrong["rows"]:
        if row["quantity"] == "variance":
            row["theory"] *= 1.1
    (panel,) = figure_data("variance", [wrong]).panels
    at = dict(zip(panel.lines[0].x, panel.lines[0].y, strict=True))
    assert at[128] == pytest.approx(140.8)


def test_without_variance_the_standard_deviation_is_drawn(measured):
    record = measured(CaseOptions(quantities=("std",))).record
    (panel,) = figure_data("variance", [record]).panels
    assert panel.y.label == "sd(q·k)"
    assert panel.lines[0].y[-1] == pytest.approx(math.sqrt(128))


def test_softmax_shows_both_scales_and_effective_keys_of_the_entropy(rows):
    top, entropy, keys = figure_data("softmax", [rows]).panels
    assert [p.label for p in top.points] == ["unscaled", "scaled by 1/√dₖ"]
    exact = [predict(Case(d_k=d, n_keys=10), "max_prob").value for d in (16, 64)]
    assert (top.lines[0].y[0], top.lines[0].y[-1]) == pytest.approx(tuple(exact), rel=1e-12)
    for shown, of in zip(keys.points, entropy.points, strict=True):
        np.testing.assert_allclose(shown.y, np.exp(of.y))
        np.testing.assert_allclose(shown.high, np.exp(of.high))
    assert keys.lines[1].y[0] == pytest.approx(math.exp(entropy.lines[1].y[0]), rel=1e-12)


def test_the_curve_between_its_points_is_theory(rows):
    """Two recorded d_k and one computed halfway; elsewhere the curve is within a line's width."""
    top = figure_data("softmax", [rows]).panels[0]
    exact = predict(Case(d_k=24, n_keys=10), "max_prob").value
    drawn_at = np.interp(math.log(24), np.log(top.lines[0].x), top.lines[0].y)
    assert drawn_at == pytest.approx(exact, abs=0.003)


def test_jacobian_norms_have_lines_brackets_and_points(rows):
    panels = {panel.title: panel for panel in figure_data("jacobian", [rows]).panels}
    rms, mean = panels["Root mean square Jacobian"], panels["Mean Jacobian"]
    square = predict(Case(d_k=64, n_keys=10), "jacobian_frobenius_sq").value
    assert rms.lines[0].y[-1] == pytest.approx(math.sqrt(square), rel=1e-12)
    low, high = predict(Case(d_k=64, n_keys=10), "jacobian_frobenius").value
    band = mean.bands[0]
    assert (band.low[-1], band.high[-1]) == pytest.approx((low, high), rel=1e-9)
    assert not panels["Median Jacobian"].lines
    assert len(panels["Median Jacobian"].points) == 2


def test_gap_is_in_tolerances_and_its_interval_is_the_one_that_decides(table):
    (panel,) = figure_data("gap", [table]).panels
    (points,) = panel.points
    assert points.label == "match"
    assert points.sideways
    judged = [row for row in table["rows"] if row["gap"] is not None]
    for row, x, low, high in zip(judged, points.x, points.low, points.high, strict=True):
        assert x == pytest.approx(row["gap"] / row["tolerance"])
        assert -1 < low < x < high < 1  # what makes it a match
    (band,) = panel.bands
    assert band.x == (-1.0, 1.0)
    assert len(panel.y.ticks) == len(judged)


def test_gap_shows_the_worst_rows_and_a_wide_axis_for_far_ones(measured):
    dk = tuple(map(str, range(2, 2 + MOST_ROWS + 5)))
    record = measured(CaseOptions(dk=dk)).record
    record["rows"][7]["gap"] = 50.0
    data = figure_data("gap", [record])
    assert len(data.panels[0].y.ticks) == MOST_ROWS
    part = f"The {MOST_ROWS} largest gaps of {len(dk)} rows."
    assert part in data.caption
    assert data.panels[0].title.endswith(f"\n{part}")
    assert data.panels[0].x.scale == "symlog"
    assert max(x for points in data.panels[0].points for x in points.x) == pytest.approx(
        50 / record["rows"][7]["tolerance"]
    )


def test_z_counts_each_test_once_and_has_the_band_of_order_statistics(table):
    (panel,) = figure_data("z", [table]).panels
    (points,), (band,) = panel.points, panel.bands
    n = 8  # variance and std are one test
    assert len(points.y) == n
    assert list(points.y) == sorted(points.y)
    i = np.arange(1, n + 1)
    np.testing.assert_allclose(points.x, norm.ppf((i - 0.5) / n))
    np.testing.assert_allclose(band.low, norm.ppf(beta.ppf(0.025, i, n + 1 - i)))
    np.testing.assert_allclose(band.high, norm.ppf(beta.ppf(0.975, i, n + 1 - i)))


def test_brackets_have_no_z_to_plot(rows):
    (panel,) = figure_data("z", [rows]).panels
    exact = [r for r in rows["rows"] if r["z"] is not None and not isinstance(r["theory"], list)]
    assert len(panel.points[0].y) == len(exact)


def test_the_law_is_the_exact_density(measured):
    """d_k = 2: the logit of normals has the Laplace density exp(-|x|)/2, standard deviation √2."""
    record = measured(CaseOptions(dk=("2",))).record
    density, tails = figure_data("law", [record]).panels
    line, normal = density.lines
    x = np.array(line.x)
    at = np.abs(x) > 0.1  # a bin over the kink at 0 averages it
    np.testing.assert_allclose(
        np.array(line.y)[at], (np.exp(-math.sqrt(2) * np.abs(x)) / math.sqrt(2))[at], rtol=1e-3
    )
    np.testing.assert_allclose(normal.y, norm.pdf(normal.x))
    assert tails.y.scale == "log"
    assert tails.lines == density.lines


@pytest.mark.parametrize("d_k", [3, 4])
def test_signs_have_a_lattice_with_one_point_a_bin(measured, d_k):
    record = measured(CaseOptions(dk=(str(d_k),), elements=("rademacher",))).record
    line = figure_data("law", [record]).panels[0].lines[0]
    shares = np.array([math.comb(d_k, j) for j in range(d_k + 1)]) / 2**d_k
    np.testing.assert_allclose(line.x, (2 * np.arange(d_k + 1) - d_k) / math.sqrt(d_k), atol=1e-12)
    np.testing.assert_allclose(np.array(line.y) * 2 / math.sqrt(d_k), shares, rtol=1e-9)


def test_counts_in_a_row_are_drawn_as_a_histogram_of_area_one(measured):
    record = measured(CaseOptions(dk=("16",))).record
    edges = np.linspace(-20, 20, 41)
    record["rows"][0]["counts"] = {"edges": edges.tolist(), "counts": list(range(40))}
    (band,) = figure_data("law", [record]).panels[0].bands
    assert band.steps
    np.testing.assert_allclose(band.x, edges / 4)
    assert np.sum(np.diff(band.x) * band.high[:-1]) == pytest.approx(1)


def test_saturation_is_exact_and_has_the_condensation_line_and_the_cases(rows):
    (panel,) = figure_data("saturation", [rows]).panels
    (line,) = panel.lines
    np.testing.assert_allclose(line.y, np.sqrt(2 * np.log(line.x)))
    unscaled, scaled = panel.points
    assert unscaled.x == (10, 10)
    np.testing.assert_allclose(unscaled.y, [4, 8])
    np.testing.assert_allclose(scaled.y, [1])
    grid = np.array(panel.map.values)
    assert grid.shape == (len(panel.map.y), len(panel.map.x))
    # n = 2: E sum p^2 = E(1 + tanh^2(g))/2 with g = (x1 - x2)/2 ~ N(0, s^2/2)
    node, weight = np.polynomial.hermite_e.hermegauss(200)
    weight = weight / weight.sum()
    for s, value in list(zip(panel.map.y, grid[:, 0], strict=True))[:8]:
        exact = np.sum(weight * (1 + np.tanh(node * s / math.sqrt(2)) ** 2) / 2)
        assert value == pytest.approx(exact, abs=1e-6)
    assert (np.diff(grid, axis=0) > 0).all()
    assert panel.map.levels[-1] == 1.0


def test_given_logits_are_drawn_against_their_standard_deviation(measured):
    cases = CaseOptions(logit_std=("1", "4"), n_keys=("10",), quantities=("entropy",))
    panel = figure_data("softmax", [measured(cases).record]).panels[0]
    assert panel.x.label == "logit standard deviation s"
    assert panel.points[0].x == (1, 4)


def test_series_are_told_apart_by_what_differs(measured):
    cases = CaseOptions(dk=("8", "16"), elements=("normal", "laplace"), sigma=("1", "2"))
    (panel,) = figure_data("variance", [measured(cases).record]).panels
    labels = [points.label for points in panel.points]
    assert labels[0] == "normal, sigma_q 1, sigma_k 1"
    assert labels[3] == "laplace, sigma_q 2, sigma_k 2"
    assert len({line.colour for line in panel.lines}) == 4


VARIANTS = CaseOptions(
    dk=("16", "64"),
    n_keys=("32",),
    scale=("sqrt-dk",),
    transform=("none", "softcap:2", "causal", "alibi"),
    quantities=("entropy", "variance"),
)


def test_gap_names_what_tells_rows_apart_and_that_alone(measured):
    record = measured(VARIANTS).record
    (panel,) = figure_data("gap", [record]).panels
    names = [name for _, name in panel.y.ticks]
    assert len(set(names)) == len(names) == 16
    assert names[:2] == ["entropy, dₖ 16, no transform", "entropy, dₖ 64, no transform"]
    assert "variance, dₖ 64, softcap:2" in names
    assert not any("keys" in name or "scale" in name for name in names)


def test_gap_names_the_record_where_two_have_the_same_row(table):
    (panel,) = figure_data("gap", [table, table]).panels
    names = [name for _, name in panel.y.ticks]
    assert len(set(names)) == len(names)
    assert names[0] == "variance, dₖ 16, record 1"


def test_every_series_has_a_name_and_its_colour_in_all_panels(measured):
    record = measured(replace(VARIANTS, quantities=("max_prob", "entropy"))).record
    panels = figure_data("softmax", [record]).panels
    named = [{points.label: points.colour for points in panel.points} for panel in panels]
    assert list(named[0]) == ["no transform", "softcap:2", "causal", "alibi:0.5"]
    assert named[0] == named[1] == named[2]


def test_more_cases_than_can_be_told_apart_are_counted(measured):
    many = tuple(f"student-t:{20 + i}" for i in range(MOST_SERIES + 3))
    (panel,) = figure_data("variance", [measured(CaseOptions(elements=many)).record]).panels
    assert len(panel.points) == MOST_SERIES
    assert panel.title.endswith(f"\n{MOST_SERIES} of {len(many)} cases")
    assert drawn([panel]).startswith(b"<?xml")


def test_a_scaled_logit_is_called_x_with_its_scale(measured):
    options = CaseOptions(quantities=("std",), scale=("sqrt-dk",))
    (panel,) = figure_data("variance", [measured(options).record]).panels
    assert panel.y.label == "sd(x), scaled by 1/√dₖ"
    both = replace(options, scale=("none", "sqrt-dk"))
    (panel,) = figure_data("variance", [measured(both).record]).panels
    assert panel.y.label == "sd(x)"


@pytest.mark.parametrize(("top", "least"), [(1.04, 3), (2.5, 3), (40.0, 3)])
def test_a_short_logarithmic_axis_has_several_ticks(top, least):
    panel = Panel("a", Axis("x"), Axis("y", "log"), (Line((0.0, 1.0), (0.97, top)),))
    image = drawn([panel], text="none").decode()
    axis = image[image.index('id="matplotlib.axis_2"') :]
    ticks = re.findall(r"<text[^>]*>([\d.]+)</text>", axis)
    assert len(ticks) >= least, ticks


def test_a_legend_stands_under_the_curves_and_once(measured):
    panels = figure_data("softmax", [measured(VARIANTS).record]).panels
    root = xml.dom.minidom.parseString(drawn(panels, text="none"))
    legends = [g for g in root.getElementsByTagName("g") if "legend" in g.getAttribute("id")]
    assert len(legends) == 1
    assert all(legends[0].parentNode is not axes for axes in root.getElementsByTagName("g")
               if axes.getAttribute("id").startswith("axes"))  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        CaseOptions(dk=("8",), elements_q=("uniform",), mean_k=("0.5",), sigma_q=("2",)),
        CaseOptions(dk=("8",), n_keys=("4",), quantities=("sum_p2",), dtype=("float64",)),
        CaseOptions(logit_std=("2",), n_keys=("4",), quantities=("sum_p2",)),
        CaseOptions(dk=("8",), weights=("lecun-normal",), d_model=("32",)),
    ],
)
def test_a_case_comes_back_from_its_row(options):
    record = json.loads(json.dumps(predicted(options).record))
    for (case, _), row in zip(requested_rows(options), record["rows"], strict=True):
        assert case_of(row) == case


def test_a_case_that_cannot_be_said_has_theory_where_the_record_has_it(table):
    row = {**table["rows"][0], "parameters": {"colour": "red"}}
    assert case_of(row) is None
    assert case_of({**row, "parameters": {"sigma_q": "<b>"}}) is None
    assert case_of({**row, "parameters": {}, "transform": "rope"}) is None
    from verify_variance.reports.figures.series import Series

    assert theory_along(Series("", [row])) == [(16.0, 16.0, 16.0)]


def test_figures_of_picks_what_the_record_has(table, rows):
    assert [data.name for data in figures_of([table])] == [
        *("variance", "gap", "z", "law", "saturation")
    ]
    assert "softmax" in [data.name for data in figures_of([table, rows])]


def test_a_figure_without_rows_says_what_it_needs(table):
    with pytest.raises(InputError, match="figure softmax needs rows of max_prob or entropy"):
        figure_data("softmax", [table])
    with pytest.raises(InputError, match=r"unknown figure .varianc.; did you mean variance"):
        figure_data("varianc", [table])
    with pytest.raises(InputError, match=r"must end in .svg, .png or .pdf, got fig.gif"):
        figure_form("fig.gif")


SMALL = Panel(
    "title",
    Axis("x", "log"),
    Axis("y", "log"),
    (Line((1.0, 10.0), (1.0, 1e5), "theory"),),
    (Points((2.0,), (3.0,), (2.5,), (4.0,), "measured", 0),),
)


@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
def test_bytes_are_the_same_in_another_process_and_under_other_settings(form, tmp_path):
    here = drawn([SMALL], form)
    code = (
        "import sys; from matplotlib import rcParams;"
        "rcParams.update({'font.size': 20, 'svg.fonttype': 'none'});"
        "from verify_variance.reports.figures.drawing import drawn;"
        "from verify_variance.reports.figures.panels import *;"
        f"sys.stdout.buffer.write(drawn([{SMALL!r}], {form!r}))"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert there == here
    assert b"Date" not in here
    assert here.startswith({"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[form])


def test_drawing_leaves_the_users_settings_and_pyplot_alone():
    before = dict(matplotlib.rcParams)
    drawn([SMALL])
    assert dict(matplotlib.rcParams) == before
    code = (
        "import sys; from verify_variance.reports.figures.drawing import drawn;"
        "from verify_variance.reports.figures.panels import *;"
        "drawn([Panel('a', Axis('x'), Axis('y'), (Line((0., 1.), (0., 1.)),))]);"
        "print('matplotlib.pyplot' in sys.modules, 'jax' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "False"]


HOSTILE = ["$\\frac{", "</svg><script>alert(1)</script>", "-->", "a\x00b\x1bc", "𝔽" * 200, "]]>"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_labels_are_drawn_and_inert(text):
    panel = Panel(text, Axis(text), Axis(text, ticks=((1.0, text),)), (Line((0, 1), (0, 1), text),))
    image = inline([panel], "x")
    xml.dom.minidom.parseString(image)
    assert "<script" not in image
    assert "<!--" not in image


def test_an_inline_image_has_its_own_ids_and_the_pages_colour():
    image = inline([SMALL], "first")
    document = xml.dom.minidom.parseString(image)
    ids = [node.getAttribute("id") for node in document.getElementsByTagName("*")]
    assert all(i.startswith("first-") for i in ids if i)
    used = [node.getAttribute("xlink:href") for node in document.getElementsByTagName("use")]
    assert used
    assert {u.removeprefix("#") for u in used} <= set(ids)
    assert INK_COLOUR not in image
    assert "currentColor" in image
    assert not document.documentElement.hasAttribute("width")


def contrast(colour: str, ground: tuple[float, float, float]) -> float:
    """WCAG 2 contrast ratio."""

    def luminance(channels):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    a, b = luminance(matplotlib.colors.to_rgb(colour)), luminance(ground)
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


def test_colours_are_those_of_okabe_and_ito_and_seen_on_light_and_dark():
    assert set(COLOURS) <= {
        *("#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
    }
    for colour in COLOURS:
        assert contrast(colour, (1, 1, 1)) > 2.2
        assert contrast(colour, (0.07, 0.08, 0.1)) > 3


def test_paper_is_a_column_of_85_mm_with_editable_fonts(rows):
    data = figure_data("softmax", [rows])
    pdf = Drawing(data, "paper").image("pdf")
    assert b"/FontType 3" not in pdf
    svg = Drawing(data, "paper").image().decode()
    root = xml.dom.minidom.parseString(svg).documentElement
    assert float(root.getAttribute("width").removesuffix("pt")) == pytest.approx(3.35 * 72, abs=0.1)


def test_a_drawing_shows_itself_and_saves_what_its_name_says(table, tmp_path):
    drawing = Drawing(figure_data("variance", [table]))
    assert "<svg" in drawing._repr_svg_()
    drawing.save(str(tmp_path / "a.pdf"))
    assert (tmp_path / "a.pdf").read_bytes() == drawing.image("pdf")


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_draws_in_every_style(name, table, rows):
    data = figure_data(name, [table, rows])
    assert data.caption.endswith(".")
    for panel in data.panels:
        assert panel.title
        assert panel.x.label
    assert drawn(data.panels, "png", "paper").startswith(b"\x89PNG")
