"""A script's bytes and text: decoding as Python does it, and back without the loss of a byte."""

from __future__ import annotations

import codecs
import io
import re
import tokenize
from dataclasses import dataclass

# A file that has neither an importer of TensorFlow or Keras nor a call that trains has nothing to port:
# two searches over the bytes spare the parse.
_MENTIONS_FRAMEWORK = re.compile(rb"tensorflow|keras")
_MENTIONS_TRAINING = re.compile(
    rb"\bfit\b|\bfit_generator\b|apply_gradients|\bminimize\b|train_on_batch|GradientTape|\.apply\(|assign_sub"
    rb"|\bcompile\b|Optimizer|optimizers?\b"
)


class UnreadableSource(Exception):
    """The bytes cannot be read as Python source; the message says why and what to do."""


@dataclass(frozen=True)
class Source:
    """The text of one file, with what is needed to write it back byte for byte."""

    text: str
    encoding: str
    has_bom: bool

    @classmethod
    def decode(cls, data: bytes) -> Source:
        """Decodes as the interpreter would: byte order mark, then PEP 263 cookie, then UTF-8."""
        has_bom = data.startswith(codecs.BOM_UTF8)
        body = data[len(codecs.BOM_UTF8) :] if has_bom else data
        try:
            encoding = "utf-8" if has_bom else tokenize.detect_encoding(io.BytesIO(body).readline)[0]
        except SyntaxError as error:
            raise UnreadableSource(f"{error.msg}: declare the file's encoding or convert it to UTF-8") from None
        try:
            return cls(body.decode(encoding), encoding, has_bom)
        except UnicodeDecodeError as error:
            line = body.count(b"\n", 0, error.start) + 1
            raise UnreadableSource(
                f"line {line} is not {encoding.upper()}: declare the encoding (# coding: ...) or convert the file"
            ) from None

    def encode(self, text: str) -> bytes:
        data = text.encode(self.encoding)
        return codecs.BOM_UTF8 + data if self.has_bom else data


def is_about_training(data: bytes) -> bool:
    """Whether the file may train a TensorFlow model at all; False needs no parse."""
    return bool(_MENTIONS_FRAMEWORK.search(data) and _MENTIONS_TRAINING.search(data))
