"""The catalogue lists what can be named, in every format."""

import csv
import io
import json

import pytest
from verify_variance.reports.catalogue import catalogue, entries
from verify_variance.reports.table import FORMATS
from verify_variance.stats.elements import ELEMENTS
from verify_variance.stats.quantities import QUANTITIES
from verify_variance.stats.scales import SCALES


def test_everything_is_there_with_its_source():
    listed = {(entry["kind"], entry["name"].partition(":")[0]) for entry in entries()}
    known = (("elements", ELEMENTS), ("scale", SCALES), ("quantity", QUANTITIES))
    assert listed >= {(kind, name) for kind, names in known for name in names}
    assert all(entry["formula"] and entry["source"] for entry in entries())


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_has_every_name(form):
    text = catalogue(form).replace("\\_", "_")
    assert all(entry["name"] in text for entry in entries())


def test_csv_and_json_read_back():
    assert list(csv.DictReader(io.StringIO(catalogue("csv")))) == entries()
    assert json.loads(catalogue("json")) == entries()


def test_plain_fits_a_terminal():
    assert max(map(len, catalogue().splitlines())) <= 100
