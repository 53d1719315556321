"""The house rules: who may import whom, where I/O happens, what a command loads, how files grow."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("stats", "simulations", "reports")
SOURCES = sorted([*ROOT.glob("*.py"), *(p for f in FLOORS for p in (ROOT / f).rglob("*.py"))])
PACKAGE = "verify_variance"
LONGEST_FILE, LONGEST_FUNCTION = 250, 60
LONGER_FILES = {
    "__init__.py": 360,  # every composition, documented
    "__main__.py": 480,  # every command, and every way out
}


def imports(source: str, module: str) -> Iterator[str]:
    """Absolute names of all that a module imports, lazily or not."""
    parent = module.split(".") if module == PACKAGE else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = parent[: len(parent) - node.level + 1] if node.level else []
            origin = ".".join([*base, *filter(None, [node.module])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)
            if not node.level:
                yield origin


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join([PACKAGE, *(part for part in parts if part != "__init__")])


def forbidden(source: str, module: str) -> list[str]:
    """Imports that the house rules out, as sentences."""
    floor = module.split(".")[1] if module.count(".") > 1 else ""
    closed = {
        "stats": ["simulations", "reports"],
        "simulations": ["reports"],
        "reports": ["simulations"],
    }
    outside = {
        "stats": ["jax", "jaxlib", "pandas", "matplotlib", "cyclopts", "rich", "tabulate", "os"],
        "reports": ["jax", "jaxlib"],
    }
    banned = [f"{PACKAGE}.{name}" for name in [*closed.get(floor, []), "__main__"]]
    banned += outside.get(floor, [])
    if floor == "stats":
        banned += ["io", "sys", "pathlib", "tempfile", "shutil", "subprocess", "urllib", "socket"]
    return [
        f"{module} imports {name}"
        for name in imports(source, module)
        if any(name == ban or name.startswith(f"{ban}.") for ban in banned)
    ]


def absolute(source: str) -> list[str]:
    """Imports that name the package itself instead of being relative."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        found += [name for name in names if name.split(".")[0] == PACKAGE]
    return found


