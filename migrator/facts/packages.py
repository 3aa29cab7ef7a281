"""Well-known packages: what their import does, and that what they give is the same on all workers."""

from __future__ import annotations

import sys

# Their import makes no tensor.
WITHOUT_TENSORS = frozenset({
    "PIL", "absl", "click", "cv2", "h5py", "imageio", "joblib", "matplotlib", "networkx", "nltk", "numpy", "pandas",
    "requests", "rich", "scipy", "seaborn", "skimage", "sklearn", "tqdm", "typing_extensions", "yaml",
})  # fmt: skip
# Python 3.9 does not list it; there such imports may end up behind the runtime's.
STANDARD_LIBRARY = frozenset(
    getattr(sys, "stdlib_module_names", ("argparse", "os", "pathlib", "random", "sys", "time"))
)
FRAMEWORKS = frozenset({"tensorflow", "keras", "tf_keras"})


def draws_alike(module: str) -> bool:
    """Whether the package draws no random numbers but from generators that the workers have in common."""
    root = module.partition(".")[0]
    return root in FRAMEWORKS or root in WITHOUT_TENSORS or root in STANDARD_LIBRARY or root in ("lockstep", "builtins")
