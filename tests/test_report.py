"""The report: what is written, and what a browser makes of it."""

import json
import re
from copy import copy
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import inside
from browser import contents
from gpum import Atlas, EmbeddedChart, GPUMClassifier, GPUMRegressor, KernelOptions, diagnostics
from gpum.app.report import classes, findings, verdict
from gpum.app.report.maps import View, flat_map, relevant_columns
from gpum.persistence.model_io import Fitted
from gpum.report import render, write_report


@pytest.fixture(scope="module")
def curve_page(curve_fit):
    return render(curve_fit)


@pytest.fixture(scope="module")
def sheet_page(sheet_fit):
    return render(sheet_fit)


@pytest.fixture(scope="module")
def ring_page():
    """A ring in R⁴ on atlases and in flat space: no chart."""
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    X = np.stack([np.cos(angle), np.sin(angle), 0.4 * np.sin(3 * angle), 0.4 * np.cos(3 * angle)], 1)
    X += 0.005 * np.random.default_rng(0).normal(size=X.shape)
    y = np.where(np.arange(40) % 2, np.sin(4 * angle), np.nan)[:, None]
    model = GPUMRegressor(geometry=["atlas", "flat"], random_state=0).fit(X, y[:, 0])
    return render(Fitted(model, list("abcd"), ["y"], X, y, [f"row {i}" for i in range(40)], {}))


def test_equal_rows_have_no_main_directions():
    X, y = np.ones((4, 5)), np.array([1.0, 2.0, np.nan, np.nan])[:, None]
    model = GPUMRegressor(geometry="flat", smoothness="heat").fit(X, y[:, 0])
    found = contents(render(Fitted(model, list("abcde"), ["y"], X, y, list("1234"), {})))
    assert found["cloud"]["fractions"] == ["0 %"] * 3
    assert np.all(np.array(found["chart"]["axes"]) == 0)


def test_pictures_show_columns_in_the_units_of_the_fit():
    """Two columns of noise in large numbers would be all that main directions of the columns as they come show."""
    rng = np.random.default_rng(0)
    t = rng.standard_normal((60, 2))
    X = np.c_[t, t + 0.1 * rng.standard_normal((60, 2)), 1e4 * rng.standard_normal((60, 2))]
    y = np.where(np.arange(60) % 2, t[:, 0], np.nan)[:, None]
    model = GPUMRegressor(geometry="flat", scale="standard", hyperparameters="evidence", random_state=0).fit(X, y[:, 0])
    found = contents(render(Fitted(model, list("abcdef"), ["y"], X, y, [str(i) for i in range(60)], {})))
    for axes in (found["chart"]["axes"], found["cloud"]["axes"][:2]):
        rest = t - np.array(axes).T @ np.linalg.lstsq(np.array(axes).T, t - t.mean(0), rcond=None)[0] - t.mean(0)
        assert np.all(rest.var(0) < 0.1 * t.var(0))


def test_rows_far_from_others_are_far_in_the_units_of_the_fit():
    """A column in large numbers, equal in pairs of rows but for the last row, must not decide; nor hide row 7."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(61, 2)), 1e6 * (np.arange(61) // 2)]
    X[7, :2] = 12.0
    y = np.where(np.arange(61) % 2, X[:, 1], np.nan)[:, None]
    model = GPUMRegressor(geometry="flat", scale="standard", hyperparameters="evidence", random_state=0).fit(X, y[:, 0])
    found = findings.about_cloud(Fitted(model, list("abc"), ["y"], X, y, [str(i) for i in range(61)], {}))
    assert [text.split("(")[0] for text in found] == ["One row is far from all others, the farthest is “7” "]


def test_columns_that_are_listed_are_those_that_matter():
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(40, 7)) * 1e3, rng.normal(size=40)]
    y = X[:, 7:]
    model = GPUMRegressor(geometry="flat", scale="standard", smoothness="heat", random_state=0).fit(X, y[:, 0])
    names = contents(render(Fitted(model, list("abcdefgh"), ["y"], X, y, [str(i) for i in range(40)], {})))["features"]
    assert "h" in names["names"]


class Tags(HTMLParser):
    """Every tag of a page with its attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_hostile_names_are_only_text(curve_fit, curve_page):
    tags = [tag for tag, _ in Tags(curve_page).found]
    assert tags.count("script") == 3
    assert not {"img", "i", "b"} & set(tags)
    assert "<title>GPUM report: &lt;b&gt;curve&lt;/b&gt;.csv</title>" in curve_page
    found = contents(curve_page)
    assert found["rows"] == curve_fit.rows
    assert [t["name"] for t in found["targets"]] == curve_fit.targets


