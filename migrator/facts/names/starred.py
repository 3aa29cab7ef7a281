"""What `from … import *` may give, of the modules of Keras: where a file has several, a name is of one of them."""

from __future__ import annotations

from migrator.facts.names.api import canonical

# What the smaller modules have, in either generation; no other module has a thing of one of these names.
_OWN_NAMES = {
    "keras.models": {
        "Model", "Sequential", "clone_model", "load_model", "model_from_config", "model_from_json", "model_from_yaml",
        "save_model",
    },
    "keras.optimizers": {
        "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lamb", "Lion", "LossScaleOptimizer",
        "Muon", "Nadam", "Optimizer", "RMSprop", "SGD", "schedules",
    },
    "keras.callbacks": {
        "BackupAndRestore", "BaseLogger", "CSVLogger", "Callback", "CallbackList", "EarlyStopping", "History",
        "LambdaCallback", "LearningRateScheduler", "ModelCheckpoint", "ProgbarLogger", "ReduceLROnPlateau",
        "RemoteMonitor", "SwapEMAWeights", "TensorBoard", "TerminateOnNaN",
    },
    "keras.regularizers": {"L1", "L1L2", "L2", "OrthogonalRegularizer", "Regularizer", "l1", "l1_l2", "l2"},
    "keras.datasets": {
        "boston_housing", "california_housing", "cifar10", "cifar100", "fashion_mnist", "imdb", "mnist", "reuters",
    },
    "keras.preprocessing.image": {
        "DataFrameIterator", "DirectoryIterator", "ImageDataGenerator", "Iterator", "NumpyArrayIterator",
        "apply_affine_transform", "apply_brightness_shift", "apply_channel_shift", "random_brightness",
        "random_channel_shift", "random_rotation", "random_shear", "random_shift", "random_zoom", "smart_resize",
    },
}  # fmt: skip
# What they have beside these, as others do.
_SHARED_NAMES = {"keras.preprocessing.image": {"array_to_img", "img_to_array", "load_img", "save_img"}}
_OWNERS = {name: module for module, names in _OWN_NAMES.items() for name in names}
_OF_SEVERAL = frozenset({"get", "serialize", "deserialize", "experimental", "legacy"})


def lends(module: str, name: str) -> bool:
    """Whether an `import *` of the module may give the name."""
    module = canonical(module)
    if not module.startswith("keras.") or name in _OF_SEVERAL:
        return True
    owner = _OWNERS.get(name)
    if owner is None:
        return module not in _OWN_NAMES or name in _SHARED_NAMES.get(module, ())
    return owner == module
