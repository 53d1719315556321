"""The example notebook runs from top to bottom, and its results show themselves."""

import ast
import json
import re
import xml.dom.minidom
from pathlib import Path

import pytest
from verify_variance.stats.request import CaseOptions

from .conftest import fabricate

NOTEBOOK = Path(__file__).resolve().parents[2] / "reports" / "example.ipynb"


def cells(kind):
    return ["".join(c["source"]) for c in json.loads(NOTEBOOK.read_text())["cells"]
            if c["cell_type"] == kind]  # fmt: skip


def shown(cell, scope):
    """Run a cell as a notebook does; what its last line is worth."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), scope)
    return (
        None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), scope)
    )


def images(html):
    return [xml.dom.minidom.parseString(svg) for svg in re.findall(r"<svg.*?</svg>", html, re.S)]


def test_it_is_a_notebook_without_stored_output():
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        assert cell.get("outputs", []) == []


def test_every_cell_runs_and_shows_itself(capsys):
    scope: dict[str, object] = {}
    values = [shown(cell, scope) for cell in cells("code")]
    logits, rows, saturation, law, frame, printed = values
    assert logits.verdict == rows.verdict == "match"
    assert len(images(logits._repr_html_())) == 1
    assert len(images(rows._repr_html_())) == 3
    for drawing in (saturation, law):
        assert images(drawing._repr_svg_())
    assert list(frame["d_k"]) == [16, 32, 64, 128]
    assert printed is None
    assert r"\toprule" in capsys.readouterr().out


def test_it_runs_under_jupyter_too(tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="pip install nbclient ipykernel to run this")
    pytest.importorskip("ipykernel", reason="pip install nbclient ipykernel to run this")
    import nbformat

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    first = notebook.cells[1].outputs[0]["data"]["text/html"]
    assert "<table>" in first
    assert "<svg" in first


def test_a_result_shows_table_figures_and_summary():
    result = fabricate(CaseOptions(dk=("8", "16")))
    html = result._repr_html_()
    assert html.index("<table>") < html.index("<svg") < html.index("2 of 2 rows match")
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_what_is_no_sweep_shows_its_gaps():
    html = fabricate(CaseOptions(dk=("8",), quantities=("kurtosis",)))._repr_html_()
    assert "gap / tolerance" in html


def test_hostile_names_are_text_in_a_notebook():
    result = fabricate(CaseOptions(dk=("8", "16")))
    for row in result.record["rows"]:
        row |= {"elements": "<script>alert(1)</script>", "scale": "<img src=x onerror=alert(1)>"}
    html = result._repr_html_()
    assert "<script" not in html
    assert "<img" not in html
