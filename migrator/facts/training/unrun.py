"""Functions that nothing runs: no file names them, as what translates a sentence once the model is trained."""

from __future__ import annotations

import re
from collections import Counter

import libcst as cst

from migrator.facts.names.finders import FINDERS
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, File
from migrator.facts.program.tree import Tree, nodes_in

# A longer text tells what the program does.
_LONGEST_TEXT = 200


def unrun(tree: Tree, resolver: Resolver) -> list[cst.FunctionDef]:
    """The functions whose names stand nowhere but in themselves, be it as text; in source order. Who imports the file
    may run them, and then what these do is seen where that is given."""
    named = Counter(name.value for several in tree.names.values() for name in several)
    named.update(attribute.attr.value for attribute in tree.all_of(cst.Attribute))
    if not FINDERS.isdisjoint(named) or any(_asks_a_file(resolver, call) for call in tree.calls):
        return []
    texts = [text.raw_value for text in tree.all_of(cst.SimpleString)]
    named.update(word for text in texts for word in re.findall(r"\w+", text) if len(text) < _LONGEST_TEXT)
    found: list[cst.FunctionDef] = []
    for function in tree.functions:
        if function.decorators or tree.class_of(function) is not None or function.name.value.startswith(("_", "test")):
            continue
        own = sum(isinstance(node, cst.Name) and node.value == function.name.value for node in nodes_in(function))
        if named[function.name.value] <= own:
            found.append(function)
    return found


def _asks_a_file(resolver: Resolver, call: cst.Call) -> bool:
    """`getattr(decoders, f"decode_{kind}")`: of a file of the program, or of what is not seen, by a name made up."""
    if not call.args or External("builtins.getattr") not in resolver.values(call.func):
        return False
    owners = resolver.values(call.args[0].value)
    return not owners or any(isinstance(v, File) for v in owners)
