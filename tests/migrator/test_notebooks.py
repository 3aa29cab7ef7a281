"""Notebooks: what is read of them, what is written, and that every other byte stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from command import ERROR, MIGRATED, NOTHING_LEFT, PLAIN, SOMETHING_LEFT, TRAINING, contents, migrate

from migrator.notebooks.cells import joined, parted, place
from migrator.notebooks.file import Notebook
from migrator.notebooks.magics import masked, unmasked
from migrator.text.parsing import is_python

IMPORTS = (
    "%matplotlib inline\n!pip install tensorflow # later\nimport numpy as np\nfrom tensorflow import keras\n"
    'files = !ls *.npy\nif files:\n    !echo "it\'s" \\\n      there\nkeras.Model?'
)
MODEL = 'x, y = np.load("x.npy"), np.load("ü.npy")\nmodel = keras.Sequential([keras.layers.Dense(1)])\n'
FIT = '%%time\nmodel.compile(optimizer="adam", loss="mse")\nhistory = model.fit(x, y, batch_size=32)'
SAVE = 'model.save("m.keras")'
SHELL = "%%bash\nls # here\n\npython train.py"
CELLS = ["# Title", IMPORTS, SHELL, MODEL, FIT, "", SAVE, 'np.save("w", [1])\nhistory', "this is no python"]
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}

HELPER = """
import numpy as np
from tensorflow import keras


def build():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])


class Trainer:
    def __init__(self, net):
        self.net = net

    def run(self, x, y):
        self.net.compile("adam", "mse")
        for i in range(0, len(x), 8):
            self.net.train_on_batch(x[i : i + 8], y[i : i + 8])
