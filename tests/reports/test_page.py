"""The page: whole, offline, inert whatever a record says, and alive in a browser."""

import csv
import io
import json
import re
import shlex
from html.parser import HTMLParser

import pytest
from verify_variance import check_claims
from verify_variance.__main__ import app
from verify_variance.reports.audit.records import audit_record
from verify_variance.reports.command import command_line
from verify_variance.reports.page.html import page
from verify_variance.reports.saved import DESIGN, checked_record, read_records
from verify_variance.reports.theory import planned, predicted
from verify_variance.stats.audit.findings import Audit, Finding
from verify_variance.stats.audit.options import AuditOptions
from verify_variance.stats.checks import InputError
from verify_variance.stats.request import CaseOptions, DecisionOptions
from verify_variance.stats.requested import requested_rows

from .browser import Browser, find_browser
from .conftest import fabricate

ALL = CaseOptions(dk=("16", "64"), quantities=("all",), n_keys=("10",))
SMALL = CaseOptions(dk=("8", "16", "32"), quantities=("variance", "kurtosis"))
HOSTILE = '</script><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>\'"&{{7*7}}'


@pytest.fixture(scope="module")
def record():
    return json.loads(json.dumps(fabricate(ALL, factor=1.0005).record))


@pytest.fixture(scope="module")
def whole(record):
    return page([record])


@pytest.fixture(scope="module")
def failing():
    """One mismatch and one undecided row among matches."""
    record = json.loads(json.dumps(fabricate(SMALL).record))
    record["rows"][4] |= {"verdict": "mismatch", "gap": 0.2, "z": 40.0, "estimate": 0.45}
    record["rows"][2] |= {"verdict": "undecided", "gap": 0.009}
    record["verdict"] = "mismatch"
    return record


