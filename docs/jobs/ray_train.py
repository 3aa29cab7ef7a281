"""Four workers on a Ray cluster, or on this machine alone: python ray_train.py train.py

Ray sets TF_CONFIG in each of its processes, and the script is run in them. It has to lie under the same path on all
machines, and what it saves should have an absolute path: Ray chooses the folder that its processes work in.
"""

import runpy
import sys
from pathlib import Path

from ray.train import ScalingConfig
from ray.train.tensorflow import TensorflowTrainer

WORKERS = 4


def main(script, workers=WORKERS):
    path = str(Path(script).resolve())

    # The script imports lockstep, which joins the others: in Ray's processes only, never at the top of this file.
    def train():
        runpy.run_path(path, run_name="__main__")

    TensorflowTrainer(train, scaling_config=ScalingConfig(num_workers=workers)).fit()


if __name__ == "__main__":
    main(*sys.argv[1:2])