"""


def notebook(cells: list[str] = CELLS, metadata: dict[str, Any] = KERNEL) -> dict[str, Any]:
    """A notebook of format 4; its first cell is text."""
    v4 = nbformat.v4
    first, *code = cells
    image = v4.new_output("display_data", data={"image/png": "aGVs\nbG8=", "text/plain": "model.fit"})
    outputs = [v4.new_output("stream", text="é 1/10\n"), image]
    made = [
        v4.new_code_cell(c, execution_count=n, outputs=outputs, metadata={"b": 1, "a": 2}) for n, c in enumerate(code)
    ]
    return dict(v4.new_notebook(cells=[v4.new_markdown_cell(first), *made], metadata=metadata))


def as_lines(document: dict[str, Any]) -> dict[str, Any]:
    """With sources as lists of lines, as Jupyter writes them."""
    found: dict[str, Any] = json.loads(json.dumps(document))
    for cell in found["cells"]:
        cell["source"] = cell["source"].splitlines(keepends=True)
    return found


LAYOUTS = {
    "jupyter": (json.dumps(as_lines(notebook()), indent=1, ensure_ascii=False) + "\n").encode(),
    "strings": json.dumps(notebook(), indent=4, ensure_ascii=False).encode(),
    "one line": json.dumps(as_lines(notebook())).encode(),
    "dense": json.dumps(as_lines(notebook()), separators=(",", ":")).encode(),
    "crlf": json.dumps(as_lines(notebook()), indent=2).replace("\n", "\r\n").encode(),
    "bom": b"\xef\xbb\xbf" + json.dumps(notebook(), sort_keys=True).encode(),
}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("train.ipynb")
    path.write_bytes(LAYOUTS["jupyter"])
    return path


def sources(path: Path) -> list[str]:
    return [cell["source"] for cell in nbformat.read(path, as_version=4)["cells"]]


# -- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_cells_are_migrated_and_every_other_byte_stays(path: Path, layout: str) -> None:
    path.write_bytes(LAYOUTS[layout])
    assert migrate(path).exit_code == NOTHING_LEFT
    new = path.read_bytes()
    assert new.startswith(b"\xef\xbb\xbf") == (layout == "bom")
    nbformat.validate(json.loads(new.decode("utf-8-sig")))
    title, imports, shell, model, fit, empty, save, last, broken = (
        "".join(cell["source"]) for cell in json.loads(new.decode("utf-8-sig"))["cells"]
    )
    assert imports == IMPORTS.replace("import keras\n", "import keras\nimport lockstep\n")
    assert model == MODEL + "lockstep.broadcast(model)\n"
    assert fit.startswith('%%time\nmodel.compile(optimizer=lockstep.distributed_optimizer("adam")')
    assert save == f"if lockstep.is_chief():\n    {SAVE}"
    assert last == 'if lockstep.is_chief():\n    np.save("w", [1])\nhistory'
    assert (title, shell, empty, broken) == (CELLS[0], SHELL, "", CELLS[-1])
    # Without the sources of the cells that changed, the two files are the same, byte for byte.
    assert without_sources(new, {1, 3, 4, 6, 7}) == without_sources(LAYOUTS[layout], {1, 3, 4, 6, 7})


def without_sources(data: bytes, numbers: set[int]) -> str:
    text = data.decode("utf-8")
    read = Notebook.read(data)
    shift = len(text) - len(read.text)
    for number, cell in reversed(read.cells.items()):
        if number - 1 in numbers:
            text = text[: cell.start + shift] + text[cell.end + shift :]
    return text


def test_lines_that_stay_keep_their_spelling(path: Path) -> None:
    spelled = LAYOUTS["jupyter"].replace("ü".encode(), b"\\u00fc")
    path.write_bytes(spelled)
    migrate(path)
    assert b"\\u00fc.npy" in path.read_bytes()
    assert "é 1/10".encode() in path.read_bytes()


def test_second_run_changes_nothing(path: Path) -> None:
    migrate(path)
    once = path.read_bytes()
    result = migrate(path)
    assert (result.exit_code, path.read_bytes()) == (NOTHING_LEFT, once)
    assert result.stderr == "1 file with nothing to do\n"


def test_cells_make_the_same_of_a_script_as_of_themselves(path: Path) -> None:
    document = notebook(["# Title", *TRAINING.split("\n\n")])
    path.write_text(json.dumps(document))
    migrate(path)
    assert "\n\n".join(sources(path)[1:]).rstrip("\n") == MIGRATED.rstrip("\n")


def test_next_step_is_a_script_to_launch(path: Path) -> None:
    result = migrate(path)
    assert "next: migrate train.ipynb -o train.py && lockstep run -n 2 train.py\n" in result.stderr


# -- what is told ----------------------------------------------------------------------------------------------------


def test_sites_are_told_by_cell_before_and_after(path: Path) -> None:
    unknown = (
        MODEL.replace("keras.layers.Dense(1)", "keras.layers.Dense(1)")
        + "if model.save('n') is None and input():\n    0\n"
    )
    path.write_text(json.dumps(notebook(["", IMPORTS, unknown, FIT])))
    result = migrate("--check", path)
    assert result.exit_code == SOMETHING_LEFT
    lines = result.stdout.splitlines()
    assert any(line.startswith("train.ipynb:cell 3:2:1: broadcast-weights: ") for line in lines)
    assert any(line.startswith("train.ipynb:cell 3:3:4: write-once: refused: ") for line in lines)
    assert migrate(path).stdout.startswith("train.ipynb:cell 3:4:4: write-once: refused: ")


def test_check_remembers_notebooks(path: Path) -> None:
    first, second = migrate("--check", path), migrate("--check", path)
    assert (first.stdout, first.exit_code) == (second.stdout, second.exit_code)
    assert "cell 5" in second.stdout
    path.write_bytes(LAYOUTS["jupyter"].replace(b"batch_size=32", b"batch_size=64").replace(b"np.save", b"print"))
    assert "cell 8" not in migrate("--check", path).stdout


def test_diff_is_by_cell_with_magics_as_they_are(path: Path) -> None:
    shown = migrate("--dry-run", path).stdout
    assert [line for line in shown.splitlines() if line.startswith("+++")] == [
        f"+++ b/train.ipynb:cell {number}" for number in (2, 4, 5, 7, 8)
    ]
    assert " !pip install tensorflow # later\n" in shown
    assert "get_ipython" not in shown
    assert path.read_bytes() == LAYOUTS["jupyter"]


@pytest.mark.parametrize("form", ["full", "github", "gitlab", "sarif", "junit", "rdjson", "json-lines"])
def test_every_form_names_the_cell(path: Path, form: str) -> None:
    told = migrate("--check", path, "--output-format", form).stdout
    expected = {"full": "train.ipynb:cell 4:2:1", "json-lines": '"cell":{"number":4,"line":2}'}
    assert expected.get(form, "cell 4, line 2: Give every worker") in told.replace(": {", ":{").replace(
        '"number": ', '"number":'
    ).replace('"line": ', '"line":').replace(', "line"', ',"line"')


def test_page_names_the_cell(path: Path) -> None:
    migrate("--check", path, "--report", "review.html")
    assert "train.ipynb:cell 4:2" in Path("review.html").read_text()


def test_questions_are_asked_about_notebooks(path: Path) -> None:
    result = migrate("-i", path, stdin="y\n")
    assert "+++ b/train.ipynb:cell 4" in result.stderr
    assert "lockstep.broadcast(model)" in sources(path)[3]


def test_comments_are_added_to_cells(path: Path) -> None:
    assert migrate("--add-ignore=one device", path).exit_code == NOTHING_LEFT
    assert sources(path)[6] == f"# migrate: ignore[write-once] one device\n{SAVE}"
    assert migrate("--check", path).exit_code == NOTHING_LEFT


# -- magics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cell",
    [
        "%matplotlib inline",
        "!ls # not a comment",
        "  \n\n%%time\nx = 1",
        "%%bash\nfor i in 1 2; do\n  echo '# $i'\ndone\n",
        "%%capture out\n!pip install x\nimport x",
        "for i in range(3):\n    !echo {i}\n    %time f(i)\nelse:\n\t!!ls",
        "a = !ls\nb, c = %sql select 1\nd['x'] = %timeit -o f()",
        "f?\n?f\nf??\nmodel.fit?\n%time?",
        "!echo 'a' \\\n  'b' \\\n  \"c\nx = 1",
        "x = '''\n%time\n!ls\n'''\n%time y = 2",
        "x = (7\n%3)\n",
        "x = 1;",
        "def f(:\n  pass",
        "%%unknown some thing\nx = 1 \\",
        "await f()\nreturn",
        "print 'a'",
        "x = 'unfinished",
        "%%time\nnot python at all",
        "#%% [markdown]\n# %%\nx",
        "\tx",
        "ä = !ls 'ö'",
        "",
        "\n",
    ],
)
def test_magics_are_masked_line_by_line_and_come_back(cell: str) -> None:
    text = masked(cell)
    assert is_python(text)
    assert text.count("\n") == cell.count("\n")
    assert unmasked(text) == cell
    if is_python(cell):
        assert text == cell


def test_strings_and_operators_that_look_like_magics_stay() -> None:
    cell = "x = '''\n!ls\n'''\ny = (7\n%x)\nz = 5\\\n%3\n"
    assert masked(cell) == cell


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("!ls", "get_ipython().system('ls')"),
        ("!!ls", "get_ipython().getoutput('ls')"),
        ("x = !ls", "x = get_ipython().getoutput('ls')"),
        ("%time f(1)", "get_ipython().run_line_magic('time', 'f(1)')"),
        ("x = %sql select", "x = get_ipython().run_line_magic('sql', 'select')"),
        ("f?", "get_ipython().run_line_magic('pinfo', 'f')"),
    ],
)
def test_magics_are_the_calls_that_ipython_makes_of_them(line: str, call: str) -> None:
    assert masked(line) == f"{call}  # magic: {line}"


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (FIT.replace("history", "%time history"), "cell 5:3:1: hidden-training: refused: `%time` runs code"),
        (FIT.replace("%%time", "%%heat"), "cell 5:1:1: hidden-training: refused: `%%heat` runs code"),
        (FIT.replace("y, batch", "y,, batch"), "cell 5:1:1: hidden-training: refused: "),
    ],
)
def test_a_magic_that_hides_training_is_refused_in_its_cell(path: Path, cell: str, told: str) -> None:
    cells = list(CELLS)
    cells[4] = cell
    path.write_text(json.dumps(notebook(cells)))
    before = path.read_bytes()
    result = migrate(path)
    assert (result.exit_code, path.read_bytes()) == (SOMETHING_LEFT, before)
    assert f"train.ipynb:{told}" in result.stdout


# -- a script to launch ----------------------------------------------------------------------------------------------


def test_a_script_to_launch_has_the_code_and_the_magics_as_comments(path: Path) -> None:
    cells = [cell.replace("files = !ls *.npy\nif files", "%time n = len('x')\nif n") for cell in CELLS]
    cells[-1] = "!date"
    path.write_text(json.dumps(notebook(cells)))
    before = path.read_bytes()
    result = migrate(path, "-o", "train.py")
    assert result.exit_code == NOTHING_LEFT
    assert "next: lockstep run -n 2 train.py" in result.stderr
    assert path.read_bytes() == before
    script = Path("train.py").read_text()
    compile(script, "train.py", "exec")
    assert "get_ipython" not in script
    assert "# %% cell 4\nx, y = " in script
    assert "pass  # %matplotlib inline\npass  # !pip install tensorflow # later\n" in script
    assert "\nn = len('x')\nif n:\n    pass  # !echo" in script
    assert migrate("--check", "train.py").exit_code == NOTHING_LEFT


@pytest.mark.parametrize("line", ["files = !ls", "%cd data", "%run other.py", "%env A=1"])
def test_a_script_that_needs_a_magic_is_not_written(path: Path, line: str) -> None:
    path.write_text(json.dumps(notebook(["", line, IMPORTS.partition("files")[0], MODEL, FIT])))
    result = migrate(path, "-o", "train.py")
    assert result.exit_code == ERROR
    assert "train.py: cell 2 needs a magic" in result.stderr
    assert not Path("train.py").exists()


def test_a_copy_of_a_folder_has_its_notebooks(path: Path) -> None:
    Path("src").mkdir()
    path.rename("src/train.ipynb")
    plain = json.dumps(notebook(["Plain", PLAIN]))
    Path("src/plain.ipynb").write_text(plain)
    Path("src/helper.py").write_text(PLAIN)
    assert migrate("src", "-o", "out").exit_code == NOTHING_LEFT
    assert set(contents(Path("out"))) == {"train.ipynb", "plain.ipynb", "helper.py"}
    assert "lockstep.broadcast(model)" in sources(Path("out/train.ipynb"))[3]
    assert Path("out/plain.ipynb").read_text() == plain
    assert Path("src/train.ipynb").read_bytes() == LAYOUTS["jupyter"]


def test_a_script_does_not_become_a_notebook(script: Path) -> None:
    assert migrate(script, "-o", script.with_suffix(".ipynb")).exit_code == ERROR


# -- which notebooks -------------------------------------------------------------------------------------------------


def test_folders_have_notebooks_but_no_checkpoints(path: Path) -> None:
    Path(".ipynb_checkpoints").mkdir()
    Path(".ipynb_checkpoints/train-checkpoint.ipynb").write_bytes(LAYOUTS["jupyter"])
    assert migrate("--show-files", ".").stdout.splitlines() == ["train.ipynb"]


def test_notebooks_and_the_files_that_they_import_are_one_program(path: Path) -> None:
    helper = "from tensorflow import keras\n\n\ndef train(model, x, y):\n    model.fit(x, y, batch_size=32)\n"
    Path("helper.py").write_text(helper)
    fit = 'import helper\nmodel.compile("adam", "mse")\nhelper.train(model, x, y)'
    path.write_text(json.dumps(notebook(["", IMPORTS, MODEL, fit])))
    assert "this runs helper.py, which takes part in the training" in migrate("--check", path).stdout
    assert migrate(".").exit_code == NOTHING_LEFT
    assert "lockstep.shard_arrays" in Path("helper.py").read_text()
    assert "lockstep.distributed_optimizer" in sources(path)[3]


@pytest.mark.parametrize("imports", ["from helper import *", "from helper import Trainer, build"])
def test_a_notebook_runs_what_it_imports_without_speaking_of_tensorflow(path: Path, imports: str) -> None:
    Path("helper.py").write_text(HELPER)
    path.write_text(json.dumps(notebook(["", imports, "net = build()", "Trainer(net).run(1, 2)"])))
    Path("plain.ipynb").write_text(json.dumps(notebook(["Plain", PLAIN])))
    assert "cannot be seen" in migrate("--check", "helper.py", "plain.ipynb").stdout
    assert "this runs helper.py, which takes part in the training" in migrate("--check", path).stdout
    assert migrate(".").exit_code == NOTHING_LEFT
    assert "lockstep.shard_batch" in Path("helper.py").read_text()
    assert sources(path)[2] == "net = build()\nlockstep.broadcast(net)"


def test_a_broken_notebook_in_a_folder_is_told_and_stops_no_other(path: Path) -> None:
    Path("broken.ipynb").write_text("{not even json")
    result = migrate(".")
    assert result.exit_code == ERROR
    assert "broken.ipynb" in result.stderr
    assert "this is no notebook" in result.stderr
    assert "lockstep.broadcast(model)" in sources(path)[3]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{not even json", "this is no notebook: Expecting property name"),
        (b"{tensorflow fit", "this is no notebook: Expecting property name"),
        (b'{"tensorflow": "fit"}', "this is no notebook: it has no cells"),
        (b'["tensorflow", "fit"]', "this is no notebook: it has no cells"),
        (b"\xff tensorflow fit", "this is no notebook: 'utf-8' codec"),
        (json.dumps({**notebook(), "nbformat": 3}).encode(), "notebook of format 3, not 4"),
        (json.dumps(notebook(["", "# %% cell 1\n" + TRAINING])).encode(), "looks like one that this tool writes"),
        (json.dumps(notebook(["", TRAINING + "# magic: x"])).encode(), "looks like one that this tool writes"),
    ],
)
def test_what_is_no_notebook_is_an_error(path: Path, data: bytes, message: str) -> None:
    path.write_bytes(data)
    for given in (path, "."):
        result = migrate(given)
        assert result.exit_code == ERROR
        assert message in result.stderr
    assert path.read_bytes() == data


def test_a_notebook_of_another_language_is_told_by_name_and_passed_over_in_a_folder(path: Path) -> None:
    path.write_text(json.dumps(notebook(metadata={"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}})))
    assert "this is a notebook in R" in migrate(path).stderr
    assert migrate(".").exit_code == NOTHING_LEFT


def test_standard_input_is_no_notebook() -> None:
    result = migrate("-", "--stdin-filename", "a.ipynb", stdin=LAYOUTS["jupyter"])
    assert result.exit_code == ERROR
    assert "name its file" in result.stderr


def test_proof_says_why_a_notebook_cannot_be_started_and_passes_over_those_beside_scripts(path: Path) -> None:
    path.write_text(json.dumps(notebook(["text", "%cd data\n"])))
    result = migrate("verify", path)
    assert result.exit_code == ERROR
    assert "cell 2 needs a magic" in result.stderr
    assert "say with --main" in migrate("verify", ".").stderr or "no Python files" in migrate("verify", ".").stderr


# -- cells as a script -----------------------------------------------------------------------------------------------


def test_cells_are_found_again_in_their_script() -> None:
    cells = {2: "a\nb", 5: "", 6: "c\n", 10: "d"}
    script = joined(cells)
    assert parted(script) == cells
    assert [place(script, line) for line in (2, 3, 7, 8, 10)] == [(2, 1), (2, 2), (6, 1), (6, 2), (10, 1)]
