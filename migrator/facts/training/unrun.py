"""Functions that nothing runs: no file names them, as what translates a sentence once the model is trained."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

import libcst as cst

from migrator.facts.names import api
from migrator.facts.names.finders import finders
from migrator.facts.names.of_libraries import OF_LIBRARIES
from migrator.facts.objects.asked_for import is_anothers
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, File, Object
from migrator.facts.program.tree import Tree, nodes_in
from migrator.facts.program.unnamed import Unnamed

# A longer text tells what the program does.
_LONGEST_TEXT = 200
# Callbacks have a `model`: of models and layers nobody asks for one, and for a `summary` no library does.
_OF_NETWORKS = OF_LIBRARIES - {"model", "summary"}
_KNOWN = ("tensorflow.", "keras.", "numpy.", "builtins.", f"{api.RUNTIME}.")


def unrun(tree: Tree, resolver: Resolver, unnamed: Unnamed) -> list[cst.FunctionDef]:
    """The functions whose names stand nowhere but in themselves, be it as text, methods that nobody asks for, and those
    of classes that are `unnamed`; in source order. Who imports the file may run them, and then what these do is seen
    where that is given."""
    named = Counter(name.value for several in tree.names.values() for name in several)
    named.update(attribute.attr.value for attribute in tree.all_of(cst.Attribute))
    if any(True for _ in finders(tree)) or any(_asks_a_file(resolver, call) for call in tree.calls):
        return []
    texts = [text.raw_value for text in tree.all_of(cst.SimpleString)]
    named.update(word for text in texts for word in re.findall(r"\w+", text) if len(text) < _LONGEST_TEXT)
    asked_for = _asked_for(tree, texts)
    attributes: dict[str, list[cst.Attribute]] = defaultdict(list)
    for attribute in tree.all_of(cst.Attribute):
        attributes[attribute.attr.value].append(attribute)
    found: list[cst.FunctionDef] = []
    for function in tree.functions:
        name, cls = function.name.value, tree.class_of(function)
        if function.decorators or name.startswith(("_", "test")):
            continue
        if cls is not None:
            is_asked_for = (
                unnamed.looks_names_up
                or name in asked_for
                or not all(is_anothers(resolver, attribute, function) for attribute in attributes[name])
            )
            is_unrun = _is_networks_own(tree, resolver, Class(cls)) and (
                unnamed.is_inside(function) or not is_asked_for
            )
        else:
            own = sum(isinstance(node, cst.Name) and node.value == name for node in nodes_in(function))
            is_unrun = named[name] <= own
        if is_unrun:
            found.append(function)
    return found


def _asked_for(tree: Tree, texts: Iterable[str]) -> set[str]:
    """The names by which the program, or a library, asks for methods, but for attributes."""
    names = set[str]()
    names.update(pattern.key.value for pattern in tree.all_of(cst.MatchKeywordElement))
    names |= {name.value for several in tree.names.values() for name in several if _is_read_in_class(tree, name)}
    return names.union(_OF_NETWORKS, (word for text in texts for word in re.findall(r"\w+", text)))


def _is_read_in_class(tree: Tree, name: cst.Name) -> bool:
    """`alias = method`"""
    return isinstance(tree.scope_of(name).node, cst.ClassDef) and tree.is_read(name)


def _is_networks_own(tree: Tree, resolver: Resolver, cls: Class) -> bool:
    """Whether it is a class of models or layers, of which libraries that are not known have no object."""
    if cls.node.decorators or cls.node.keywords or not cls.node.bases:
        return False
    return not resolver.derives_from(cls, lambda path: not api.is_base_of_networks(path)) and not any(
        isinstance(v, Object) and cls in resolver.lineage(v.of)
        for call in tree.calls
        if any(isinstance(f, External) and not f.path.startswith(_KNOWN) for f in resolver.values(call.func))
        for arg in call.args
        for v in resolver.values(arg.value)
    )


def _asks_a_file(resolver: Resolver, call: cst.Call) -> bool:
    """`getattr(decoders, f"decode_{kind}")`: of a file of the program, or of what is not seen, by a name made up."""
    if not call.args or External("builtins.getattr") not in resolver.values(call.func):
        return False
    owners = resolver.values(call.args[0].value)
    return not owners or any(isinstance(v, File) for v in owners)
