"""Run the user's script as Python would, with hooks set, and leave a record however it ends."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path

from migrator.verify.plan import Plan
from migrator.verify.record import STOPPED
from migrator.verify.recorder import lines
from migrator.verify.recorder.hooks import install
from migrator.verify.recorder.journal import Enough, Journal
from migrator.verify.recorder.place import rank_of_this_process


def run(plan: Plan) -> None:
    """Run the script of the plan. Its error is raised again when it is written down, so that launchers see it."""
    journal = Journal(plan, rank_of_this_process())
    install(plan, journal)
    folder = os.getcwd() if plan.is_module else os.path.dirname(os.path.abspath(plan.script))
    # In place of what Python has put there for the recorder itself.
    sys.path[0] = folder
    sys.argv = [plan.script, *plan.arguments]
    path = Path(plan.folder) / f"rank-{journal.record.rank}.npz"
    try:
        if plan.is_module:
            runpy.run_module(plan.script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(plan.script, run_name="__main__")
    except Enough:
        journal.record.end = STOPPED
    except SystemExit as ended:
        if ended.code:
            journal.failed(f"exit code {ended.code}", "")
            raise
    except BaseException as error:
        journal.failed(f"{type(error).__name__}: {error}", traceback.format_exc(), lines.of_error(error, plan.root))
        raise
    finally:
        journal.close()
        journal.record.save(path)
