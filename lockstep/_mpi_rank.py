"""What each rank of an MPI job runs first: it connects to the launcher's pipes, then becomes the script.

Run by its path, not as a module: importing the package would join the job, which only the script may.
"""

import ctypes
import os
import signal
import sys

PIPES = "LOCKSTEP_PIPES"
_RANK_NAMES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_PR_SET_PDEATHSIG = 1


def main() -> None:
    rank = next(os.environ[name] for name in _RANK_NAMES if name in os.environ)
    folder = os.environ.pop(PIPES)
    if sys.platform.startswith("linux"):  # end with mpiexec, however that ends
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for number, stream in ((1, "stdout"), (2, "stderr")):
        pipe = os.open(os.path.join(folder, f"{stream}.{rank}"), os.O_WRONLY)
        os.dup2(pipe, number)
        os.close(pipe)
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