class Elements(HTMLParser):
    """Tags with their attributes, and the text of each script and heading."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self._open = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open = (tag, len(self.tags))

    def handle_data(self, data):
        if self._open:
            self.texts[self._open] = self.texts.get(self._open, "") + data

    def handle_endtag(self, tag):
        self._open = None

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    def text(self, tag):
        return [text for (name, _), text in self.texts.items() if name == tag]


def embedded(text):
    script = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(script[1])


def test_it_has_every_section_in_order(whole):
    headings = Elements(whole).text("h2")
    assert headings == [
        "What was claimed, and under which assumptions",
        *("Results", "Figures", "Unscaled against scaled", "Where theory stops"),
        *("How the decision was made", "Provenance"),
    ]
    assert "Match: simulation agrees with theory" in whole
    assert command_line(json.loads(json.dumps(fabricate(SMALL).record))) in page(
        [fabricate(SMALL).record]
    )


def test_it_is_one_file_that_fetches_nothing(whole):
    elements = Elements(whole)
    for _, attrs in elements.tags:
        for name in ("src", "href", "xlink:href", "action", "srcset"):
            assert attrs.get(name, "#").startswith("#")
    assert not {"link", "iframe", "object", "embed", "base"} & {tag for tag, _ in elements.tags}
    assert not re.search(r"@import|url\((?!#)", whole)
    assert len(whole.encode()) < 1_000_000


def test_every_id_is_used_once(whole):
    ids = [attrs["id"] for _, attrs in Elements(whole).tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_the_same_record_gives_the_same_bytes(failing):
    assert page([failing]) == page([failing])


def test_record_and_csv_are_inside_at_full_precision(whole, record):
    data = embedded(whole)
    assert data["records"] == [record]
    rows = list(csv.DictReader(io.StringIO(data["csv"])))
    assert [float(row["estimate"]) for row in rows] == [r["estimate"] for r in record["rows"]]


def test_failures_come_first_and_advice_with_them(failing):
    text = page([failing])
    order = re.findall(r'<tr data-verdict="(\w+)"', text)
    assert order == ["mismatch", "undecided", *["match"] * 4]
    assert "What to do now" in text
    assert "Mismatch: simulation and theory differ" in text


def test_several_records_stand_in_one_table(failing, record):
    text = page([record, failing])
    rows = re.findall(r'<tr data-verdict="(\w+)"', text)
    assert len(rows) == len(record["rows"]) + len(failing["rows"])
    assert rows[0] == "mismatch"
    assert ">record<" in text
    data = embedded(text)
    assert data["records"] == [record, failing]
    assert {row["record"] for row in csv.DictReader(io.StringIO(data["csv"]))} == {"1", "2"}
    assert text.count('class="command"') == 2


def test_a_prediction_has_a_page_without_verdicts():
    text = page([predicted(CaseOptions(dk=("8", "16"))).record])
    assert "Theory, without simulation" in text
    assert "How the decision was made" not in text


def test_decision_and_limits_say_the_numbers(whole):
    text = re.sub(r"\s+", " ", whole)
    assert "False alarm 1e-06" in text
    assert "once in a million runs" in text
    assert "3.09 standard errors" in text
    assert "The smallest gap this run could see" in text
    assert (
        "jacobian_frobenius_median: measured and not compared (no formula for the median)" in text
    )
    assert "jacobian_spectral: the expectation is proven to lie in an interval" in text


def poisoned(record):
    """The record with a hostile string wherever a string may stand."""
    record = json.loads(json.dumps(record))
    for row in record["rows"]:
        names = ["elements", "scale", "formula", "note", "dtype", "ensemble", "theory_kind"]
        row |= dict.fromkeys(names, HOSTILE)
        row["parameters"] = {HOSTILE: HOSTILE}
    record["provenance"] |= {"platform": HOSTILE, "devices": [HOSTILE], HOSTILE: HOSTILE}
    record["request"] |= {"elements": [HOSTILE], HOSTILE: HOSTILE}
    return checked_record(record, "x")


def test_hostile_strings_are_text(failing):
    text = page([poisoned(failing)])
    elements = Elements(text)
    assert len(elements.all("script")) == 2
    assert not elements.all("img")
    assert not any(name.startswith("on") for _, attrs in elements.tags for name in attrs)
    assert "{{7*7}}" in text  # no template in a template
    assert embedded(text)["records"][0]["rows"][0]["note"] == HOSTILE


def test_a_content_policy_lets_only_our_script_run(whole):
    (policy,) = [a["content"] for a in Elements(whole).all("meta") if "http-equiv" in a]
    assert "default-src 'none'" in policy
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]


COMMANDS = [
    CaseOptions(),
    ALL,
    CaseOptions(dk=("8",), elements=("normal", "laplace"), sigma=("2",), quantities=("logits",)),
    CaseOptions(logit_std=("1", "2"), n_keys=("4",), quantities=("max_prob", "softmax")[:1]),
    CaseOptions(dk=("8",), weights=("lecun-normal",), d_model=("32",), quantities=("std",)),
]


@pytest.mark.parametrize("cases", COMMANDS)
def test_the_command_shown_asks_for_the_same_rows(cases):
    line = command_line(json.loads(json.dumps(predicted(cases).record)))
    tokens = shlex.split(line)[1:]
    _, bound, *_ = app.parse_args(tokens, exit_on_error=False, print_error=False)
    assert requested_rows(bound.kwargs["cases"]) == requested_rows(cases)


def test_the_command_shown_is_quoted_for_a_shell(failing):
    line = command_line({**failing, "request": {"elements": ["$(rm -rf /); `x`"]}})
    assert shlex.split(line) == ["verify-variance", "run", "--elements", "$(rm -rf /); `x`"]


BROKEN = [
    ({"schema_version": 2}, "schema_version of run.json must be 1, got 2"),
    ({"rows": []}, "rows in run.json must be a list of at least one row"),
    ({"rows": [3]}, "row 1 of run.json must be an object, got 3"),
    ({"rows": [{}]}, "row 1 of run.json must have quantity, got none"),
    ({"design": {}}, "design of run.json must have false_alarm"),
    ({"design": dict.fromkeys(DESIGN)}, "false_alarm in design of run.json must be a number"),
    ({"provenance": None}, "provenance in run.json must be an object, got None"),
    ({"command": "plan"}, "run.json must be a whole record of plan, got one that lacks some"),
    ({"command": "audit"}, "run.json must be a whole record of audit, got one that lacks some"),
    ({"command": "predict"}, "verdict of a row of run.json must be one of None"),
]


@pytest.mark.parametrize(("change", "said"), BROKEN)
def test_a_broken_record_is_refused_in_a_line(failing, change, said):
    with pytest.raises(InputError, match=re.escape(said)) as error:
        checked_record({**failing, **change}, "run.json")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("draws", v) for v in (-1, 1.5, "7", True, None)],
        *[("estimate", v) for v in ("<b>", None, [1])],
        *[("theory", v) for v in ([1], [1, 2, 3], "x")],
        *[("verdict", v) for v in ("confirmed", 3)],
        *[("parameters", v) for v in ([], None)],
        *[("quantity", v) for v in (None, 4)],
    ],
)
def test_a_wrong_value_in_a_row_is_refused(failing, key, value):
    record = json.loads(json.dumps(failing))
    record["rows"][0][key] = value
    with pytest.raises(InputError, match=rf"{key} (in|of a) row"):
        checked_record(record, "run.json")


def test_every_key_of_a_record_is_asked_for(failing):
    assert checked_record(failing, "x") is failing
    for key in failing["rows"][0]:
        row = {name: value for name, value in failing["rows"][0].items() if name != key}
        with pytest.raises(InputError, match=f"must have {key}"):
            checked_record({**failing, "rows": [row]}, "x")


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"schema_version": NaN}', "\x00"])
def test_what_is_no_record_is_refused(text, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"run\.json must be"):
        read_records([str(path)])


def finding(**given):
    said = "At d_k = 64 it divides by 1: <b>no divisor</b>."
    return Finding("factor", "d_k = 64", "mismatch", said, None, 0.125, 1.0, **given)


def test_commands_with_rows_of_their_own_have_a_page(tmp_path):
    """Title, table, sentences, command and provenance; nothing of cases."""
    records = {
        "plan": planned(SMALL, DecisionOptions()).record,
        "audit": audit_record(Audit("attend", "callable", (finding(),)), AuditOptions()),
        "claims": check_claims("example").record,
    }
    for command, record in records.items():
        path = tmp_path / f"{command}.json"
        path.write_text(json.dumps(record))
        text = page(read_records([str(path)]))
        assert f"verify-variance {command}" in text
        assert 'class="own"' in text
        assert 'id="provenance"' in text
        assert not any(f'id="{name}"' in text for name in ("results", "figures", "limits"))
    text = page([records["audit"]])
    assert "<h1>Audit of attend</h1>" in text
    assert "<code>verify-variance audit attend" in text
    assert text.count("At d_k = 64 it divides by 1: &lt;b&gt;no divisor&lt;/b&gt;.") == 2
    assert "<b>1</b> mismatch" in text


def test_an_audit_beside_a_run_has_a_section_of_its_own(record):
    audit = audit_record(Audit("attend", "callable", (finding(),)), AuditOptions())
    text = page([record, audit])
    assert text.index('class="own"') < text.index('id="results"')
    assert "<h1>Mismatch" in text


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium to run this test")
    started = Browser(program, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def opened(browser, whole, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(whole)
    browser.open(path)
    return browser


def column(opened, name):
    return opened.run(
        "(() => { const heads = [...document.querySelectorAll('#rows thead th')];"
        f"const at = heads.findIndex(h => h.textContent.trim() === {name!r});"
        "return [...document.querySelectorAll('#rows tbody tr')]"
        ".filter(r => !r.hidden).map(r => r.cells[at].textContent.trim()); })()"
    )


def click(opened, name):
    opened.run(
        "[...document.querySelectorAll('#rows thead button')]"
        f".find(b => b.textContent.trim() === {name!r}).click()"
    )


def type_in(opened, name, text, event):
    opened.run(
        f"(() => {{ const box = document.getElementById({name!r}); box.value = {text!r};"
        f"box.dispatchEvent(new Event({event!r})); }})()"
    )


def test_a_browser_sorts_by_number_and_back(opened, record):
    z = sorted(row["z"] for row in record["rows"] if row["z"] is not None)
    click(opened, "z")
    shown = [float(text) for text in column(opened, "z") if text]
    assert shown == sorted(shown)
    assert len(shown) == len(z)
    click(opened, "z")
    assert [float(text) for text in column(opened, "z") if text] == shown[::-1]
    click(opened, "quantity")
    names = column(opened, "quantity")
    assert names == sorted(names)


def test_a_browser_filters_by_word_and_verdict(opened, record):
    total = len(record["rows"])
    type_in(opened, "filter", "entropy sqrt", "input")
    assert set(column(opened, "quantity")) == {"entropy"}
    assert set(column(opened, "scale")) == {"sqrt-dk"}
    assert opened.run("document.getElementById('shown').value") == f"2 of {total} rows"
    type_in(opened, "filter", "", "input")
    type_in(opened, "verdict", "measured", "change")
    assert set(column(opened, "quantity")) == {"jacobian_frobenius_median"}
    type_in(opened, "verdict", "", "change")
    assert opened.run("document.getElementById('shown').value") == f"{total} rows"


def test_a_browser_offers_csv_and_json(opened):
    opened.run(
        "window.made = [];"
        "URL.createObjectURL = blob => { window.made.push(blob.type); return '#'; }"
    )
    opened.run("document.getElementById('csv').click(); document.getElementById('json').click()")
    assert opened.run("window.made") == ["text/csv", "application/json"]


def test_a_browser_has_no_complaint_and_asks_for_nothing(opened):
    assert opened.said("Runtime.exceptionThrown", "Log.entryAdded") == []
    assert opened.said("Runtime.consoleAPICalled") == []
    urls = [event["request"]["url"] for event in opened.said("Network.requestWillBeSent")]
    assert [url for url in urls if not url.startswith("file:")] == []
    assert len(urls) <= 1


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_is_wider_than_the_window(opened, width):
    opened.picture(width, 800)
    assert opened.run("document.documentElement.scrollWidth") <= width


def test_dark_is_dark_and_print_has_no_controls(opened):
    def emulated(media, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        opened.send("Emulation.setEmulatedMedia", media=media, features=features)
        colours = opened.run(
            "(style => [style.backgroundColor, style.color])(getComputedStyle(document.body))"
        )
        return [sum(map(int, re.findall(r"\d+", colour)[:3])) / 765 for colour in colours]

    ground, ink = emulated("screen", "dark")
    assert ground < 0.2 < 0.8 < ink
    for media, scheme in (("screen", "light"), ("print", "dark")):
        ground, ink = emulated(media, scheme)
        assert ink < 0.2 < 0.8 < ground
    controls = "getComputedStyle(document.querySelector('.controls')).display"
    assert opened.run(controls) == "none"
    emulated("screen", "light")
    assert opened.run(controls) != "none"
    assert opened.send("Page.printToPDF")["data"]


def test_hostile_strings_do_nothing_in_a_browser(browser, failing, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(page([poisoned(failing)]))
    browser.open(path)
    assert browser.run("window.pwned") is None
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert HOSTILE in browser.run("document.querySelector('#rows tbody').textContent")
    assert browser.said("Runtime.exceptionThrown", "Log.entryAdded") == []
