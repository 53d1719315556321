"""The claims of the documents and of a user's file: verdicts, table, record, exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import verify_variance as vv
from verify_variance.reports.claims.records import checked_claims, claims_text, read_claims
from verify_variance.reports.claims.table import claim_table
from verify_variance.reports.grouping import group_names
from verify_variance.reports.result import Result
from verify_variance.reports.table import FORMATS
from verify_variance.stats.checks import InputError
from verify_variance.stats.claims.claim import VERDICTS

TRAINED = {
    "refuted": "A20 A32 A36 B09 B12 B20 C13 C15",
    "qualitative": "B19",
    "undecided": "A19 A35 A41",
    "needs training": "",
}
"""What the shipped training experiment says; see TRAINING.md."""
EXPECTED = {
    "confirmed": (
        "A02 A07 A08 A12 A13 A16 A21 A23 A25 A26 A27 A28 A29 A30 A33 A37 B01 B02 B04 B05 B07 B10 "
        "B13 B14 B16 B21 B22 B23 B24 B26 B28 B29 B32 C01 C02 C04 C08 C12 C17"
    ),
    "refuted": (
        "A01 A04 A05 A06 A10 A11 A14 A15 A17 A18 A22 A31 A34 A38 A39 A40 B03 B08 B11 B18 C05 C09 "
        "C10 C14 " + TRAINED["refuted"]
    ),
    "inconsistent": "A09 A24",
    "not reproducible": "B15 C11",
    "qualitative": "A03 A42 B06 B17 B25 B27 B30 B31 C03 C06 C07 C16 " + TRAINED["qualitative"],
    "undecided": TRAINED["undecided"],
    "needs training": TRAINED["needs training"],
}
POST_HOC = {"A08", "A12", "A13", "A29", "B23", "B24", "C16"}
GOOD = """
[[claim]]
id = "a"
statement = "s"
quantity = "std"
setting = {dk = 64}
claimed = 8.0
expect = "confirmed"
"""


@pytest.fixture(scope="module")
def documents() -> Result:
    return vv.check_claims("documents")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "verify_variance", "claims", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.wide
def test_each_of_the_91_claims_has_its_verdict(documents):
    rows = documents.record["rows"]
    verdicts = {row["id"]: row["verdict"] for row in rows}
    assert len(rows) == len(verdicts) == 91
    for word, ids in EXPECTED.items():
        assert {i for i, verdict in verdicts.items() if verdict.startswith(word)} == set(
            ids.split()
        )
    assert {i for i, verdict in verdicts.items() if "post hoc" in verdict} == POST_HOC
    decided = [row for row in rows if not row["verdict"].startswith(("needs", "not rep"))]
    assert all(row["computed"] for row in decided)
    trained = {row["id"] for row in rows if row["verdict"].endswith("by training")}
    assert trained == set(" ".join(TRAINED.values()).split()) - set(
        TRAINED["needs training"].split()
    )
    assert all(row["claimed"] for row in decided if row["id"] not in trained)
    assert all(row["why"] for row in rows if not row["verdict"].startswith(("confirmed", "quali")))


@pytest.mark.wide
def test_what_the_documents_say_of_gradients(documents):
    """Three orders of magnitude smaller, they say; the weights' are larger by the factor."""
    of_id = {row["id"]: row for row in documents.record["rows"]}
    assert "of the scores: 0.7" in of_id["C16"]["why"]
    assert "exact 0.7841" in of_id["C16"]["why"]
    assert of_id["A17"]["computed"].startswith("3.5")


@pytest.mark.wide
def test_the_counts_and_the_exit_code(documents):
    assert documents.summary.startswith("91 claims: 33 confirmed, 6 confirmed (post hoc), ")
    assert "A: 42 claims: " in documents.summary
    assert "B: 32 claims: " in documents.summary
    assert "C: 17 claims: " in documents.summary
    assert (documents.verdict, documents.exit_code) == ("measured", 0)


@pytest.mark.wide
def test_every_format(documents):
    for form in FORMATS:
        text = documents.table(form)
        assert "A04" in text
        assert "6.358" in text
    assert max(map(len, documents.table().splitlines())) <= 100
    assert json.loads(documents.table("json"))["rows"][0]["id"] == "A01"


def test_the_example_shows_every_kind_and_meets_its_expectations():
    result = vv.check_claims("example")
    assert (result.verdict, result.exit_code) == ("match", 0)
    words = {word for row in result.record["rows"] for word in VERDICTS if word in row["verdict"]}
    assert words == {"confirmed", "refuted", "qualitative", "needs training"}
    one = next(row for row in result.record["rows"] if row["id"] == "simulated")
    assert (one["draws"], one["theory"], one["d_k"]) == (10000, 4.0, 16)
    assert one["z"] == pytest.approx(-0.65, abs=0.02)
    assert one["last_digits"] == pytest.approx(-2)


