"""Files that are imported from folders that a script adds to the search path, or from those of its project."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import SOMETHING_LEFT, migrate
from test_several_files import MAIN, STEP

from migrator.files.search_path import added_by

_HERE = Path("/home/me/project/tools/train.py")


@pytest.mark.parametrize(
    ("code", "folder"),
    [
        ("sys.path.append('../lib')", "lib"),
        ("sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))", "lib"),
        ("HERE = os.path.dirname(__file__)\nsys.path.append(os.path.join(HERE, os.pardir, 'lib'))", "lib"),
        ("sys.path.append(str(Path(__file__).resolve().parents[1] / 'lib'))", "lib"),
        ("sys.path.append(str(Path(__file__).parent.parent.joinpath('lib')))", "lib"),
        ("sys.path += ['lib', 'more']", "lib"),
        ("sys.path = ['lib'] + sys.path", "lib"),
        ("sys.path[0:0] = ['lib']", "lib"),
        ("sys.path.extend(['lib'])", "lib"),
        ("for name in ('data', 'lib'):\n    sys.path.append(name)", "lib"),
        ("def add(path):\n    sys.path.insert(0, path)\nadd(f'{os.path.dirname(__file__)}/lib')", "tools/lib"),
        ("site.addsitedir('lib')", "lib"),
    ],
)
def test_folders_that_are_written_out_are_known(code: str, folder: str) -> None:
    data = f"import os, site, sys\nfrom pathlib import Path\n{code}\n".encode()
    assert Path("/home/me/project", folder) in added_by({_HERE: data})


@pytest.mark.parametrize("code", ["sys.path.append(sys.argv[1])", "p = p + p\nsys.path.append(p)", "sys.path.append("])
def test_others_are_not(code: str) -> None:
    assert added_by({_HERE: f"import sys\n{code}\n".encode()}) == []


def test_packages_that_are_installed_are_no_files_of_the_user_s() -> None:
    assert added_by({_HERE: b"import sys\nsys.path.append('/usr/lib/python3/dist-packages')\n"}) == []


@pytest.mark.parametrize(
    ("added", "folder"),
    [("import sys\nsys.path.append('lib')\n", "lib"), ("", "src"), ("", ".")],
    ids=["added", "src", "project"],
)
def test_a_file_of_the_project_is_named_and_understood(added: str, folder: str, tmp_path: Path) -> None:
    main, steps = tmp_path / "tools/main.py", tmp_path / folder / "steps.py"
    for path, text in ((main, added + MAIN), (steps, STEP)):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    alone = migrate("--check", main)
    assert alone.exit_code == SOMETHING_LEFT
    assert "this runs steps.py, which takes part in the training and is not among the files given" in alone.stdout
    together = migrate(main, steps)
    assert "2 files migrated" in together.stderr + together.stdout
    assert "shard_batches" in main.read_text()
    assert "all_reduce" in steps.read_text()


def test_files_that_add_folders_may_be_imported(tmp_path: Path) -> None:
    """As `import _init_paths` does."""
    main, steps = tmp_path / "tools/main.py", tmp_path / "here/lib/steps.py"
    paths = "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'here', 'lib'))\n"
    for path, text in ((main, f"import init\n{MAIN}"), (main.with_name("init.py"), paths), (steps, STEP)):
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    assert "this runs steps.py" in migrate("--check", main).stdout


def test_of_a_library_that_is_too_large_only_what_lies_beside_the_script_is_read(tmp_path: Path) -> None:
    library = tmp_path / "src/library"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("".join(f"from library import part{i}\n" for i in range(250)))
    for i in range(250):
        (library / f"part{i}.py").touch()
    (tmp_path / "steps.py").write_text(STEP)
    main = tmp_path / "main.py"
    main.write_text(f"import library\n{MAIN}")
    assert "this runs steps.py" in migrate("--check", main).stdout
