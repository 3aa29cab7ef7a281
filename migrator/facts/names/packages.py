"""Well-known packages: what their import does, and that what they give is the same on all workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from importlib.machinery import PathFinder
from pkgutil import iter_modules

# Their import makes no tensor.
WITHOUT_TENSORS = frozenset({
    "IPython", "PIL", "absl", "addict", "click", "colorama", "cv2", "docopt", "dotenv", "easydict", "fire", "h5py",
    "imageio", "joblib", "matplotlib", "mpl_toolkits", "natsort", "networkx", "nltk", "numpy", "pandas", "plotly",
    "prettytable", "pyDOE", "pylab", "requests", "rich", "scipy", "seaborn", "skimage", "sklearn", "tabulate",
    "termcolor", "toml", "tqdm", "typing_extensions", "yacs", "yaml",
})  # fmt: skip


def _standard_library() -> Iterable[str]:
    if sys.version_info >= (3, 10):
        return sys.stdlib_module_names
    folder = os.path.dirname(os.__file__)
    beside = (module.name for module in iter_modules([folder, os.path.join(folder, "lib-dynload")]))
    return (*sys.builtin_module_names, *beside)


STANDARD_LIBRARY = frozenset(_standard_library())
# What scripts import where this tool may not have it installed.
_ELSEWHERE = frozenset({
    "PIL", "absl", "albumentations", "apex", "byteps", "cv2", "datasets", "gym", "gymnasium", "h5py", "horovod", "jax",
    "keras", "lightgbm", "matplotlib", "mlflow", "mpi4py", "nltk", "npu_bridge", "npu_device", "numpy", "optuna",
    "pandas", "polars", "pyarrow", "ray", "requests", "scipy", "seaborn", "sentencepiece", "skimage", "sklearn",
    "smdistributed", "spacy", "tfds", "tokenizers", "torch", "torchvision", "tqdm", "wandb", "xgboost", "yaml",
    # Those that make models of Keras.
    "autokeras", "classification_models", "deepctr", "efficientnet", "image_classifiers", "keras_cv",
    "keras_cv_attention_models", "keras_hub", "keras_nlp", "keras_resnet", "keras_tuner", "keras_unet",
    "keras_unet_collection", "segmentation_models", "spektral", "tensorflow_decision_forests", "tensorflow_hub",
    "tensorflow_similarity", "tf_keras", "transformers", "vit_keras",
})  # fmt: skip
FRAMEWORKS = frozenset({"tensorflow", "keras", "tf_keras"})


# They draw by the generators of TensorFlow and NumPy that all workers have in common, or not at all, as their source
# says: what they make of the same files is the same on all.
_DRAWING_ALIKE = frozenset({
    "bs4", "librosa", "lxml", "mido", "nibabel", "ordered_set", "oyaml", "pretty_midi", "pycocotools", "regex", "six",
    "soundfile", "spektral", "tensorflow_addons", "tensorflow_datasets", "tensorflow_hub", "tensorflow_text",
})  # fmt: skip


def is_known(root: str) -> bool:
    """Whether the package of this name is a framework, Python's own or one that is known here."""
    return root in FRAMEWORKS or root in WITHOUT_TENSORS or root in STANDARD_LIBRARY or root in ("lockstep", "builtins")


@cache
def is_there(root: str) -> bool:
    """Whether a package of that name is installed beside the tool, or is one that scripts are known to use: else the
    name may be that of a file of the user's, which is missing."""
    if root in _ELSEWHERE or root in WITHOUT_TENSORS or root in sys.builtin_module_names:
        return True
    folders = [folder for folder in sys.path if folder not in ("", ".")]
    return PathFinder.find_spec(root, folders) is not None


def draws_alike(module: str) -> bool:
    """Whether the package draws no random numbers but from generators that the workers have in common."""
    root = module.partition(".")[0]
    return is_known(root) or root in _DRAWING_ALIKE