def test_nothing_is_loaded(curve_page):
    loads = [v for _, found in Tags(curve_page).found for k, v in found.items() if k in ("src", "href", "action")]
    assert all(link.startswith("#") for link in loads)
    assert "default-src 'none'" in curve_page
    assert "{{" not in re.sub(r"<script.*?</script>", "", curve_page, flags=re.S)


def test_every_target_has_its_numbers(curve_fit, curve_page):
    found = contents(curve_page)
    mean, std = curve_fit.model.predict_cloud(return_std=True)
    for k, target in enumerate(found["targets"]):
        assert target["mean"] == pytest.approx(mean[:, k].tolist(), abs=1e-3)
        assert target["std"] == pytest.approx(std[:, k].tolist(), rel=1e-2, abs=1e-4)
        labelled = np.flatnonzero(np.isfinite(curve_fit.y[:, k]))
        assert (
            [i for i, v in enumerate(target["y"]) if v is not None] == labelled.tolist() == target["left_out"]["rows"]
        )
        assert sum(weight for _, weight, _ in target["levels"]) == pytest.approx(1, abs=1e-2)
    assert "Only 4 rows have a label" in found["targets"][1]["cautions"][0]
    assert found["targets"][0]["cautions"] == []
    assert found["messages"] == curve_fit.about["warnings"]
    assert len(found["cloud"]["axes"]) == 3  # principal components
    assert found["chart"]["dim"] == 1
    for target in found["targets"]:
        likeliest = max(weight for name, weight, _ in target["levels"] if name != "no boundary")
        ends = [len(line[0]) for line in target["outline"]]
        assert ends == ([2] if likeliest >= findings.FAINT_EDGE else [])  # of the curve


def test_known_chart(sheet_page):
    found = contents(sheet_page)
    assert found["ard"] is None
    assert found["chart"]["names"] == ["radius", "width"]
    (x, y), *more = found["targets"][0]["outline"]
    assert not more
    assert (min(x), max(x), min(y), max(y)) == pytest.approx((2, 12.5, 0, 12), abs=0.1)


def test_the_map_is_drawn_by_what_has_the_weight():
    """A graph by its own layout, where clusters lie apart; lengths of columns by the columns that matter."""
    rng = np.random.default_rng(0)
    kind = np.arange(90) % 3
    X = 6 * rng.normal(size=(3, 9))[kind] + 0.3 * rng.normal(size=(90, 9))
    y = np.where(np.arange(90) % 4 == 0, kind + 0.01 * rng.normal(size=90), np.nan)[:, None]
    page = lambda model: contents(
        render(Fitted(model, list("abcdefghi"), ["y"], X, y, [str(i) for i in range(90)], {}))
    )
    found = page(GPUMRegressor(geometry="graph", smoothness="heat", random_state=0).fit(X, y[:, 0]))
    assert (found["chart"]["kind"], found["chart"]["title"]) == ("graph", "Map of the graph")
    drawn = np.array(found["chart"]["axes"]).T
    nearest = np.argsort(((drawn[:, None] - drawn) ** 2).sum(-1), 1)[:, 1:4]
    assert (kind[nearest] == kind[:, None]).mean() > 0.9  # by chance 0.33
    assert "near along the graph" in found["targets"][0]["map_text"]
    X = rng.uniform(size=(90, 9))
    y = np.where(np.arange(90) % 2, np.sin(6 * X[:, 3]) + np.cos(5 * X[:, 7]) + X[:, 1] ** 2, np.nan)[:, None]
    found = page(GPUMRegressor(geometry="flat", random_state=0).fit(X, y[:, 0]))
    assert found["chart"]["title"] == "The rows in the columns that matter most"
    assert set(found["chart"]["names"]) == {"d", "h"}
    assert set(found["cloud"]["names"]) == {"b", "d", "h"}
    assert found["chart"]["axes"][0] == pytest.approx(X[:, "abcdefghi".index(found["chart"]["names"][0])], rel=1e-3)
    assert found["targets"][0]["scale"]["scales"] == []  # each column has lengths of its own


def test_labels_that_may_be_mistakes_are_named():
    """Not those that noise-free labels beside them predict less closely than all others, within their intervals."""
    x = np.linspace(0, 2 * np.pi, 60)[:, None]
    y = np.where(np.arange(60) % 3 == 0, np.sin(x[:, 0]), np.nan)
    wrong = y.copy()
    wrong[30] += 5

    def said(y):
        model = GPUMRegressor(geometry="flat", smoothness="matern52", random_state=0).fit(x, y)
        fitted = Fitted(model, ["x"], ["y"], x, y[:, None], [f"row {i}" for i in range(60)], {})
        return " ".join(findings.cautions(fitted, 0, diagnostics.leave_one_out(model)))

    assert "Check" not in said(y)
    assert "The label of “row 30” is" in said(wrong)


