"""Sweep files and groups of rows: read, refused with file and line, shown under headings."""

import pytest
import verify_variance as vv
from verify_variance.reports.command import command_line
from verify_variance.reports.grouping import group_names, grouped
from verify_variance.reports.record import resolved
from verify_variance.reports.sweeps import read_sweep, swept
from verify_variance.reports.theory import planned, predicted
from verify_variance.stats.request import CaseOptions, DecisionOptions
from verify_variance.stats.sweeps import asked_rows

FILE = """\
# which law, which scale
quantities = "std"
dk = [16, 64]

[[sweep]]
elements = ["normal", "laplace"]
scale = ["none", "sqrt-dk"]

[[sweep]]
weights = "lecun-normal"
d-model = 32
"""


@pytest.fixture
def file(tmp_path):
    def written(text):
        path = tmp_path / "sweep.toml"
        path.write_text(text)
        return str(path)

    return written


def test_a_file_is_read_as_its_tables(file):
    sweep = read_sweep(file(FILE), CaseOptions())
    rows = asked_rows(sweep)
    assert len(rows) == 2 * 2 * 2 + 2
    assert {quantity for _, quantity in rows} == {"std"}
    assert rows[-1][0].d_model == 32
    assert asked_rows(swept([{"sigma": 2}], CaseOptions(dk=("4",))))[0][0].sigma_q == 2.0
    alone = read_sweep(file("sigma = [1, 2]\n"), CaseOptions(dk=("4",)))
    assert [case.sigma_q for case, _ in asked_rows(alone)] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FILE.replace("scale", "scal"), "line 7: unknown option 'scal'; did you mean scale"),
        (FILE.replace("dk =", "dkk ="), "line 3: unknown option 'dkk'; did you mean dk"),
        (FILE.replace("laplace", "laplac"), "line 6: unknown elements 'laplac'; did you mean lapl"),
        (FILE.replace("32", "0"), "line 11: d_model must be a positive integer, got 0"),
        (FILE.replace("16, 64", "16, 16"), "line 3: d_k lists 16 twice"),
        (FILE.replace("32", "true"), "line 11: d-model must be a value or a list of values"),
        (FILE.replace("32", "{a = 1}"), "line 11: d-model must be a value or a list"),
        ("sweep = 3\n", r"line 1: sweep must be tables; write \[\[sweep\]\]"),
        ("dk = [16\n", "cannot be read as TOML"),
        (FILE + '[[sweep]]\nelements = "laplace"\n', "sweep tables 1 and 3 both ask for the std"),
    ],
)
def test_a_fault_has_its_file_and_line(file, text, said):
    with pytest.raises(vv.InputError, match=said):
        asked_rows(read_sweep(file(text), CaseOptions()))


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(vv.InputError, match=r"sweep missing\.toml cannot be read"):
        read_sweep("missing.toml", CaseOptions())


def test_run_predict_and_plan_sweep_alike(file):
    path = file(FILE)
    run = vv.verify(sweep=path, samples=20_000)
    assert run.verdict == "match"
    sweep = read_sweep(path, CaseOptions())
    for result in (predicted(sweep), planned(sweep, DecisionOptions())):
        asked = [(row["quantity"], row["elements"], row["d_k"]) for row in result.record["rows"]]
        assert asked == [(r["quantity"], r["elements"], r["d_k"]) for r in run.record["rows"]]
    again = vv.verify(**run.record["request"])
    assert again.record["rows"] == run.record["rows"]
    assert "--sweep FILE" in command_line(run.record)


def test_the_request_of_a_sweep_has_all_values():
    request = resolved(swept([{"sigma": [1, 2]}, {"sigma": 3}], CaseOptions(dk=("4",))))
    assert (request["sigma"], request["dk"]) == ([1, 2, 3], [4])
    assert [table["sigma"] for table in request["sweep"]] == [[1, 2], [3]]


def test_groups_stand_under_their_own_headings(file):
    record = predicted(read_sweep(file(FILE), CaseOptions())).record
    text = vv.Result(record).grouped(["weights", "scale"]).table()
    blocks = text.split("\n\n")
    assert blocks[0].startswith("std: sd(x)")
    assert [block.splitlines()[0] for block in blocks[1:]] == [
        "scale none",
        "scale sqrt-dk",
        "weights lecun-normal; scale sqrt-dk",
    ]
    assert max(map(len, text.splitlines())) <= 100
    rows = grouped(record, ["scale", "elements"])["rows"]
    assert [row["scale"] for row in rows] == ["none"] * 4 + ["sqrt-dk"] * 6
    assert vv.Result(record).grouped([]).record is record


def test_a_grouped_table_starts_with_what_it_shows_and_keeps_d_k():
    asked = CaseOptions(dk=("16",), quantities=("std", "mean"), scale=("none", "dk"))
    text = predicted(swept(None, asked)).grouped(["quantity", "scale"]).table()
    first, columns = text.splitlines()[:2]
    assert first == "std: sd(x), standard deviation of the logit; scale none"
    assert columns.split()[0] == "d_k"


def test_a_parameter_that_tells_rows_apart_has_its_column():
    rows = swept(None, CaseOptions(dk=("4",), sigma=("1", "2"), mean_q=("0.5",)))
    text = predicted(rows).table()
    assert "sigma_q" in text.splitlines()[1]
    assert text.splitlines()[3].split()[:2] == ["1", "1"]
    assert "mean_q=0.5" in text.splitlines()[0]


def test_group_names_are_checked():
    assert group_names(["dk", "sigma-q", "n-keys"]) == ("d_k", "sigma_q", "n_keys")
    with pytest.raises(vv.InputError, match="unknown group 'scal'; did you mean scale"):
        group_names(["scal"])
    with pytest.raises(vv.InputError, match="group-by lists d_k twice"):
        group_names(["dk", "d_k"])