def test_a_failed_expectation_exits_1_and_is_named(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text(GOOD + GOOD.replace('"a"', '"b"').replace("8.0", "8.1"))
    ended = run(str(file))
    assert ended.returncode == 1
    assert "Wrong, or not as expected: b." in ended.stdout


@pytest.mark.parametrize(
    ("head", "claimed", "expect", "code"),
    [
        ("", "8.1", "", 1),
        ("", "8.0", "", 0),
        ("", "8.1", 'expect = "any"', 0),
        ('expect = "any"', "8.1", "", 0),
        ('expect = "any"', "8.1", 'expect = "confirmed"', 1),
        ('expect = "refuted"', "8.1", "", 0),
        ('expect = "refuted"', "8.0", "", 1),
        ("", "8.1", 'missing = "the seed"', 0),
    ],
)
def test_a_wrong_claim_exits_1_unless_that_is_expected(tmp_path, head, claimed, expect, code):
    file = tmp_path / "mine.toml"
    text = GOOD.replace('expect = "confirmed"', expect)
    file.write_text(f"{head}\n{text.replace('8.0', claimed)}")
    result = vv.check_claims(str(file))
    assert result.exit_code == code
    assert result.record["unexpected"] == (["a"] if code else [])


def test_the_file_itself_is_printed_to_start_from(tmp_path: Path):
    text = claims_text("example")
    assert run("example", "--source").stdout == text
    copy = tmp_path / "mine.toml"
    assert run("example", "--source", "--output", str(copy)).returncode == 0
    assert copy.read_text() == text
    assert "# An annotated example" in text


def test_claims_are_grouped_by_verdict_and_by_source():
    result = vv.check_claims("example")
    by_verdict = result.grouped(["verdict"])
    heads = [block.splitlines()[0] for block in by_verdict.table().split("\n\n")]
    words = ("confirmed", "qualitative", "refuted", "needs training")
    assert heads == [f"verdict {word}" for word in words]
    by_source = result.grouped(group_names(["document"])).table()
    assert by_source.startswith("source paper: Our paper, arXiv:0000.00000\nid ")
    assert "\n\nsource blog: a blog post that the paper cites\nid " in by_source
    sources = [row["source"] for row in result.grouped(["source"]).record["rows"]]
    assert sources == ["paper"] * 4 + ["blog"] * 5


def test_only_some_verdicts_are_shown_and_all_are_counted():
    result = vv.check_claims("example", only=["refuted"])
    assert [row["id"] for row in result.record["rows"]] == ["wrong"]
    assert result.summary.startswith("9 claims: 5 confirmed")
    none = vv.check_claims("example", only=["not-reproducible"])
    assert claim_table(none.record) == "no claim has this verdict"
    with pytest.raises(InputError, match="unknown verdict 'refuteed'; did you mean refuted"):
        vv.check_claims("example", only=["refuteed"])


def test_check_validates_without_jax(tmp_path: Path):
    code = (
        "import sys; from verify_variance.__main__ import main; "
        "sys.argv = ['x', 'claims', 'documents', '--check']\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "assert 'jax' not in sys.modules"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("documents: 91 claims, ")
    assert "no error" in checked_claims(read_claims("example"))


def test_errors_exit_2_with_file_and_line(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text(GOOD.replace("claimed", "claimd"))
    ended = run(str(file), "--check")
    assert ended.returncode == 2
    assert f"{file}, line 7: unknown key of a claim 'claimd'; did you mean claimed" in ended.stderr
    for name, said in (
        ("document", "unknown claims 'document'; did you mean documents"),
        (str(tmp_path / "none.toml"), "cannot be read: No such file"),
    ):
        with pytest.raises(InputError, match=said):
            read_claims(name)


README = Path(__file__).resolve().parents[2] / "README.md"
TELLING = ["A04", "A25", "A17", "C16", "A13", "A24", "A09", "A31", "A38", "B18"]


def telling_rows(result: Result) -> str:
    """Ten rows of the documents' claims as the README shows them."""
    of_id = {row["id"]: row for row in result.record["rows"]}
    lines = ["| id | the article says | said | computed | verdict |", "|---|---|---|---|---|"]
    for row in (of_id[name] for name in TELLING):
        cells = [row["id"], row["claim"], row["claimed"], row["computed"], row["verdict"]]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


@pytest.mark.wide
def test_the_readme_shows_what_the_claims_come_to(documents):
    assert telling_rows(documents) in README.read_text()


def test_a_row_says_its_whole_case(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace("dk = 64", 'dk = 64, transform = "qk-rmsnorm"'))
    (row,) = vv.check_claims(str(path)).record["rows"]
    run = vv.verify(dk=64, transform="qk-rmsnorm", quantities="std", samples=100)
    asked = run.record["rows"][0]
    for name in ("elements", "weights", "ensemble", "scale", "transform", "dtype", "parameters"):
        assert row[name] == asked[name]
    assert row["transform"] == "qk-rmsnorm"