def test_axes_of_the_map_are_numbers_before_categories():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"kind": rng.choice(["new", "old"], 80), "a": rng.uniform(size=80), "b": rng.uniform(size=80)})
    y = np.sin(6 * table["a"]) + 3.0 * (table["kind"] == "old") + np.cos(2 * table["b"])
    model = GPUMRegressor(geometry="flat", random_state=0).fit(table, y)
    relevance = dict(zip(model.encoding_.names, model.model_.relevance, strict=True))
    assert max(relevance["kind=new"], relevance["kind=old"]) > relevance["b"]
    names = [model.encoding_.names[j] for j in relevant_columns(model)]
    assert names[:2] == ["a", "b"]
    assert names[2].startswith("kind=")


def test_the_heaviest_candidates_are_a_table(curve_fit, curve_page):
    found = contents(curve_page)["targets"][0]["candidates"]
    table = curve_fit.model.candidates_[0]
    shown = min(8, int((table.weight > 0).sum()))
    assert f"{len(table):,} were weighed" in found["text"]
    assert [row[4] for row in found["rows"]] == pytest.approx(table.weight[:shown], abs=1e-4)
    assert [row[0].split(",")[0] for row in found["rows"]] == table.geometry[:shown].tolist()
    best = GPUMRegressor(geometry="flat", hyperparameters="evidence").fit(curve_fit.X, curve_fit.y[:, 0])
    only = contents(render(replace(curve_fit, model=best, targets=["y"], y=curve_fit.y[:, :1])))["targets"][0]
    assert "a single setting" in only["candidates"]["text"]
    assert len(only["candidates"]["rows"]) == 1


def test_a_closed_surface_has_an_atlas_and_no_map(ring_page):
    found = contents(ring_page)
    (target,) = found["targets"]
    assert target["geometries"][0][0] == target["atlas"] == "atlas of dimension 1"
    assert "Many small maps, glued, have most of the weight" in target["geometry_text"]
    assert "The surface is closed" in target["geometry_text"]
    assert "no single flat map" in target["geometry_text"]
    assert target["map_text"].startswith("No geometry of this model has a flat map. Each dot is a row")
    assert found["chart"]["kind"] == "directions"
    assert [found["magnification"], found["extents"], found["ard"], target["outline"], target["levels"]] == [
        None,
        None,
        None,
        [],
        [],
    ]
    edges = found["atlases"]["atlas of dimension 1"]
    assert len(edges["pairs"]) == 2 * edges["of"] == 2 * len(edges["axes"][0])  # as many steps as nodes: a ring
    assert np.all(np.bincount(edges["pairs"]) == 2)
    around = np.hypot(*np.array(edges["axes"])[:2])
    assert np.all(around > 0.5)  # its edges go around, not across


def test_a_closed_surface_is_called_that():
    rng = np.random.default_rng(0)
    ball = rng.standard_normal((150, 3))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    angle = np.sort(rng.uniform(0, 2 * np.pi, 60))
    ring, arc = (np.stack([np.cos(a), np.sin(a)], 1) for a in (angle, angle / 2))
    assert Atlas(2).fit(ball).projector_.closed
    assert not Atlas(2).fit(ball[ball[:, 2] > -0.3]).projector_.closed
    assert Atlas(1).fit(ring).projector_.closed
    assert not Atlas(1).fit(arc).projector_.closed


TITLES = {
    "chart": "chart of dimension 1",
    "atlas": "atlas of dimension 2",
    "graph": "graph of neighbours",
    "flat": "flat space",
    "tree": "tree of rows",
}


