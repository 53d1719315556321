"""Progress speaks where it is listened to."""

import io

import pytest
from verify_variance.reports import progress
from verify_variance.stats.planning import ELEMENTS_PER_SECOND


class Terminal(io.StringIO):
    def isatty(self):
        return True


def go(stream, total, monkeypatch, prompt=0.0):
    monkeypatch.setattr(progress, "_PROMPT_SECONDS", prompt)
    with progress.Progress(stream) as shown:
        for tenth in range(11):
            shown.advance(tenth * total // 10, total)
    return "" if stream is None else stream.getvalue()


def test_a_bar_on_a_terminal_only(monkeypatch):
    assert "drawing" in go(Terminal(), 10**6, monkeypatch)
    assert go(io.StringIO(), 10**6, monkeypatch) == ""
    assert go(None, 10**12, monkeypatch) == ""


def test_a_short_run_has_no_bar(monkeypatch):
    assert go(Terminal(), 10**6, monkeypatch, prompt=60.0) == ""


def test_more_than_a_minute_is_said_once_and_first(monkeypatch):
    said = go(io.StringIO(), int(300 * ELEMENTS_PER_SECOND), monkeypatch)
    assert said.startswith("about 5 minutes on two cores; ")
    assert said.count("\n") == 1
    assert go(io.StringIO(), int(50 * ELEMENTS_PER_SECOND), monkeypatch) == ""


def lines_of_a_run(monkeypatch, seconds):
    """What a run of so many seconds says, by a clock of our own."""
    clock, stream = [100.0], io.StringIO()
    monkeypatch.setattr(progress.time, "perf_counter", lambda: clock[0])
    with progress.Progress(stream) as shown:
        for tenth in range(11):
            clock[0] = 100.0 + tenth * seconds / 10
            shown.advance(100 * tenth, 1000, None if tenth < 5 else 0.00123)
    return stream.getvalue().splitlines()


def test_off_a_terminal_a_line_every_half_minute_and_none_in_a_shorter_run(monkeypatch):
    assert lines_of_a_run(monkeypatch, 100.0) == [
        "30.0 % drawn, 1.0e+01 elements a second, 70 s left",
        "60.0 % drawn, 1.0e+01 elements a second, relative error 1.2e-03, 40 s left",
        "90.0 % drawn, 1.0e+01 elements a second, relative error 1.2e-03, 10 s left",
    ]
    assert lines_of_a_run(monkeypatch, 29.0) == []


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"wall_seconds": 3.0, "resumed_blocks": 0, "processes": 1}, ""),
        ({"wall_seconds": 99.0, "resumed_blocks": 0, "elements_per_second": None}, ""),
        (
            {"wall_seconds": 3.0, "resumed_blocks": 7, "processes": 1},
            "7 blocks were resumed; 1.28e+12 elements on 1 device, 250 million a second each",
        ),
        (
            {"wall_seconds": 99.0, "resumed_blocks": 0, "processes": 2},
            "1.28e+12 elements on 1 device of 2 processes, 250 million a second each",
        ),
    ],
)
def test_what_a_long_run_took_is_said(facts, said):
    drawn = {"elements": 1.28e12, "elements_per_second": 2.5e8, "devices": ["cpu:0"]}
    drawn |= {"processes": None}
    assert progress.effort({"provenance": drawn | facts}) == said
