"""A script's bytes and text: decoding as Python does it, and back without the loss of a byte."""

from __future__ import annotations

import codecs
import io
import re
import tokenize

from migrator.findings.results import Failure
from migrator.records import dataclass

# A file that has neither an importer of TensorFlow or Keras nor a call that trains has nothing to port:
# two searches over the bytes spare the parse.
_MENTIONS_FRAMEWORK = re.compile(rb"tensorflow|keras")
_MENTIONS_TRAINING = re.compile(
    rb"\bfit\b|\bfit_generator\b|apply_gradients|\bminimize\b|train_on_batch|GradientTape|\.apply\("
    rb"|\bcompile\b|Optimizer|optimizers?\b|\.assign\b|\.assign_(?:add|sub)\b|\.scatter_|set_weights"
    rb"|value_and_gradient|\bgradients\b|ForwardAccumulator|_minimize\b|\btrain(?!ing\b|able)|Trainer\b"
)

# Nor is such a file asked about, unless the user has something ignored in it: who needs that no more is told so.
_IGNORES = re.compile(rb"#[ \t]*migrate:[ \t]*(?:file-)?ignore\[")


class UnreadableSource(Failure):
    """The bytes cannot be read as Python source; the message says why and what to do."""


_WIDE = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


@dataclass(frozen=True)
class Source:
    """The text of one file, with what is needed to write it back byte for byte."""

    text: str
    encoding: str
    has_bom: bool

    @classmethod
    def decode(cls, data: bytes) -> Source:
        """Decodes as the interpreter would: byte order mark, then PEP 263 cookie, then UTF-8."""
        for mark, name in _WIDE.items():
            if data.startswith(mark):
                raise UnreadableSource(f"this is {name}, which Python does not run: convert the file to UTF-8")
        if b"\0" in data:
            raise UnreadableSource("this is a binary file (it has null bytes), or text in UTF-16: convert it to UTF-8")
        has_bom = data.startswith(codecs.BOM_UTF8)
        body = data[len(codecs.BOM_UTF8) :] if has_bom else data
        try:
            encoding = "utf-8" if has_bom else tokenize.detect_encoding(io.BytesIO(body).readline)[0]
            text = body.decode(encoding)
        except SyntaxError as error:
            raise UnreadableSource(f"{error.msg}: declare the file's encoding or convert it to UTF-8") from None
        except UnicodeDecodeError as error:
            line = body.count(b"\n", 0, error.start) + 1
            raise UnreadableSource(
                f"line {line} is not {encoding.upper()}: declare the encoding (# coding: ...) or convert the file"
            ) from None
        except (LookupError, UnicodeError):
            raise UnreadableSource(f"{encoding} is no encoding of text: convert the file to UTF-8") from None
        source = cls(text, encoding, has_bom)
        if source.encode(text) != data:
            raise UnreadableSource(f"its bytes are not what {encoding.upper()} writes: convert the file to UTF-8")
        return source

    def encode(self, text: str) -> bytes:
        data = text.encode(self.encoding)
        return codecs.BOM_UTF8 + data if self.has_bom else data


def is_about_training(*files: bytes) -> bool:
    """Whether files that belong together may train a TensorFlow model at all, or speak of it to this tool; False needs
    no parse."""
    may_train = any(map(mentions_training, files)) and any(map(mentions_framework, files))
    return may_train or any(map(is_ignoring, files))


def mentions_training(data: bytes) -> bool:
    return bool(_MENTIONS_TRAINING.search(data))


def mentions_framework(data: bytes) -> bool:
    return bool(_MENTIONS_FRAMEWORK.search(data))


def is_ignoring(data: bytes) -> bool:
    return bool(_IGNORES.search(data))
