"""What a launcher of NPU jobs tells each process, from what `lockstep run` tells it; Python runs this by itself where
this folder is on its path."""

import json
import os

_config = json.loads(os.environ.get("TF_CONFIG") or "{}")
_workers = _config.get("cluster", {}).get("worker", [])
if _workers:
    os.environ["RANK_SIZE"] = str(len(_workers))
    os.environ["RANK_ID"] = os.environ["ASCEND_DEVICE_ID"] = str(_config["task"]["index"])