def weighed(curve_fit, **weights):
    """The model of the curve as if it had geometries of these weights."""
    atlas = SimpleNamespace(n_connected_components=2, dim=2)
    chart = inside.members(curve_fit.model)[0]
    other = lambda name: SimpleNamespace(name=name, title=TITLES[name], surface=atlas)
    geometries = [chart if name == "chart" else other(name) for name in weights]
    return inside.weighed(curve_fit.model, geometries, list(weights.values()))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"chart": 0.8, "flat": 0.2}, "A flat map has most of the weight (80 %), the chart of dimension 1"),
        ({"chart": 0.1, "flat": 0.9}, "the labels show no surface"),
        ({"chart": 0.1, "graph": 0.9}, "the labels follow the neighbourhoods of rows"),
        (
            {"chart": 0.1, "atlas": 0.9},
            "2 connected components. Each has a mean of its own",
        ),
        (
            {"chart": 0.3, "atlas": 0.4, "flat": 0.3},
            "No geometry has most of the weight; the atlas of dimension 2 (40 %)",
        ),
        ({"chart": 1.0}, "on the chart of dimension 1 alone"),
        ({"chart": 0.1, "tree": 0.9}, "Most of the weight (90 %) is on the tree of rows."),
    ],
)
def test_the_weights_in_words(curve_fit, weights, words):
    assert words in findings.geometry(weighed(curve_fit, **weights), 0)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (0.9, "^$"),
        (0.3, "made on this map in part: the chart of dimension 1 has 30 %"),
        (0.02, "not made on this map: .* but it has only 2 % of"),
        (0.0, "not made on this map: .* but it has none of"),
    ],
)
def test_a_light_map_is_called_that(curve_fit, weight, words):
    assert re.search(words, findings.the_map(weighed(curve_fit, chart=weight, flat=1 - weight), 0, "learned", 3))


@pytest.mark.slow
def test_three_dimensions_one_label_one_setting():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (30, 3))
    y = np.full((30, 1), np.nan)
    y[0] = 1.0
    chart = EmbeddedChart(lambda x: x, [(0.0, 1.0)] * 3)
    model = GPUMRegressor(
        latent_model=chart,
        kernel=KernelOptions("brownian", n_paths=10, n_path_starts=5),
        hyperparameters="evidence",
        random_state=0,
    )
    fitted = Fitted(model.fit(X, y[:, 0]), list("abc"), ["y"], X, y, list(map(str, range(30))), {"seconds": 3.0})
    (target,) = contents(render(fitted))["targets"]
    assert target["left_out"] is None
    assert target["outline"] == []
    assert "Only one row has a label" in target["cautions"][0]
    assert target["scale"]["chosen"]
    assert ["Fitted in", "3 s", ""] in target["figures"]


def test_findings_see_what_is_wrong(sheet_fit):
    X, y = sheet_fit.X.copy(), sheet_fit.y.copy()
    y[3] += 10
    model = GPUMRegressor(latent_model=sheet_fit.model.chart_, random_state=0).fit(X, y[:, 0])
    text = " ".join(contents(render(replace(sheet_fit, model=model, y=y)))["targets"][0]["cautions"])
    assert "most of all “place 3”" in text
    X[7] += 500
    latent = SimpleNamespace(converged_=False, max_iter=10, latent_dim_=2)
    model.__class__ = type("Unfinished", (GPUMRegressor,), {"latent_model_": latent})
    text = " ".join(findings.about_cloud(replace(sheet_fit, model=model, X=X)))
    assert "still improving" in text
    assert "latent_model=SimpleNamespace(2, max_iter=20)" in text  # a setting that the regressor has
    assert "“place 7”" in text


