"""Progress speaks where it is listened to."""

import io

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
