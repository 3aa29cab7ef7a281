"""The page for review: what it holds, that it needs nothing beside it, and how it behaves in a browser."""

from __future__ import annotations

import html
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from command import ERROR, MIGRATED, NOTHING_LEFT, REFUSED, SOMETHING_LEFT, TRAINING, migrate

from migrator.command.run import Options, Run
from migrator.findings.results import Outcome, RunResult
from migrator.registry import all_rules, choose
from migrator.report.page.lanes import LANES
from migrator.report.page.view import FileView, Row, page_view

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LOOP = """import tensorflow as tf

data = tf.data.Dataset.from_tensor_slices(load()).shuffle(1024).batch(64)
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam()


def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


for x, y in data:
    step(x, y)
model.save("<b>&.keras"); print("saved")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "loop.py").write_text(LOOP)
    (tmp_path / "refused.py").write_text(REFUSED)
    (tmp_path / "uses.py").write_text("import loop\n")
    (tmp_path / "broken.py").write_text("import tensorflow; model.fit()\ndef f(:\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def page(*arguments: object, code: int = ERROR) -> str:
    result = migrate(*arguments, "--report", "out/review.html")
    assert result.exit_code == code, result.stderr
    return Path("out/review.html").read_text(encoding="utf-8")


def result_of(folder: Path, *, writes: bool = False) -> RunResult:
    options = Options(tuple(rule.id for rule in choose()), "lockstep", writes, None, 1, 60)
    return Run(options).migrate([folder])


# -- what it holds ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
def test_page_tells_every_site_its_rule_and_the_errors() -> None:
    told = page("--check", ".")
    for rule in ("broadcast-weights", "wrap-optimizer", "shard-dataset", "all-reduce-gradients", "write-once"):
        assert f'href="#rule-{rule}"' in told
        assert f'<details id="rule-{rule}">' in told
        assert html.escape(all_rules()[rule].manual.splitlines()[-1], quote=True).replace("&#x27;", "&#39;") in told
    assert "<b>broken.py</b>: 2:7: " in told
    assert "uses.py → loop.py" in told
    assert "nothing was written" in told
    assert "&lt;b&gt;&amp;.keras" in told
    assert '"<b>&' not in told


@pytest.mark.usefixtures("folder")
def test_every_link_leads_somewhere_and_nothing_is_fetched() -> None:
    told = page("--check", ".")
    ids = set(re.findall(r'\bid="([^"]+)"', told))
    assert len(ids) == len(re.findall(r'\bid="([^"]+)"', told))
    assert set(re.findall(r'href="#([^"]+)"', told)) <= ids
    assert not re.search(r'(?:src|href)="(?!#)', told)
    assert "default-src 'none'" in told


@pytest.mark.parametrize("writes", [False, True])
def test_hunks_are_the_old_and_the_new_lines(folder: Path, writes: bool) -> None:
    (folder / "train.py").write_text(TRAINING.replace("model.fit", "a = 1; b = 2; model.fit").replace("\n", "\r\n"))
    texts = {name: (folder / name).read_bytes().decode() for name in ("train.py", "loop.py")}
    result = result_of(folder, writes=writes)
    outcomes = {Path(f.name).name: f.outcome for f in result.files}
    views = {Path(view.name).name: view for view in page_view(result, is_dry=not writes).files}
    for name, text in texts.items():
        outcome = outcomes[name]
        assert isinstance(outcome, Outcome)
        assert outcome.is_changed
        assert "".join(patched(views[name], text.replace("\r\n", "\n"))) == outcome.text.replace("\r\n", "\n")


def patched(view: FileView, text: str) -> list[str]:
    """The text after what the hunks show, which must begin and end with lines of the file."""
    old = text.splitlines(keepends=True)
    new: list[str] = []
    position = 0
    for hunk in view.hunks:
        rows = [row for row in hunk.rows if row.old is not None]
        assert [row.old for row in rows] == list(range(rows[0].old or 0, (rows[0].old or 0) + len(rows)))
        for row in rows:
            assert plain(row) == old[(row.old or 0) - 1].rstrip("\n")
        new += old[position : (rows[0].old or 1) - 1]
        for row in hunk.rows:
            if row.new is not None:
                assert row.new == len(new) + 1
                new.append(plain(row) + "\n")
        position = rows[-1].old or 0
    return new + old[position:]


def plain(row: Row) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", row.html))


@pytest.mark.long
def test_page_of_a_hundred_files_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        (tmp_path / f"train_{number}.py").write_text("# padding\n" * 200 + LOOP + TRAINING)
    monkeypatch.chdir(tmp_path)
    assert len(page("--check", ".", code=SOMETHING_LEFT).encode()) < 2_000_000


def test_page_of_nothing(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(script.parent)
    script.write_text(MIGRATED)
    told = page("--check", ".", code=NOTHING_LEFT)
    assert "with nothing to do" in told
    assert 'class="site' not in told


def test_page_of_a_run_that_wrote(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(script.parent)
    told = page(".", code=NOTHING_LEFT)
    assert script.read_text() == MIGRATED
    assert "nothing was written" not in told
    assert "lockstep.broadcast(model)" in re.sub(r"<[^>]+>", "", told)
    mask = stat.S_IMODE((script.parent / "out" / "review.html").stat().st_mode)
    assert mask & 0o400
    script.with_name("umask").touch()
    assert mask == stat.S_IMODE(script.with_name("umask").stat().st_mode)


def test_page_that_cannot_be_written_is_an_error(script: Path) -> None:
    result = migrate("--check", script, "--report", script / "page.html")
    assert result.exit_code == ERROR
    assert "cannot be written" in result.stderr


def test_every_rule_has_a_lane() -> None:
    assert set(all_rules()) <= {rule for rules in LANES.values() for rule in rules}


# -- in a browser ----------------------------------------------------------------------------------------------------

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: apt install chromium)")


def browse(folder: Path, *options: str, script: str = "") -> str:
    """The page as the browser has it, after the script."""
    target = folder / "out" / "browsed.html"
    target.write_text(
        (folder / "out" / "review.html").read_text().replace("</body>", f"<script>{script}</script></body>")
    )
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    command += ["--virtual-time-budget=2000", *options, target.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@needs_chromium
def test_keys_move_through_the_sites_and_change_the_layout(folder: Path) -> None:
    page("--check", ".")
    script = """
    const press = key => document.dispatchEvent(new KeyboardEvent('keydown', {key}));
    const sites = [...document.querySelectorAll('.site')];
    const told = [];
    for (const key of 'jjkujkkg') {
      press(key);
      const current = sites.findIndex(site => site.classList.contains('current'));
      told.push(sites.length + ' ' + current + ' ' + document.body.className);
    }
    document.title = told.join('|');
    """
    dom = browse(folder, "--dump-dom", script=script)
    steps = [step.split() for step in re.findall(r"<title>(.*?)</title>", dom)[0].split("|")]
    assert {int(count) for count, _, _ in steps} == {dom.count('class="site')}
    assert [int(index) for _, index, _ in steps] == [0, 1, 0, 0, 1, 0, 0, -1]
    assert [layout for _, _, layout in steps] == ["unified"] * 3 + ["split"] * 5


@needs_chromium
def test_side_by_side_shows_the_same_lines(folder: Path) -> None:
    page("--check", ".")
    script = """
    document.getElementById('layout').click();
    const told = (selector) => [...document.querySelectorAll(selector)].map(cell => cell.textContent);
    const both = [told('.one tr:not(.added) .line'), told('.two td:nth-child(2):not(.none)')];
    const after = [told('.one tr:not(.removed) .line'), told('.two td:nth-child(4):not(.none)')];
    const same = ([one, two]) => one.length > 0 && JSON.stringify(one) === JSON.stringify(two);
    const shown = getComputedStyle(document.querySelector('.one')).display;
    document.title = [same(both), same(after), shown].join(' ');
    """
    dom = browse(folder, "--dump-dom", script=script)
    assert re.findall(r"<title>(.*?)</title>", dom) == ["true true none"]


@needs_chromium
def test_page_is_light_or_dark_as_the_system_is(folder: Path) -> None:
    page("--check", ".")
    colours = []
    for scheme in ("0", "1"):
        dom = browse(
            folder,
            "--dump-dom",
            f"--blink-settings=preferredColorScheme={scheme}",
            script="document.title = getComputedStyle(document.body).backgroundColor",
        )
        colours.append(sum(map(int, re.findall(r"\d+", re.findall(r"<title>(.*?)</title>", dom)[0])[:3])))
    dark, light = sorted(colours)
    assert dark < 150 < 600 < light


@needs_chromium
def test_nothing_is_wider_than_the_window(folder: Path) -> None:
    page("--check", ".")
    picture = folder / "review.png"
    for width in (500, 1300):
        dom = browse(
            folder,
            "--dump-dom",
            f"--window-size={width},1000",
            script="document.title = document.documentElement.scrollWidth + ' ' + window.innerWidth",
        )
        content, window = map(int, re.findall(r"<title>(.*?)</title>", dom)[0].split())
        assert content <= window
    browse(folder, f"--screenshot={picture}", "--window-size=1300,1500")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000
