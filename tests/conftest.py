"""The repository's root is the package; without this, pytest would import it a second time."""

from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parent.parent


class _RootIsNoTestPackage:
    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> object:
        return pytest.Dir.from_parent(parent, path=path) if path == _ROOT else None


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_RootIsNoTestPackage(), "root-is-no-test-package")
