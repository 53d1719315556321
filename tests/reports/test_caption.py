"""Tables for papers: captions, labels and reStructuredText, as the format's own tools read them."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from verify_variance.reports.caption import captioned
from verify_variance.reports.markup import tabulated
from verify_variance.reports.output import OutputOptions
from verify_variance.reports.table import render
from verify_variance.stats.checks import InputError
from verify_variance.stats.request import CaseOptions

CAPTION, LABEL = r"Variance of $q \cdot k$; 100\,\% exact.", "tab:variance"


@pytest.fixture
def record(measured):
    cases = CaseOptions(dk=("8", "16"), quantities=("variance", "mean_abs"))
    return measured(cases, factor=1.001).record


def test_latex_has_a_float_with_booktabs_caption_and_label(record):
    text = captioned(render(record, "latex"), "latex", CAPTION, LABEL)
    lines = text.splitlines()
    assert lines[0] == r"\begin{table}"
    assert lines[-1] == r"\end{table}"
    assert rf"\caption{{{CAPTION}}}" in lines
    assert lines.index(rf"\label{{{LABEL}}}") > lines.index(rf"\caption{{{CAPTION}}}")
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert rule in text
    assert r"mean\_abs" in text
    assert text.count(r"\begin") == text.count(r"\end")


def test_without_caption_and_label_the_table_is_alone(record):
    for form in ("latex", "html", "rst"):
        table = render(record, form)
        assert captioned(table, form, None, None) == table


def test_html_caption_is_escaped_text(record):
    text = captioned(render(record, "html"), "html", "<b>a & b</b>", None)
    found = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag, attrs):
            found.append(tag)

    Parser().feed(text)
    assert found[:2] == ["table", "caption"]
    assert "b" not in found
    assert "&lt;b&gt;a &amp; b&lt;/b&gt;" in text


def parsed(text):
    core = pytest.importorskip("docutils.core", reason="pip install docutils to run this")
    return core.publish_doctree(text, settings_overrides={"halt_level": 2, "report_level": 2})


def test_restructured_text_is_read_by_docutils(record):
    tree = parsed(captioned(render(record, "rst"), "rst", "Variance.", "variance"))
    (table,) = tree.findall(lambda node: node.tagname == "table")
    assert table.next_node(lambda node: node.tagname == "title").astext() == "Variance."
    assert "variance" in table["ids"]
    rows = list(tree.findall(lambda node: node.tagname == "row"))
    assert len(rows) == 1 + len(record["rows"])


MARKUP = ["*a*", "`a`", "|a|", "a_", "a_b", "**a", "\\a", "a__", "`a`_", "E|x|", "mean_abs"]


@pytest.mark.parametrize("cell", MARKUP)
def test_markup_in_a_cell_is_text_in_restructured_text(cell):
    tree = parsed(tabulated([[cell, "1"]], ["name", "n"], "rst", [True, False]))
    cells = [node.astext() for node in tree.findall(lambda n: n.tagname == "entry")]
    assert cells == ["name", "n", cell, "1"]


def test_the_shown_digits_end_where_the_error_does(record):
    for row in record["rows"]:
        row["mcse"] = 0.0123
    shown = re.findall(r"\d+\.(\d+)\((\d+)\)", render(record, "rst"))
    assert shown
    assert all(len(decimals) == 3 and error == "12" for decimals, error in shown)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (OutputOptions(format="pipe", caption="a"), "caption needs --format latex or html or rst"),
        (OutputOptions(format="html", label="a"), "label needs --format latex or rst, got html"),
        (OutputOptions(caption="a"), "caption needs --format"),
    ],
)
def test_a_caption_where_none_can_be_is_refused(options, said):
    with pytest.raises(InputError, match=re.escape(said)):
        options.check()


def test_the_name_of_the_output_says_the_format_and_the_command_writes_it(tmp_path):
    path = tmp_path / "table.tex"
    line = ("predict", "--dk", "8", "-o", str(path), "--caption", CAPTION, "--label", LABEL)
    subprocess.run([sys.executable, "-m", "verify_variance", *line], check=True)
    assert path.read_text().startswith("\\begin{table}\n\\centering\n\\caption{Variance")
    assert OutputOptions(output="a.rst").form == "rst"


@pytest.mark.parametrize("form", ["html", "rst"])
def test_of_several_tables_the_first_has_the_caption(record, form):
    grouped = record | {"group_by": ("quantity",)}
    text = captioned(render(grouped, form), form, "Moments.", None)
    head, _, rest = text.partition("Moments.")
    assert head.endswith("<caption>" if form == "html" else ".. table:: ")
    assert "variance" in head
    assert "mean" in rest
    if form == "rst":
        tables = list(parsed(text).findall(lambda node: node.tagname == "table"))
        assert len(tables) == 2