def calls(source: str) -> Iterator[str]:
    """Dotted names of everything that is called."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


FILE_CALLS = (
    "sqlite3.connect",
    *("open", "os.open", "os.fdopen", "os.replace", "os.rename", "os.remove", "os.unlink"),
    *("np.memmap", "numpy.memmap", "torch.load", "torch.save"),
    *("np.load", "np.save", "np.savez", "np.loadtxt", "np.savetxt", "numpy.load", "numpy.save"),
)
FILE_METHODS = (".read_text", ".write_text", ".read_bytes", ".write_bytes", ".unlink")
SPEAKING = ("print", "exit", "sys.exit", "os._exit", "sys.stdout.write", "sys.stderr.write")


def file_access(source: str) -> list[str]:
    return [c for c in calls(source) if c in FILE_CALLS or c.endswith(FILE_METHODS)]


def speaking(source: str) -> list[str]:
    return [c for c in calls(source) if c in SPEAKING]


def each_source(*, but: str = "") -> list[Path]:
    return [path for path in SOURCES if path.relative_to(ROOT).as_posix() != but]


def test_the_three_floors_import_only_downwards():
    found = [line for path in SOURCES for line in forbidden(path.read_text(), module_name(path))]
    assert found == []


def test_no_source_imports_the_package_by_its_name():
    assert [path.name for path in SOURCES if absolute(path.read_text())] == []


def test_one_file_reads_and_writes_and_one_speaks_and_exits():
    found = {p.name: file_access(p.read_text()) for p in each_source(but="reports/files.py")}
    allowed = {
        "__main__.py": ["os.open"],  # of os.devnull, where a reader went away
        "processes.py": ["os.open"],  # likewise, where gloo writes to stdout
        "journal.py": ["sqlite3.connect"],  # a database is no stream of bytes to be handed over
    }
    assert {name: c for name, c in found.items() if c} == allowed
    spoken = {p.name: speaking(p.read_text()) for p in each_source(but="__main__.py")}
    assert {name: c for name, c in spoken.items() if c} == {}


@pytest.mark.parametrize(
    ("planted", "module"),
    [
        ("import jax", "stats.x"),
        ("def f():\n    import jax.numpy as jnp", "stats.x"),
        ("from pathlib import Path", "stats.x"),
        ("from ..simulations import keys", "stats.x"),
        ("from ..simulations.keys import cell_key", "reports.x"),
        ("from jax import Array", "reports.x"),
        ("from .. import reports", "simulations.x"),
        ("from .. import __main__", "stats.x"),
        ("from ..__main__ import main", "reports.x"),
    ],
)
def test_a_planted_import_is_found(planted, module):
    assert len(forbidden(planted, f"{PACKAGE}.{module}")) >= 1


def test_other_planted_faults_are_found():
    assert absolute("import verify_variance.stats as s\nfrom verify_variance import verify")
    assert not absolute("from . import verify\nimport verify_variance_other")
    assert file_access("with open('x') as f: pass") == ["open"]
    assert file_access("Path('x').write_text('')") == ["Path('x').write_text"]
    assert speaking("print(1)\nsys.exit(2)") == ["print", "sys.exit"]
    assert not forbidden("from ..stats.cases import Case", f"{PACKAGE}.reports.x")


def test_the_packages_listed_are_the_folders_on_disk():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = {path.parent for path in ROOT.glob("*/**/__init__.py")}
    ours = {f for f in folders if f.relative_to(ROOT).parts[0] not in ("tests", "build", ".venv")}
    names = {".".join([PACKAGE, *folder.relative_to(ROOT).parts]) for folder in ours}
    assert set(project["tool"]["setuptools"]["packages"]) == {PACKAGE, *names}
    assert {folder.name for folder in ours if folder.parent == ROOT} == set(FLOORS)


def test_the_root_has_two_modules_only():
    assert sorted(p.name for p in ROOT.glob("*.py")) == ["__init__.py", "__main__.py"]


def test_floors_only_hand_names_on():
    for floor in FLOORS:
        assert len((ROOT / floor / "__init__.py").read_text().splitlines()) <= 20


def lines_of_code(node: ast.FunctionDef) -> int:
    """Lines of a function without its docstring, which may say as much as it needs."""
    said = ast.get_docstring(node, clean=False)
    return (node.end_lineno or 0) - node.lineno + 1 - (said.count("\n") + 1 if said else 0)


def test_files_and_functions_stay_short():
    lengths = {p.relative_to(ROOT).as_posix(): p.read_text().count("\n") for p in SOURCES}
    assert {p: n for p, n in lengths.items() if n > LONGER_FILES.get(p, LONGEST_FILE)} == {}
    functions = {
        f"{path.name}:{node.name}": length
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and (length := lines_of_code(node)) > LONGEST_FUNCTION
    }
    assert functions == {}


def test_every_public_name_is_there():
    import verify_variance as vv

    assert sorted(vv.__all__) == dir(vv)
    for name in vv.__all__:
        assert getattr(vv, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = vv.nothing


def test_the_laws_that_are_drawn_are_those_that_are_known():
    from verify_variance.simulations.elements import SAMPLERS
    from verify_variance.stats.elements import ELEMENTS

    assert list(SAMPLERS) == list(ELEMENTS)


LOADED = """
import sys
sys.argv = ["verify-variance", *sys.argv[1:]]
from verify_variance.__main__ import main
try:
    main()
except SystemExit:
    print("\\nLOADED", *sorted(name for name in sys.modules if "." not in name))
    print("\\nSTATS" if "scipy.stats" in sys.modules else "")
"""
HEAVY = {"jax", "jaxlib", "pandas", "matplotlib", "jinja2"}


def loaded(*line: str) -> set[str]:
    command = [sys.executable, "-c", LOADED, *line]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "\nSTATS" not in said
    return set(said.split("\nLOADED ")[1].split()) & HEAVY


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "run --help",
        "--version",
        "--dk 0",
        "--dkk 3",
        "predict --quantities logits",
        "predict --dk 8 --n-keys 4 --format json",
        "plan",
        "catalogue",
        "check missing.npy --dk 3",
    ],
)
def test_what_draws_nothing_loads_nothing_heavy(line):
    assert loaded(*line.split()) == set()


def test_pandas_is_loaded_for_csv_and_jax_for_a_run_alone():
    assert loaded("predict", "--format", "csv") == {"pandas"}
    assert loaded("--dk", "4", "--samples", "100") == {"jax", "jaxlib"}


def test_importing_the_package_loads_nothing():
    code = "import sys, verify_variance; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "cyclopts", *HEAVY} & set(said.stdout.split())
