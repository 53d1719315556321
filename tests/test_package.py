"""The wheel, built from what is committed or would be, installed elsewhere and run from there."""

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.wide


def shell(*line: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    surroundings = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | env
    return subprocess.run(line, cwd=cwd, env=surroundings, capture_output=True, text=True)


def project_files() -> list[str]:
    """What a clean clone has: the files that git tracks, or would without being told otherwise."""
    listed = shell("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).stdout.splitlines()
    return [name for name in listed if (ROOT / name).is_file()]


def isolated() -> list[str]:
    """Build here where setuptools is new enough, so that no registry is needed."""
    found = importlib.util.find_spec("setuptools") and importlib.import_module("setuptools")
    new = found and int(found.__version__.split(".")[0]) >= 77
    return ["--no-build-isolation"] if new else []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a clean copy, with a stale build folder's trap avoided."""
    folder = tmp_path_factory.mktemp("package")
    for name in project_files():
        target = folder / "clone" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    built = shell(
        *(*pip, "wheel", "--no-deps", *isolated(), "-w", folder, folder / "clone"), cwd=folder
    )
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    installed = shell(
        *(*pip, "install", "--no-deps", "--no-index", "--target", folder / "there", path),
        cwd=folder,
    )
    assert installed.returncode == 0, installed.stderr
    return path


def test_the_wheel_has_the_sources_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if ".dist-info/" not in n}
    ours = {
        f"verify_variance/{name}"
        for name in project_files()
        if name.split("/")[0] in ("stats", "simulations", "reports", name) and "/." not in name
    }
    kept = {n for n in ours if n.endswith((".py", "py.typed", ".toml", ".json", ".html", ".jinja"))}
    kept -= {"verify_variance/pyproject.toml"}
    assert names == kept


def test_the_installed_wheel_runs_from_elsewhere(wheel, tmp_path):
    there = wheel.parent / "there"
    code = "import verify_variance as v; print(v.__file__)"
    where = shell(sys.executable, "-S", "-c", code, cwd=tmp_path, PYTHONPATH=str(there))
    assert where.stdout.strip() == str(there / "verify_variance" / "__init__.py")
    script = there / "bin" / "verify-variance"
    line = ("--dk", "16", "--samples", "20000")
    run = shell(sys.executable, script, *line, cwd=tmp_path, PYTHONPATH=str(there))
    assert run.returncode == 0, run.stderr
    assert "1 of 1 row matches" in run.stdout
    here = shell(sys.executable, "-m", "verify_variance", *line, cwd=tmp_path)
    assert here.stdout == run.stdout


def test_its_metadata_names_the_command_and_the_version(wheel):
    import verify_variance

    with zipfile.ZipFile(wheel) as archive:
        (points,) = (n for n in archive.namelist() if n.endswith("entry_points.txt"))
        assert "verify-variance = verify_variance.__main__:main" in archive.read(points).decode()
    assert verify_variance.__version__ in wheel.name
