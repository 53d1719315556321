"""TRAINING.md: the shipped training experiment, shown; and that its verdicts follow from its runs.

`python tests/test_training_page.py [FILE]` writes the page anew, from a new record where one that
`train --format json` wrote is given; that record is then the shipped one.
"""

import json
import shutil
import sys
from pathlib import Path

from verify_variance.reports.command import command_line
from verify_variance.reports.result import Result
from verify_variance.reports.saved import checked_record
from verify_variance.reports.training import statement_record, table_of
from verify_variance.reports.training_claims import SHIPPED, shipped_training
from verify_variance.stats.training.documents import STATEMENTS
from verify_variance.stats.training.statements import judge

PAGE = Path(__file__).resolve().parent.parent / "TRAINING.md"
HEAD = """# Training with and without the divisor

The same small Transformer, the same initialisation, the same data in the same order; only what
stands between q·k and the softmax differs. Several replicates of each arm, compared pair by pair.
One arm, `no-attention`, multiplies the values by 0: what the rest of the model learns by itself.
Most of a loss's fall needs no attention; what counts is the way down from that arm.

    {command}

printed what follows, with JAX {jax} on {platform}, seed {seed}. Text: the help topics of
Python {python}
({digest}); other versions carry other topics, and other numbers come out. Layer norm before each
sub-layer, weights normal with variance 1 / fan_in, so that logits start with the standard deviation
sqrt(d_k) times the multiplier; Adam (0.9, 0.99) without clipping or decay, the rate rising over the
first tenth of the steps and falling to 0 by half a cosine.

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
    )  # fmt: skip
    result = Result(record)
    return f"{head}{result.table('pipe')}\n\n{result.words()}\n"


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


if __name__ == "__main__":
    if len(sys.argv) > 1:
        shutil.copyfile(sys.argv[1], SHIPPED)
    PAGE.write_text(rendered(shipped_training()))