def noisy(fraction, n=60):
    """A table without a surface; a line explains about so much of the target."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 3))
    line, noise = X[:, 0] - X[:, 0].mean(), rng.standard_normal(n)
    y = np.sqrt(fraction) * line / line.std() + np.sqrt(1 - fraction) * noise / noise.std()
    model = GPUMRegressor(geometry="flat", smoothness="heat", scale="standard").fit(X, y)
    return Fitted(model, list("abc"), ["y"], X, y[:, None], list(map(str, range(n))), {})


@pytest.mark.parametrize(
    ("fraction", "words"),
    [(0.25, "This model explains next to nothing of the target"), (0.5, "This model explains less than half of the")],
)
def test_a_model_that_explains_little_says_so_first(fraction, words):
    """Also where its error is a little below that of a blind guess: 0.88 of it is no prediction yet."""
    fitted = noisy(fraction)
    page = contents(render(fitted))
    assert page["targets"][0]["cautions"][0].startswith(words)
    error = next(line for line in page["targets"][0]["figures"] if line[0] == "Error of a left-out label")
    assert re.fullmatch(r"labels spread by [\d.]+; \d+ % of their variance explained", error[2])


def test_a_model_that_explains_its_target_is_not_blamed():
    fitted = noisy(0.95)
    assert not [text for text in contents(render(fitted))["targets"][0]["cautions"] if "explains" in text]


def test_the_report_says_which_columns_matter():
    (target,) = contents(render(noisy(0.95)))["targets"]
    name, most, _ = target["relevance"][0]
    assert (name, most) == ("a", pytest.approx(1.0, abs=1e-3))
    values = [value for _, value, _ in target["relevance"]]
    assert values == sorted(values, reverse=True)


def test_the_units_of_scaled_columns_are_words():
    """No list of numbers to sixteen digits."""
    about = dict(contents(render(noisy(0.95)))["about"])
    assert about == {"columns": "each divided by its spread, 0.271 to 0.322"}


@pytest.fixture(scope="module")
def class_fit():
    X = np.random.default_rng(0).normal(size=(40, 2)) + 4 * (np.arange(40)[:, None] % 2)
    known = np.arange(40) < 24
    y = np.where(known, np.where(np.arange(40) % 2, "up", "down"), "")
    model = GPUMClassifier(geometry="flat", smoothness="heat").fit(X, y)
    codes = np.where(known, np.arange(40) % 2, np.nan)[:, None]
    return Fitted(model, ["a", "b"], ["way"], X, codes, list(map(str, range(40))), {})


def test_the_report_of_classes_speaks_of_probabilities(class_fit):
    """Classes have no intervals, and no standard deviation."""
    words = contents(render(class_fit))["words"]
    assert "probabilit" in words["nothing"]
    assert "interval" not in " ".join(words.values())
    assert "class" in words["left_out"]
    assert "interval" in contents(render(noisy(0.95)))["words"]["nothing"]


def test_wrong_probabilities_of_classes_are_reported(class_fit):
    fitted = replace(class_fit, model=copy(class_fit.model))
    n = 24
    for right, words in ((12, "too large"), (24, "more often right than")):
        p = np.full((n, 2), 0.95 if right < n else 0.6)
        p[:, 1] = 1 - p[:, 0]
        y = np.where(np.arange(n) < right, 0, 1)
        found = " ".join(classes._cautions(fitted, diagnostics.LeftOutClasses(np.arange(n), y, p)))
        assert words in found
    y = np.where(np.arange(n) < 22, 0, 1)
    p = np.tile([0.92, 0.08], (n, 1))
    assert "sure" not in " ".join(classes._cautions(fitted, diagnostics.LeftOutClasses(np.arange(n), y, p)))


def test_the_report_begins_with_a_verdict(curve_fit, curve_page, class_fit):
    first, second = (target["verdict"] for target in contents(curve_page)["targets"])
    left_out = diagnostics.leave_one_out(curve_fit.model, 0)
    fraction = left_out.rmse / np.nanstd(curve_fit.y[:, 0])
    assert first == (
        f"Predictions are typically off by {left_out.rmse:.2g}, {100 * fraction:.0f} % of the labels’ spread; "
        "intervals hold."
    )
    assert second.endswith("(judged by 4 labels only).")
    page = render(class_fit)
    assert page.index('id="verdict"') < page.index('id="figures"')
    (said,) = {target["verdict"] for target in contents(page)["targets"]}
    assert re.fullmatch(r"(100|9\d) % of left-out labels come out right; their probabilities hold\.", said)


def left_out(n, inside, error=0.1):
    """Labels of spread 1, of which so many are in their interval."""
    y = np.tile([-1.0, 1.0], n // 2)
    half = np.where(np.arange(n) < inside, 2 * error, 0.5 * error)
    return diagnostics.LeaveOneOut(np.arange(n), y, y + error, np.full(n, error), y + error - half, y + error + half)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (left_out(40, 38), "typically off by 0.1, 10 % of the labels’ spread; intervals hold."),
        (left_out(40, 20), "intervals are too narrow."),
        (left_out(150, 139), "intervals hold."),  # 93 %
        (left_out(400, 400), "intervals are too wide."),
        (left_out(6, 3), "too few labels to judge the intervals (judged by 6 labels only)."),
        (left_out(40, 38, error=1.2), "120 % of the labels’ spread: no better than the mean of the labels;"),
        (None, "fewer than two rows have a label"),
    ],
)
def test_verdicts_on_numbers(found, words):
    assert words in verdict.of_numbers(SimpleNamespace(spread=1.0), found)


def test_verdicts_on_classes():
    y = np.arange(40) % 2
    sure = lambda p: np.where(np.eye(2)[y] > 0, p, 1 - p)
    said = lambda p, right: verdict.of_classes(diagnostics.LeftOutClasses(np.arange(40), y, np.where(right, p, 1 - p)))
    right = (np.arange(40) >= 20)[:, None]
    assert said(sure(0.99), True) == "100 % of left-out labels come out right; their probabilities hold."
    assert said(sure(0.6), True).endswith("the probabilities are too cautious.")
    assert said(sure(0.99), right).startswith("50 % of left-out labels come out right, no more than if every row were")
    assert said(sure(0.99), right).endswith("the probabilities are too large.")


@pytest.mark.parametrize(
    ("value", "text"), [(0.0686, "0.0686"), (474, "474"), (12345.6, "12,346"), (-6.057, "-6.06"), (1e-9, "1e-09")]
)
def test_numbers_are_written_as_people_do(value, text):
    assert findings.number(value) == text


def test_large_clouds_make_small_files(sheet_fit):
    """20 000 rows: a page of less than 2 MB, which says how many rows it shows."""
    n = 20_000
    model = GPUMRegressor(latent_model=sheet_fit.model.chart_, random_state=0)
    X = np.random.default_rng(0).uniform(*model.latent_model.bounds.T, (n, 2))
    y = np.full((n, 1), np.nan)
    y[:20, 0] = X[:20, 0]
    names = [f"row {i}" for i in range(n)]
    page = render(Fitted(model.fit(X, y[:, 0]), ["r", "z"], ["y"], X, y, names, {}))
    assert len(page.encode()) < 2e6
    shown = contents(page)
    assert 500 <= len(shown["rows"]) < n
    assert shown["messages"][0] == (
        f"The pictures and the table show {len(shown['rows']):,} of 20,000 rows; all figures are of all rows."
    )


def test_write_is_whole_or_not_at_all(sheet_fit, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    assert write_report(sheet_fit, path) == path
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="force=True"):
        write_report(sheet_fit, path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_report(sheet_fit, tmp_path / "no" / "report.html")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_report(sheet_fit, path, force=True)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_ten_classes_can_be_distinguished_by_everyone():
    """Colours of classes differ in OKLab also for colour-blind people (Machado, 2009), and are not those of paper."""
    script = (resources.files("gpum.app.report") / "page" / "common.js").read_text("utf-8")
    sight = {
        "all": np.eye(3),
        "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
        "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
    }
    to_cones = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.63]])
    to_lab = np.array([[0.2105, 0.7936, -0.0041], [1.978, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])
    linear = lambda hexes: (
        ((np.array([[int(h[i : i + 2], 16) for i in (1, 3, 5)] for h in hexes]) / 255 + 0.055) / 1.055) ** 2.4
    )
    light = lambda rgb: rgb @ [0.2126, 0.7152, 0.0722] + 0.05
    for mode, paper in (("light", "#ffffff"), ("dark", "#1d242c")):
        rgb = linear(re.findall(r"#\w{6}", re.search(rf"{mode}: \[(.*?)\]", script)[1]))
        assert len(rgb) == 10
        contrast = light(rgb) / light(linear([paper]))
        assert np.all(np.maximum(contrast, 1 / contrast) > 1.8)
        for matrix in sight.values():
            lab = np.cbrt(np.clip(rgb @ np.transpose(matrix), 0, 1) @ to_cones.T) @ to_lab.T
            apart = np.linalg.norm(lab[:, None] - lab, axis=-1)[np.triu_indices(10, 1)]
            assert apart.min() > 0.09


# In a browser.


@pytest.fixture(scope="module")
def pages(tmp_path_factory, curve_page, sheet_page, ring_page, class_fit):
    folder = tmp_path_factory.mktemp("report")
    made = {"curve": curve_page, "sheet": sheet_page, "ring": ring_page, "class": render(class_fit)}
    for name, page in made.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return folder


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", ["curve", "sheet", "ring"])
def test_draws_without_error_or_overflow(browser, pages, name, width):
    browser.open(pages / f"{name}.html", width)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.run("return document.title").startswith("GPUM report")  # no name ran as a script
    plots = browser.run(
        "return [...document.querySelectorAll('.plot')].filter(p => p.offsetParent).map(p => [p.id, "
        "p.querySelectorAll('.main-svg, canvas').length, p.getAttribute('aria-labelledby')])"
    )
    assert len(plots) >= 5  # one more where columns have lengths, or a chart has several dimensions
    assert all(drawn and label for _, drawn, label in plots)
    assert browser.errors() == []


@pytest.mark.slow
def test_plots_follow_their_boxes(browser, pages):
    """Also where no window is resized; and no words are cut off on a narrow screen."""
    browser.open(pages / "curve.html", 1280)
    browser.run("document.body.style.width = '420px'")
    browser.wait(
        "return [...document.querySelectorAll('.js-plotly-plot')].filter(p => p.offsetParent).every("
        "p => Math.abs(p.clientWidth - p.querySelector('.main-svg').getBoundingClientRect().width) < 2)"
    )
    for name, width in (("curve", 420), ("sheet", 420), ("ring", 420), ("curve", 375), ("ring", 375)):
        browser.open(pages / f"{name}.html", width)
        cut = browser.run(
            "return [...document.querySelectorAll('.js-plotly-plot')].filter(p => p.offsetParent).flatMap(p => {"
            "const box = p.getBoundingClientRect(); return [...p.querySelectorAll('text')].filter(t => {"
            "const r = t.getBoundingClientRect(); return r.width && (r.left < box.left - 1 || r.right > box.right + 1)"
            "}).map(t => `${p.id}: ${t.textContent}`)})"
        )
        assert cut == []


def test_an_edge_without_weight_is_not_drawn():
    level, text = findings.outline({0.0: 0.002, 0.5: 0.006, "none": 0.992})
    assert (level, "No edge is drawn" in text) == ("none", True)
    assert findings.outline({0.0: 0.2, 0.5: 0.1, "none": 0.7})[0] == 0.0
    assert findings.outline({0.0: 0.9, 0.5: 0.1})[0] == 0.0


def test_an_atlas_is_drawn_and_what_needs_a_chart_is_not(browser, pages):
    browser.open(pages / "ring.html")
    edges = contents((pages / "ring.html").read_text(encoding="utf-8"))["atlases"]["atlas of dimension 1"]
    assert browser.run("return document.getElementById('cloud').data[3].x.length") == 1.5 * len(edges["pairs"])
    bars = browser.run("const bars = document.getElementById('geometry').data[0]; return bars.y")
    assert bars[0] == "atlas of dimension 1"
    assert "flat space" in bars
    assert "closed" in browser.run("return document.getElementById('geometry-text').textContent")
    assert "main directions" in browser.run("return document.getElementById('map-text').textContent")
    assert browser.run("return document.getElementById('h-map').textContent") == "The rows along two main directions"
    assert browser.run("return [...document.querySelectorAll('#colour input')].map(i => i.value)") == [
        "y",
        "mean",
        "std",
    ]
    hidden = "return document.getElementById('{}').offsetParent === null"
    assert browser.run(hidden.format("ard"))
    assert browser.run(hidden.format("levels"))
    browser.run("document.getElementById('pick-labelled').click()")
    assert browser.run("return document.getElementById('cloud').data[2].x.length") == 20
    assert browser.errors() == []


def where(browser, row):
    """Pixels of a row on the flat map, scrolled into sight."""
    return browser.run(
        "const map = document.getElementById('map'); map.scrollIntoView({block: 'center'});"
        "const l = map._fullLayout, b = map.getBoundingClientRect(), t = map.data[1];"
        "const at = (axis, v) => axis._offset + axis.d2p(v);"
        f"return [b.left + at(l.xaxis, t.x[{row}]), b.top + at(l.yaxis, t.y[{row}])]"
    )


def hovered(browser, words):
    """The text beside the mouse, once it holds these words."""
    return browser.wait(
        "const text = document.querySelector('#map .hovertext')?.textContent;"
        f"return text && text.includes({json.dumps(words)}) && text"
    )


@pytest.mark.parametrize(("name", "row"), [("curve", 4), ("sheet", 50)])
def test_hover_shows_the_row(browser, pages, name, row):
    browser.open(pages / f"{name}.html")
    browser.hover(*where(browser, row))
    expected = contents((pages / f"{name}.html").read_text(encoding="utf-8"))
    text = hovered(browser, expected["rows"][row])  # as it is, markup and all
    assert "prediction: " in text
    assert "±" in text
    assert "no label" in text
    assert all(feature in text for feature in expected["features"]["names"])


def test_a_page_of_classes_has_no_word_of_intervals(browser, pages):
    browser.open(pages / "class.html")
    text = browser.run("return document.body.innerText")
    assert "interval" not in text
    assert "standard deviation" not in text
    assert "± std" not in text
    assert "come out right" in text
    assert "probabilities" in text
    browser.run("document.getElementById('pick-labelled').click()")
    head = browser.run("return [...document.querySelectorAll('#table th')].map(h => h.textContent)")
    assert head[:3] == ["row", "way", "class"]
    assert browser.run("return [...document.querySelectorAll('#colour input')].map(i => i.value)") == [
        "y", "mean", "std",
    ]  # fmt: skip
    assert browser.run("return [...document.querySelectorAll('#key-classes li')].map(i => i.textContent)") == [
        "down", "up",
    ]  # fmt: skip
    marks = browser.run("const m = document.getElementById('map').data[1].marker; return [m.color, m.symbol]")
    assert [len(set(each)) for each in marks] == [2, 2]  # all classes on one map, by colour and by shape
    assert browser.run("return document.getElementById('target').options.length") == 3
    assert browser.run("return document.getElementById('h-map').textContent") == "The rows in their columns"
    about = browser.run("return document.getElementById('map-text').textContent")
    assert about.startswith("Each dot is a row of the data, in its own columns.")
    assert browser.errors() == []


def test_colours_switch(browser, pages):
    browser.open(pages / "sheet.html")
    seen = set()
    for value in ("y", "mean", "std", "magnification"):
        browser.run(f"document.querySelector('input[value={value}]').click()")
        colour = "return document.getElementById('{}').data[{}].marker.color.join()"
        assert browser.run(colour.format("map", 1)) == browser.run(colour.format("cloud", 0))
        seen.add(browser.run(colour.format("map", 1)))
    assert len(seen) == 4
    assert browser.errors() == []


@pytest.mark.slow
def test_lasso_lists_rows(browser, pages):
    browser.open(pages / "sheet.html")
    x, y = where(browser, 50)
    browser.drag([(x - 25, y - 25), (x + 25, y - 25), (x + 25, y + 25), (x - 25, y + 25), (x - 25, y - 25)])
    listed = browser.wait("return [...document.querySelectorAll('#table tbody tr')].map(r => r.cells[0].textContent)")
    assert "place 50" in listed
    assert len(listed) < 60
    assert browser.run("return document.getElementById('status').textContent") == f"{len(listed)} of 200 rows selected."
    assert browser.run("return document.getElementById('cloud').data[2].x.length") == len(listed)
    bright = browser.run("return document.getElementById('map').data.slice(1).map(t => t.selectedpoints.length)")
    assert bright == [len(listed), *[sum(int(name.split()[1]) < 30 for name in listed)] * 2]  # 30 rows have labels
    browser.hover(*where(browser, 50))  # also where the loop was
    assert hovered(browser, "place 50")
    browser.run("document.getElementById('clear').click()")
    assert browser.run("return document.querySelectorAll('#table tr').length") == 0
    assert browser.errors() == []


def test_targets_switch(browser, pages):
    browser.open(pages / "curve.html")
    figures = "return document.getElementById('figures').textContent"
    before = browser.run(figures)
    box = "document.getElementById('messages-box')"
    assert browser.run(f"return [{box}.open, {box}.hidden, {box}.innerText]") == [
        False,
        False,
        "Messages of the fit (1)",
    ]
    assert browser.run("return document.getElementById('h-map').textContent") == "Flat map"
    browser.run("const s = document.getElementById('target'); s.value = 1; s.dispatchEvent(new Event('change'))")
    assert browser.run(figures) != before
    assert "Only 4 rows" in browser.run("return document.getElementById('cautions').textContent")
    assert browser.run("return document.getElementById('map').data[2].x.length") == 4
    assert browser.errors() == []


TAB, SPACE, RIGHT = "\ue004", " ", "\ue014"


def test_all_of_it_by_keyboard(browser, pages):
    """Tab reaches every control in the order of the page; keys select rows, copy and turn."""
    browser.open(pages / "curve.html", 400)
    order, focus = [], "const a = document.activeElement; return a.id || a.dataset.turn || a.name || a.className"
    for _ in range(30):
        browser.keys(TAB)
        order.append(browser.run(focus))
        if order[-1] == "colour":
            browser.keys(RIGHT)
        if order[-1] == "left":
            browser.keys(SPACE)
        if order[-1] == "find":
            browser.keys("row 1")
        if order[-1] == "table-box":
            break
    expected = [
        "skip",
        "target",
        "colour",
        "left",
        "right",
        "up",
        "down",
        "find",
        "pick-labelled",
        "pick-next",
        "clear",
    ]
    assert [name for name in order if name in expected] == expected
    assert order[-2:] == ["copy", "table-box"]
    assert browser.run("return document.querySelector('input:checked').value") == "std"
    assert browser.run("return document.querySelectorAll('#table tbody tr').length") == 11  # 1, 10 to 19
    eye = browser.run("return document.getElementById('cloud')._fullLayout.scene.camera.eye")
    assert eye["x"] != pytest.approx(-eye["y"])
    browser.command("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    browser.run("document.getElementById('copy').click()")
    assert browser.wait("return document.getElementById('status').textContent.includes('11 rows copied')")
    assert browser.errors() == []


def test_a_chart_without_weight_is_not_drawn(curve_fit, monkeypatch):
    """Where flat space has the weight, its columns are drawn, or main directions."""
    for weight, kind in ((0.02, "directions"), (0.2, "learned")):
        weights = {"chart of dimension 1": weight, "flat space": 1 - weight}
        monkeypatch.setattr("gpum.app.report.maps._weights", lambda model, weights=weights: weights)
        found = flat_map(curve_fit, View(curve_fit.X, 1.0))
        assert (found.kind, len(found.rows)) == (kind, 40)


def test_words_of_the_page_are_no_names_of_the_code():
    for words in (findings.WORDS, classes.WORDS):
        assert not [text for text in words.values() if re.search(r"[a-z][A-Z]|_", text)]
