"""Draws the pictures of the pages anew, from what the tools print now.

    python docs/pictures/draw.py [review.png same.png different.png timeline.svg]

The pages for review and of proofs are shown by Chromium (Debian: apt install chromium; or a path in the variable
CHROMIUM). Nothing is taken from the network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
REPOSITORY = FOLDER.parents[1]
SCRIPTS = REPOSITORY / "fixtures" / "scripts"
PROVEN = "digits_quickstart.py"
WORKERS = 2

Phase = tuple[str, float, float]


# -- the pages of the tool -------------------------------------------------------------------------------------------


def review(picture: Path, folder: Path) -> None:
    """The page of `migrate --report`."""
    shutil.copy(SCRIPTS / PROVEN, folder / "train.py")
    text = (SCRIPTS / "digits_mlp_fit.py").read_text()
    refused = re.sub(r"model\.compile\(.*?\)$", "model.compile(**settings)", text, flags=re.MULTILINE | re.DOTALL)
    (folder / "tune.py").write_text(refused)
    run("migrator", "--check", "train.py", "tune.py", "--report", "page.html", cwd=folder)
    photograph(folder / "page.html", picture, 1280, 1500)


def same(picture: Path, folder: Path) -> None:
    """The page of `migrate verify --report`, of a proof."""
    shutil.copy(SCRIPTS / PROVEN, folder)
    run("migrator", "verify", PROVEN, "--report", "page.html", cwd=folder)
    photograph(folder / "page.html", picture, 860, 520)


def different(picture: Path, folder: Path) -> None:
    """The same of a port by hand that forgets to average the gradients."""
    shutil.copy(SCRIPTS / PROVEN, folder)
    run("migrator", PROVEN, "-o", "by_hand.py", cwd=folder)
    port = folder / "by_hand.py"
    lines = port.read_text().splitlines(keepends=True)
    port.write_text("".join(line for line in lines if "lockstep.all_reduce(gradients" not in line))
    run("migrator", "verify", "by_hand.py", "--original", PROVEN, "--report", "page.html", cwd=folder)
    photograph(folder / "page.html", picture, 860, 590)


def run(module: str, *arguments: str, cwd: Path) -> None:
    done = subprocess.run([sys.executable, "-m", module, *arguments], cwd=cwd, env=environment(), check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{module} {' '.join(arguments)} ended with {done.returncode}")


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}


def photograph(page: Path, picture: Path, width: int, height: int) -> None:
    """What a browser shows first of the page."""
    names = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, filter(None, names))), None)
    if browser is None:
        raise SystemExit(f"{picture.name} needs Chromium (Debian: apt install chromium)")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=2000"]
    options += [f"--user-data-dir={page.parent / 'profile'}", "--blink-settings=preferredColorScheme=1"]
    options += [f"--window-size={width},{height}", f"--screenshot={picture}"]
    subprocess.run([browser, *options, page.as_uri()], check=True, capture_output=True, timeout=120)


# -- the timeline ----------------------------------------------------------------------------------------------------


def timeline(picture: Path, folder: Path) -> None:
    """What each worker does in its steps, and what one process does in the same."""
    training = str(FOLDER / "timeline_training.py")
    alone = {**environment(), "OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    subprocess.run([sys.executable, training, str(folder)], env=alone, check=True)
    command = [sys.executable, "-m", "lockstep", "run", "-n", str(WORKERS), training, str(folder)]
    subprocess.run(command, env=alone, check=True)
    names = [(f"{rank}-of-{size}", size) for size in (1, WORKERS) for rank in range(size)]
    rows = [
        ("one process" if size == 1 else f"rank {name[0]} of {size}", json.loads((folder / f"{name}.json").read_text()))
        for name, size in names
    ]
    picture.write_text(timeline_of(rows), encoding="utf-8")


LEFT, WIDTH, ROW, TOP = 100, 860, 46, 14
COLOURS = {"compute": "#4c78a8", "exchange": "#f2a33a", "update": "#72b7b2"}
MEANINGS = {
    "compute": "loss and gradients of its part of the batch",
    "exchange": "all-reduce: exchange, and wait for the others",
    "update": "update of the weights",
}


def timeline_of(rows: Sequence[tuple[str, Sequence[Sequence[Phase]]]]) -> str:
    """An SVG: a row for each process, with the phases of its steps; rows of one run begin together."""
    starts = [steps[0][0][1] for _, steps in rows]
    # What is far apart was another run, and begins at 0 as well.
    origins = [min(other for other in starts if abs(other - start) < 1) for start in starts]
    longest = max(steps[-1][-1][2] - origin for (_, steps), origin in zip(rows, origins))
    scale = (WIDTH - LEFT - 20) / longest
    height = TOP + ROW * len(rows) + 34 + 20 * len(MEANINGS)
    font = 'font-family="sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {font}>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, ((name, steps), origin) in enumerate(zip(rows, origins)):
        top = TOP + ROW * number
        parts.append(f'<text x="{LEFT - 10}" y="{top + 20}" text-anchor="end" fill="#222222">{escape(name)}</text>')
        for step, phases in enumerate(steps, 1):
            for phase, begin, end in phases:
                x, width = LEFT + (begin - origin) * scale, max((end - begin) * scale, 0.5)
                what = f"step {step}: {MEANINGS[phase]}, {(end - begin) * 1000:.1f} ms"
                box = f'x="{x:.1f}" y="{top}" width="{width:.1f}" height="30" fill="{COLOURS[phase]}"'
                parts.append(f"<rect {box}><title>{escape(what)}</title></rect>")
            x = LEFT + (phases[0][1] - origin) * scale
            parts.append(f'<text x="{x + 4:.1f}" y="{top + 20}" fill="#ffffff">{step}</text>')
    parts += [*_axis(longest, scale, TOP + ROW * len(rows)), *_legend(TOP + ROW * len(rows) + 32), "</svg>"]
    return "\n".join(parts) + "\n"


def _axis(longest: float, scale: float, top: float) -> list[str]:
    every = next(size for size in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0) if longest / size < 9)
    parts = [f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{top}" y2="{top}" stroke="#888888"/>']
    for tick in range(int(longest / every) + 1):
        x = LEFT + tick * every * scale
        label = f"{tick * every * 1000:.0f}" + " ms" * (tick == 0)
        parts.append(f'<text x="{x:.1f}" y="{top + 18}" text-anchor="middle" fill="#555555">{label}</text>')
    return parts


def _legend(top: float) -> list[str]:
    parts = []
    for number, (phase, meaning) in enumerate(MEANINGS.items()):
        y = top + 20 * number
        parts.append(f'<rect x="{LEFT}" y="{y}" width="12" height="12" fill="{COLOURS[phase]}"/>')
        parts.append(f'<text x="{LEFT + 18}" y="{y + 11}" fill="#222222">{escape(meaning)}</text>')
    return parts


PICTURES: dict[str, Callable[[Path, Path], None]] = {
    "review.png": review,
    "same.png": same,
    "different.png": different,
    "timeline.svg": timeline,
}


def main() -> None:
    for name in sys.argv[1:] or PICTURES:
        with tempfile.TemporaryDirectory(prefix="lockstep-picture-") as folder:
            PICTURES[name](FOLDER / name, Path(folder))
        print(FOLDER / name)


if __name__ == "__main__":
    main()
