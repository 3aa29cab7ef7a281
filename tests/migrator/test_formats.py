"""The forms in which a run is reported: each valid by its schema, and each telling the same sites."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import xmlschema
from command import ERROR, MIGRATED, NOTHING_LEFT, PLAIN, PROJECT, REFUSED, SOMETHING_LEFT, TRAINING, migrate

from migrator.registry import all_rules
from migrator.report import DATA, FORMATS

SCHEMAS = Path(__file__).parent / "schemas"
BROKEN = "def f(:\n"
AWKWARD = "schöne, neue: 100% Datei.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of each kind: to migrate, refused, ported, broken."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "sub" / AWKWARD).write_text("# ÄÖÜ 你好\n" + REFUSED)
    (tmp_path / "done.py").write_text(MIGRATED)
    (tmp_path / "broken.py").write_text("import tensorflow; model.fit()\n" + BROKEN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def report(form: str, *arguments: object, code: int = ERROR) -> str:
    result = migrate("--output-format", form, *arguments)
    assert result.exit_code == code, result.stderr
    return result.stdout


def data(form: str, *arguments: object, code: int = ERROR) -> Any:
    return json.loads(report(form, *arguments, code=code))


def schema(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text())


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "json-lines"])
@pytest.mark.parametrize("arguments", [["--check"], ["--dry-run"], []])
def test_a_run_with_nothing_to_tell_is_a_whole_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, arguments: list[str]
) -> None:
    (tmp_path / "done.py").write_text(MIGRATED)
    monkeypatch.chdir(tmp_path)
    told = report(form, *arguments, "done.py", code=NOTHING_LEFT)
    if form in ("json", "sarif", "gitlab", "rdjson"):
        json.loads(told)
    elif form == "junit":
        assert [case.get("name") for case in ElementTree.fromstring(told).iter("testcase")] == ["ported"]
    else:
        assert told == ""


# -- schemas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "name"),
    [("sarif", "sarif-2.1.0.json"), ("gitlab", "gitlab-code-quality.json"), ("rdjson", "rdjson.json")],
)
@pytest.mark.parametrize("arguments", [["--check"], ["--dry-run"], []])
@pytest.mark.usefixtures("folder")
def test_report_is_valid_by_its_schema(form: str, name: str, arguments: list[str]) -> None:
    checker = jsonschema.validators.validator_for(schema(name))(schema(name), format_checker=jsonschema.FormatChecker())
    assert [error.message for error in checker.iter_errors(data(form, *arguments, "."))] == []


@pytest.mark.parametrize("arguments", [["--check"], ["--dry-run"], []])
@pytest.mark.usefixtures("folder")
def test_junit_is_valid_by_its_schema(arguments: list[str]) -> None:
    xmlschema.XMLSchema(str(SCHEMAS / "junit.xsd")).validate(report("junit", *arguments, "."))


def closed(value: Any) -> Any:
    """The schema that knows no keys but its own, so that none is missing in it."""
    if isinstance(value, list):
        return [closed(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: closed(one) for key, one in value.items()}
    return {**found, "additionalProperties": False} if value.get("type") == "object" else found


def published(definition: str = "") -> jsonschema.protocols.Validator:
    """The checker of docs/report.schema.json, or of one of its definitions."""
    described = json.loads((PROJECT / "docs" / "report.schema.json").read_text())
    if definition != "line":  # a line has the keys of something else, and its own
        described = closed(described)
    part = {"$ref": f"#/$defs/{definition}", "$defs": described["$defs"]} if definition else described
    jsonschema.Draft202012Validator.check_schema(part)
    return jsonschema.Draft202012Validator(part)


def problems(checker: jsonschema.protocols.Validator, told: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in checker.iter_errors(told)]


@pytest.fixture
def every_kind(folder: Path) -> Path:
    """The folder with a notebook, a unit test, words that are needed and words that are not, too."""
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": TRAINING}
    (folder / "book.ipynb").write_text(
        json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 2})
    )
    (folder / "test_it.py").write_text("import unittest\n" + TRAINING)
    (folder / "told.py").write_text(
        TRAINING.replace("([keras.layers.Dense(1)])", "([hub.KerasLayer('m')])").replace(
            "tensorflow import keras", "tensorflow import keras\nimport tensorflow_hub as hub  # migrate: rows=0"
        )
    )
    (folder / "empty.ipynb").write_text("")
    return folder


@pytest.mark.parametrize("arguments", [["--check"], []])
@pytest.mark.usefixtures("every_kind")
def test_json_is_valid_by_the_published_schema(arguments: list[str]) -> None:
    told = data("json", *arguments, ".")
    assert problems(published(), told) == []
    assert all(told.values()), [key for key, value in told.items() if not value]  # each list has something to check
    assert problems(published(), {**told, "exit_code": 7})
    assert problems(published(), {key: value for key, value in told.items() if key != "unused"})


@pytest.mark.usefixtures("every_kind")
def test_json_lines_are_valid_by_the_published_schema() -> None:
    lines = [json.loads(line) for line in report("json-lines", "--check", ".").splitlines()]
    assert {line["type"] for line in lines} == {"finding", "trusted", "unused", "error"}
    assert [problem for line in lines for problem in problems(published("line"), line)] == []
    assert problems(published("line"), {**lines[0], "type": "error"})


@pytest.mark.usefixtures("folder")
def test_other_json_is_valid_by_the_published_schema() -> None:
    assert problems(published("statistics"), data("json", "--statistics", "--check", ".")) == []
    for rule in ("shard-dataset", "unread-shard"):
        assert problems(published("explanation"), data("json", "--explain", rule, code=0)) == []


# -- all tell the same -----------------------------------------------------------------------------------------------


def told_sites(form: str, *arguments: str) -> set[tuple[str, str, int]]:
    """Rule, path and line of each site, as the form tells them."""
    if form in ("json", "json-lines"):
        text = report(form, *arguments)
        found = json.loads(text)["findings"] if form == "json" else [json.loads(line) for line in text.splitlines()]
        return {(f["rule"], f["path"], f["range"]["start"]["line"]) for f in found if "rule" in f}
    if form == "sarif":
        places = [
            (r["ruleId"], r["locations"][0]["physicalLocation"]) for r in data(form, *arguments)["runs"][0]["results"]
        ]
        return {
            (rule, unquoted(place["artifactLocation"]["uri"]), place["region"]["startLine"]) for rule, place in places
        }
    if form == "gitlab":
        return {
            (i["check_name"], i["location"]["path"], i["location"]["positions"]["begin"]["line"])
            for i in data(form, *arguments)
            if i["check_name"] != "error"
        }
    if form == "rdjson":
        return {
            (d["code"]["value"], d["location"]["path"], d["location"]["range"]["start"]["line"])
            for d in data(form, *arguments)["diagnostics"]
            if "code" in d
        }
    if form == "junit":
        cases = ElementTree.fromstring(report(form, *arguments)).iter("testcase")
        return {
            (failure.get("type", ""), case.get("classname", ""), int(case.get("name", "").split("(")[1].split(":")[0]))
            for case in cases
            for failure in case.iter("failure")
        }
    assert form == "github"
    found = re.findall(
        r"^::(?:warning|error) title=migrate \((.+?)\),file=(.+?),line=(\d+)", report(form, *arguments), re.M
    )
    return {(rule, unescaped(path), int(line)) for rule, path, line in found}


def unquoted(uri: str) -> str:
    from urllib.parse import unquote

    return unquote(uri)


def unescaped(text: str) -> str:
    return re.sub("%([0-9A-F]{2})", lambda m: chr(int(m.group(1), 16)), text)


@pytest.mark.parametrize("form", sorted(DATA))
@pytest.mark.usefixtures("folder")
def test_every_form_tells_the_same_sites(form: str) -> None:
    expected = {
        ("broadcast-weights", "train.py", 5),
        ("wrap-optimizer", "train.py", 6),
        ("shard-arrays", "train.py", 7),
        ("synchronise-callbacks", "train.py", 7),
        ("wrap-optimizer", f"sub/{AWKWARD}", 7),
    }
    assert told_sites(form, "--check", ".") == expected


@pytest.mark.parametrize("form", sorted(DATA.keys() - {"json", "json-lines"}))
@pytest.mark.usefixtures("folder")
def test_what_was_done_is_not_told_as_left(form: str) -> None:
    assert told_sites(form, ".") == {("wrap-optimizer", f"sub/{AWKWARD}", 7)}


@pytest.mark.parametrize("form", sorted(DATA))
@pytest.mark.usefixtures("folder")
def test_failures_are_told(form: str) -> None:
    assert "broken.py" in report(form, "--check", ".")


# -- json ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [TRAINING, TRAINING.replace("\n", "\r\n"), TRAINING.replace("model.fit", "a = 1; model.fit")]
)
def test_the_edits_of_the_json_make_the_new_text(tmp_path: Path, text: str) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(text.encode())
    told = data("json", "--check", script, code=SOMETHING_LEFT)
    (file,) = told["files"]
    starts = [0, *(m.end() for m in re.finditer(r"\r\n|\n", text))]

    def offset(place: dict[str, int]) -> int:
        return starts[place["line"] - 1] + place["column"] - 1

    new, end = [], 0
    for edit in file["edit"]:
        start, before = offset(edit["range"]["start"]), end
        end = offset(edit["range"]["end"])
        assert text[start:end] == edit["old"]
        new += [text[before:start], edit["new"]]
    for found in told["findings"]:
        assert found["edit"]
        assert all(edit in file["edit"] for edit in found["edit"])
    migrate(script)
    assert "".join([*new, text[end:]]) == script.read_bytes().decode()


@pytest.mark.usefixtures("folder")
def test_the_manual_has_every_key_of_the_json() -> None:
    page = (PROJECT / "docs" / "formats.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.+?)```", page, re.S)

    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value).union(*map(keys, value.values()))
        return set().union(*map(keys, value)) if isinstance(value, list) else set()

    assert keys(json.loads(example)) == keys(data("json", "--check", "."))


def test_json_after_writing_has_places_in_the_new_file(script: Path) -> None:
    told = data("json", script, code=NOTHING_LEFT)
    assert {f["applied"] for f in told["findings"]} == {True}
    assert told["files"][0]["status"] == "migrated"
    lines = script.read_text().splitlines()
    at = {f["rule"]: f["range"] for f in told["findings"] if f["rule"] != "shard-arrays"}
    assert lines[at["broadcast-weights"]["start"]["line"] - 1].startswith("model = keras.Sequential")
    start, end = at["wrap-optimizer"]["start"], at["wrap-optimizer"]["end"]
    assert lines[start["line"] - 1][start["column"] - 1 : end["column"] - 1] == 'lockstep.distributed_optimizer("adam")'


def test_fingerprints_stay_while_lines_move(script: Path) -> None:
    def fingerprints() -> list[str]:
        return [f["fingerprint"] for f in data("json", "--check", script, code=SOMETHING_LEFT)["findings"]]

    before = fingerprints()
    assert len(set(before)) == len(before)
    script.write_text("import os\n\n\n" + TRAINING)
    assert fingerprints() == before


def test_scope_is_the_function_that_holds_the_site(script: Path) -> None:
    script.write_text(
        TRAINING.replace("model.fit", "class A:\n    def run(self, model):\n        model.fit") + "A().run(model)\n"
    )
    told = data("json", "--check", script, code=SOMETHING_LEFT)
    assert {f["scope"] for f in told["findings"] if f["rule"] == "shard-arrays"} == {"A.run"}


# -- the single forms ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
def test_sarif_has_relative_addresses_manuals_fixes_and_fingerprints() -> None:
    run = data("sarif", "--check", ".")["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(all_rules())
    assert all(rule["helpUri"].endswith(f"#{rule['id']}") for rule in run["tool"]["driver"]["rules"])
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"].endswith("/")
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["partialFingerprints"]["migrateSite/v1"]
        artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert artifact["uriBaseId"] == "SRCROOT"
        assert not artifact["uri"].startswith("/")
        assert ("fixes" in result) == (result["level"] == "warning")
    assert run["invocations"][0]["executionSuccessful"] is False
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "broken.py"


@pytest.mark.usefixtures("folder")
def test_github_tells_refusals_as_errors_with_the_advice_below() -> None:
    lines = report("github", "--check", ".").splitlines()
    (refusal,) = [line for line in lines if "refused" in line]
    assert refusal.startswith(
        "::error title=migrate (wrap-optimizer),file=sub/schöne%2C neue%3A 100%25 Datei.py,line=7,"
    )
    assert refusal.count("%0A") == 1
    assert sum(line.startswith("::warning ") for line in lines) == len(lines) - 2


def test_rdjson_counts_bytes(script: Path) -> None:
    script.write_text(TRAINING.replace('loss="mse")', 'loss="mse", metrics=["ä€"])').replace('optimizer="adam", ', ""))
    text = script.read_text().replace(
        'model.compile(loss="mse", metrics=["ä€"]', 'model.compile(metrics=["ä€"], optimizer="adam"'
    )
    script.write_text(text)
    (found,) = [
        d for d in data("rdjson", "--check", script, code=SOMETHING_LEFT)["diagnostics"]
        if d["code"]["value"] == "wrap-optimizer"
    ]  # fmt: skip
    line = text.splitlines()[found["location"]["range"]["start"]["line"] - 1].encode()
    start, end = (found["location"]["range"][key]["column"] - 1 for key in ("start", "end"))
    assert line[start:end] == b'"adam"'


def test_full_shows_the_source_with_a_caret_and_the_edit(script: Path) -> None:
    script.write_text(TRAINING.replace("x, y = ", "学, y = ").replace("fit(x", "fit(学"))
    told = report("full", "--check", script, code=SOMETHING_LEFT)
    lines = told.splitlines()
    assert "7 | model.fit(学, y, batch_size=32)" in lines
    carets = [line for line in lines if set(line.strip("| ")) == {"^"}]
    assert "  | " + " " * 10 + "^^" in carets  # two columns of a terminal
    assert "  | + lockstep.broadcast(model)" in lines
    assert '  | - model.compile(optimizer="adam", loss="mse")' in lines
    assert '  | + model.compile(optimizer=lockstep.distributed_optimizer("adam"), loss="mse")' in lines


def test_full_shows_the_advice(script: Path) -> None:
    script.write_text(REFUSED)
    told = report("full", script, code=SOMETHING_LEFT)
    assert told.startswith("wrap-optimizer: refused: ")
    assert f" --> {script}:6:1" in told
    assert " = help: " in told


def test_grouped_names_each_file_once(folder: Path) -> None:
    told = report("grouped", "--check", ".")
    assert told.count("train.py:") == told.count(f"{AWKWARD}:") == 1


def test_statistics_count_the_sites_of_each_rule(folder: Path) -> None:
    assert report("concise", "--statistics", "--check", ".").splitlines() == [
        "2  shard-arrays",
        "2  wrap-optimizer  (1 refused)",
        "1  broadcast-weights",
        "1  synchronise-callbacks",
    ]
    counts = data("json", "--statistics", "--check", ".")
    assert counts[1] == {"rule": "wrap-optimizer", "count": 2, "refused": 1}


def test_statistics_have_no_other_form(script: Path) -> None:
    assert migrate("--statistics", "--output-format", "sarif", script).exit_code == ERROR


# -- options ---------------------------------------------------------------------------------------------------------


def test_form_may_stand_in_the_environment(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIGRATE_OUTPUT_FORMAT", "json")
    assert json.loads(migrate("--check", script).stdout)["format_version"] == 1
    assert migrate("--check", "--output-format", "github", script).stdout.startswith("::warning ")
    monkeypatch.setenv("MIGRATE_OUTPUT_FORMAT", "nonsense")
    assert migrate("--check", script).exit_code == ERROR


def test_report_goes_to_a_file(script: Path) -> None:
    target = script.parent / "reports" / "migrate.json"
    result = migrate("--check", script, "--output-format", "json", "--output-file", target, "--color", "always")
    assert (result.exit_code, result.stdout) == (SOMETHING_LEFT, "")
    assert json.loads(target.read_text())["exit_code"] == SOMETHING_LEFT
    migrate("--check", script, "--output-format", "full", "--output-file", target, "--color", "always")
    assert "\x1b" not in target.read_text()


def test_report_that_cannot_be_written_is_an_error(script: Path) -> None:
    blocked = script.parent / "file"
    blocked.write_text("")
    result = migrate("--check", script, "--output-file", blocked / "report")
    assert result.exit_code == ERROR
    assert "cannot be written" in result.stderr


def test_exit_zero_passes_what_is_left_but_no_error(folder: Path) -> None:
    assert migrate("--check", "--exit-zero", "train.py").exit_code == NOTHING_LEFT
    assert migrate("--check", "--exit-zero", ".").exit_code == ERROR
    told = data("json", "--check", "--exit-zero", "train.py", code=NOTHING_LEFT)
    assert told["exit_code"] == NOTHING_LEFT


@pytest.mark.parametrize(("when", "coloured"), [("always", True), ("never", False), ("auto", False)])
def test_colour_is_asked_for(script: Path, when: str, coloured: bool) -> None:
    for form in ("concise", "full", "grouped"):
        assert ("\x1b[" in migrate("--color", when, "--check", "--output-format", form, script).stdout) is coloured


@pytest.mark.parametrize("when", ["always", "never"])
def test_colour_option_counts_more_than_the_environment(
    script: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setenv("NO_COLOR" if when == "always" else "FORCE_COLOR", "1")
    assert ("\x1b[" in migrate("--color", when, "--check", script).stdout) is (when == "always")


def test_script_on_standard_output_has_no_report_in_it(script: Path) -> None:
    result = migrate("-", "--output-format", "json", stdin=REFUSED)
    assert result.stdout == REFUSED
    told = json.loads(result.stderr[: result.stderr.rindex("}") + 1])
    assert [f["rule"] for f in told["findings"]] == ["wrap-optimizer"]
    assert json.loads(migrate("-", "--check", "--output-format", "json", stdin=PLAIN).stdout)["findings"] == []


def test_explain_as_json() -> None:
    told = data("json", "--explain", "wrap-optimizer", code=0)
    rule = all_rules()["wrap-optimizer"]
    assert (told["rule"], told["manual"], told["summary"]) == (rule.id, rule.manual, rule.summary)
    assert json.loads(migrate("--explain", "wrap-optimizer", "--output-format", "json").stdout) == told


def test_help_imports_no_reports() -> None:
    program = (
        "import sys\ntry:\n    from migrator.command.cli import main\n    main(['--help'])\n"
        "finally:\n    print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    modules = set(done.stdout.split())
    assert "migrator.command.cli" in modules
    assert not modules & {"libcst", "jinja2", "pygments", "pathspec", "json", "xml.etree.ElementTree", "difflib"}
