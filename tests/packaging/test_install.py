"""The project installs as a wheel and as a checkout, and lives beside the PyPI package that is called `rules`."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
RULE_MODULES = sorted(module.name for module in pkgutil.iter_modules([str(PROJECT / "rules")]))
RULE_IDS = [name.replace("_", "-") for name in RULE_MODULES]
_SECONDS = 120


def run(*command: object, cwd: Path, **environment: str) -> str:
    """Standard output of the command; a failure shows what it printed."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    assert result.returncode == 0, f"{command}:\n{result.stdout}{result.stderr}"
    return result.stdout


class Environment:
    """A fresh virtual environment with what the project needs to run, but not the project."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.folder = folder
        self.scripts = folder / ("Scripts" if os.name == "nt" else "bin")
        self.pip("install", "click>=8.0", "libcst>=1.1", "pathspec>=0.12", "tomli>=2")

    def pip(self, *arguments: object) -> str:
        return run(self.scripts / "python", "-m", "pip", "--quiet", *arguments, cwd=self.folder)

    def python(self, program: str) -> str:
        return run(self.scripts / "python", "-c", program, cwd=self.folder)

    def migrate(self, *arguments: str) -> str:
        """The console script, started in a folder that is not the project's."""
        return run(self.scripts / "migrate", *arguments, cwd=self.folder)

    def rule_ids(self) -> list[str]:
        return [line.split()[0] for line in self.migrate("--list-rules").splitlines()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, PROJECT, cwd=folder)
    (built,) = folder.glob("tf_lockstep-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment"))


def test_wheel_holds_the_rules_within_the_migrator_and_no_folder_beside(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"migrator", "lockstep"}
    assert {f"migrator/{path.relative_to(PROJECT)}" for path in (PROJECT / "rules").rglob("*.py")} <= set(names)
    assert {"migrator/py.typed", "lockstep/py.typed"} <= set(names)
    assert {str(path.relative_to(PROJECT)) for path in (PROJECT / "lockstep").rglob("*.py")} <= set(names)
    assert "migrator/rules.py" not in names  # it stands in for the folder in a checkout only
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests/", "fixtures/"))]


def test_wheel_works_beside_the_package_called_rules(wheel: Path, environment: Environment) -> None:
    environment.pip("install", "--no-deps", wheel)
    _check_commands(environment)

    environment.pip("install", "--no-deps", "rules")
    theirs = environment.python("import rules; print(rules.__file__)")
    assert Path(theirs.strip()).parent.name == "rules"
    assert environment.rule_ids() == RULE_IDS
    environment.pip("uninstall", "--yes", "rules")
    assert environment.rule_ids() == RULE_IDS

    environment.pip("uninstall", "--yes", "tf-lockstep")
    left = environment.python(
        "import importlib.util as u; print([m for m in ('migrator', 'lockstep', 'rules') if u.find_spec(m)])"
    )
    assert left.strip() == "[]"


def test_checkout_works_beside_the_package_called_rules(environment: Environment) -> None:
    environment.pip("install", "--no-deps", "--editable", PROJECT)
    _check_commands(environment)
    environment.pip("install", "--no-deps", "rules")
    assert environment.rule_ids() == RULE_IDS
    environment.pip("uninstall", "--yes", "rules")
    assert environment.rule_ids() == RULE_IDS
    assert sorted(module.name for module in pkgutil.iter_modules([str(PROJECT / "rules")])) == RULE_MODULES
    environment.pip("uninstall", "--yes", "tf-lockstep")


def _check_commands(environment: Environment) -> None:
    version = environment.python("from importlib.metadata import version; print(version('tf-lockstep'))").strip()
    assert environment.migrate("--version") == f"migrate {version}\n"
    assert environment.rule_ids() == RULE_IDS
    assert version in run(environment.scripts / "lockstep", "--version", cwd=environment.folder)
    script = environment.folder / "train.py"
    script.write_text(
        "import keras\n\nmodel = keras.Sequential([keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\nmodel.fit([[1.0]], [[2.0]], batch_size=1)\n"
    )
    environment.migrate(str(script))
    assert "import lockstep\n" in script.read_text()
