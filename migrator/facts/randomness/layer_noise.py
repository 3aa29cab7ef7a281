"""Whether layers of Keras's may draw while they train: dropout, noise, augmentation.

Of a model that is sent with noise of its own, each worker then gets other values out of the same batch. Layers of the
script's draw from what all have in common.
"""

from __future__ import annotations

import re

import libcst as cst

from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.tree import Tree

_DRAWING = re.compile(r"Dropout|Noise|Random|Rand[A-Z]|Augment|AugMix|CutMix|MixUp")
# They have dropout of their own where they are told so.
_TOLD = re.compile(r"^keras\.layers\.\w*(?:Attention|LSTM|GRU|SimpleRNN)\w*$")
_BEFORE_THE_RATE = 2  # positional arguments at least
_READY_MADE = re.compile(
    r"^keras\.applications\.(?:\w+\.)?(?!DenseNet|Inception|MobileNetV2|NASNet|ResNet|VGG|Xception)[A-Z]\w*$"
)
_FROM_TEXTS = re.compile(
    r"^keras\.(?:saving|models|layers|utils)\.(?:\w+\.)?(?:load_model|deserialize\w*|model_from_\w+)$"
)


class LayerNoise:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds

    @property
    def may_be(self) -> bool:
        """Whether the program names a layer that draws, or makes models of what is not seen."""
        return bool(self.kinds.models_of_packages) or any(
            self._may_draw(node) for node in self.tree.all_of(cst.Attribute, cst.Name)
        )

    def _may_draw(self, node: cst.BaseExpression) -> bool:
        return any(
            (path.startswith("keras.layers.") and (_DRAWING.search(path) is not None or self._is_told(node, path)))
            or _READY_MADE.match(path)
            or _FROM_TEXTS.match(path)
            for path in self.resolver.public(node)
        )

    def _is_told(self, layer: cst.BaseExpression, path: str) -> bool:
        """Whether the layer may be given a rate of dropout where it is made."""
        if not _TOLD.match(path):
            return False
        call = self.tree.parent[layer]
        if not isinstance(call, cst.Call) or call.func is not layer:
            return True
        positional = [arg for arg in call.args if arg.keyword is None]
        is_hidden = len(positional) > _BEFORE_THE_RATE or any(arg.star for arg in call.args)
        return is_hidden or any(arg.keyword is not None and "dropout" in arg.keyword.value for arg in call.args)
