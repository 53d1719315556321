"""TRAINING.md: the shipped training experiment, shown; and that its verdicts follow from its runs.

`python tests/test_training_page.py [FILE]` writes the page anew, from a new record where one that
`train --format json` wrote is given; that record is then the shipped one.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from verify_variance.reports.command import command_line
from verify_variance.reports.markup import tabulated
from verify_variance.reports.result import Result
from verify_variance.reports.saved import checked_record
from verify_variance.reports.training.claims import SHIPPED, shipped_training
from verify_variance.reports.training.records import statement_record, table_of
from verify_variance.reports.training.table import arms_table
from verify_variance.stats.planning import shown_duration
from verify_variance.stats.training.documents import STATEMENTS
from verify_variance.stats.training.statements import judge

PAGE = Path(__file__).resolve().parent.parent / "TRAINING.md"
README = PAGE.parent / "README.md"
TABLE = re.compile(r"^\| arm .*\n(?:\|.*\n)+", re.MULTILINE)
TELLING = ("sqrt-dk", "none", "learnable:1", "score-layernorm", "qk-rmsnorm", "no-attention")
HEAD = """# Training with and without the divisor

The same small Transformer, the same initialisation, the same data in the same order; only what
stands between q·k and the softmax differs. Several replicates of each arm, compared pair by pair.
One arm, `no-attention`, multiplies the values by 0: what the rest of the model learns by itself.
Most of a loss's fall needs no attention; what counts is the way down from that arm.

    {command}

printed what follows in {minutes}, with JAX {jax} on {platform}, seed {seed}. Text: the help topics
of Python {python} ({digest});
other versions carry other topics, and other numbers come out. Layer norm before each sub-layer,
weights normal with variance 1 / fan_in, so that logits start with the standard deviation sqrt(d_k)
times the multiplier; Adam (0.9, 0.99) without clipping or decay, the rate rising over the first
tenth of the steps and falling to 0 by half a cosine.

`verify-variance train --quick` is the smallest experiment that shows the effect.
`python tests/test_training_page.py FILE` writes this page from a record.

"""


def rendered(record: dict) -> str:
    """The page of a record."""
    facts = record["provenance"]
    digest = ", ".join(f"{task} {digest}" for task, digest in facts["text"].items())
    head = HEAD.format(
        command=command_line(record), python=facts["python"], digest=digest, jax=facts["jax"],
        platform=facts["platform"], seed=facts["seed"],
        minutes=shown_duration(facts["wall_seconds"]),
    )  # fmt: skip
    result = Result(record)
    return f"{head}{result.table('pipe')}\n\n{result.words()}\n"


def telling_arms(record: dict) -> str:
    """Some arms at d_k = 64 as the README shows them."""
    rows = [
        row
        for row in record["rows"]
        if row["experiment"] == "d_k 64" and not row["tuned"] and row["arm"] in TELLING
    ]
    headers, cells = arms_table(rows)
    return tabulated(cells, headers, "pipe", [True, *[False] * (len(headers) - 1)]) + "\n"


def test_the_readme_shows_the_shipped_record():
    assert TABLE.search(README.read_text())[0] == telling_arms(shipped_training())


def test_the_tables_fit_a_terminal():
    assert max(map(len, Result(shipped_training()).text().splitlines())) <= 100


def test_the_page_shows_the_shipped_record():
    assert PAGE.read_text() == rendered(shipped_training())


def test_the_shipped_record_is_whole_and_its_verdicts_follow_from_its_runs():
    record = shipped_training()
    assert checked_record(record, "documents.json") == record
    again = [statement_record(judged) for judged in judge(table_of(record), STATEMENTS)]
    assert again == record["statements"]
    planted = json.loads(json.dumps(record))
    column = planted["runs"]["columns"].index("validation_loss")
    arm = planted["runs"]["columns"].index("arm")
    for run in planted["runs"]["values"]:
        run[column] += 1.0 if run[arm] == "sqrt-dk" else 0.0
    (b19,) = [j for j in judge(table_of(planted), STATEMENTS) if j.statement.id == "B19"]
    assert b19.verdict == "refuted"


def test_the_errors_are_those_of_the_mean_over_replicates():
    record = shipped_training()
    columns = record["runs"]["columns"]
    runs = [dict(zip(columns, run, strict=True)) for run in record["runs"]["values"]]
    row = next(r for r in record["rows"] if (r["experiment"], r["arm"]) == ("d_k 16", "none"))
    for quantity in ("logit_std", "entropy", "head_overlap"):
        values = [
            run[quantity]
            for run in runs
            if (run["experiment"], run["arm"], run["rate"]) == ("d_k 16", "none", row["rate"])
            and run["replicate"] >= 0
        ]
        assert len(values) == row["draws"] == 5
        assert row[quantity] == pytest.approx(np.mean(values), rel=1e-12)
        wanted = np.std(values, ddof=1) / 5**0.5
        assert row["errors"][quantity] == pytest.approx(wanted, rel=1e-9)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        new = json.loads(Path(sys.argv[1]).read_text())
        SHIPPED.write_text(json.dumps(new, separators=(",", ":"), allow_nan=False) + "\n")
    page = rendered(shipped_training())
    PAGE.write_text(page)
    shown = README.read_text()
    README.write_text(TABLE.sub(lambda _: telling_arms(shipped_training()), shown))
