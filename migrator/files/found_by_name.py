"""Whether code may find, or run, what the files of a program define without that it is named there.

A closed world: what is not known to leave names alone may find anything by them. So there are the packages whose
functions and classes keep to what they are given, and the special names that tell of an object alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from migrator.facts.names import packages
from migrator.facts.objects.values import Class, External, File, Object, Result
from migrator.facts.program.syntax import imported_modules
from migrator.facts.program.tree import nodes_in
from migrator.facts.script import Facts

# Of Python's own modules those that look names up, run texts, or go by the frames of what runs; and what else is known,
# and does so.
_FINDING_MODULES = frozenset({
    "IPython", "__main__", "bdb", "builtins", "cProfile", "cmd", "code", "codeop", "ctypes", "doctest", "fire", "gc",
    "imp", "importlib", "inspect", "marshal", "pdb", "pkgutil", "profile", "pydoc", "rlcompleter", "runpy", "symtable",
    "timeit", "trace", "unittest", "zipimport",
})  # fmt: skip
_FINDING_PLACES = ("logging.config", "sys")
_FINDING_FUNCTIONS = frozenset({"__import__", "eval", "exec", "globals"})
# Of whatever object, since none is seen to be another one: tables of modules and of names, and frames.
_FINDING_MEMBERS = frozenset({
    "_current_frames", "_getframe", "cr_frame", "f_builtins", "f_globals", "f_locals", "gi_frame", "modules",
    "setprofile", "settrace", "tb_frame",
})  # fmt: skip
_HARMLESS_SPECIAL = re.compile(
    r"^__(?:a?enter|a?exit|a?iter|a?next|abs|add|all|author|bool|call|class|contains|copy|deepcopy|del|delitem|doc|eq"
    r"|file|float|format|future|ge|getitem|gt|hash|iadd|imul|init|int|isub|le|len|lt|main|matmul|mod|module|mul|name"
    r"|ne|neg|new|post_init|pow|qualname|radd|repr|reversed|rmul|rsub|rtruediv|setitem|str|sub|truediv|version)__$"
)
# Of packages that draw by themselves those that look up no names of what imports them, as their source says.
_KEEPING_TO_THEMSELVES = frozenset({"albumentations", "sentencepiece", "transformers"})
# They tell of what the place holds where they are called, unless they are given something.
_OF_HERE = frozenset({"dir", "locals", "vars"})
_BY_NAME = ("getattr", "setattr")
_TAKING_NAMES = frozenset({"operator.attrgetter", "operator.methodcaller"})
_PATH_OF_NAMES = re.compile(r"^(?:[a-zA-Z]{0,2}['\"]+)?([\w.:]*\w[\w.:]*)['\"]*$")
_PRINTING = frozenset({"builtins.print", "tensorflow.print"})
_OF_PRINTING = frozenset({"end", "flush", "sep", "summarize"})
# They run what the file defines: a function `main`, or tests.
_CALLING_MAIN = frozenset({"main", "run"})
# They are called where a class is derived from another one, and may keep it.
_KEEPING_CLASSES = frozenset({"__init_subclass__", "__mro_entries__", "__prepare__", "__set_name__"})
_WITHOUT_TABLES = re.compile(
    r"^(?:abc|builtins|collections|dataclasses|enum|keras|tensorflow|tf_keras|threading|typing)\."
    r"(?!keras\.(?:saving|utils\.(?:custom|CustomObjectScope)))"
)
# Files that these read may name functions and classes, of which they make objects; Keras's name classes alone.
_OBJECT_FILES = frozenset({"_pickle", "cPickle", "cloudpickle", "dill", "joblib", "pickle", "shelve", "yaml"})
_LOADING = frozenset({"Unpickler", "full_load", "load", "load_all", "loads", "open", "unsafe_load"})
_OF_TABLES = frozenset({"HDFStore", "read_hdf", "read_pickle"})
_MAKING_MODELS = re.compile(
    r"^(?:load_model|from_config|get_registered_object|(?:model_)?from_(?:json|yaml)|\w*deserialize\w*)$"
)


def may_find(code: cst.CSTNode, facts: Facts) -> bool:
    """Whether the code may find what the files define by other names than those that are written."""
    nodes = list(nodes_in(code))
    bases = {node.value for node in nodes if isinstance(node, cst.Attribute)}
    for node in nodes:
        if isinstance(node, (cst.Import, cst.ImportFrom)):
            if _imports_finder(node, facts):
                return True
        elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            if node.name.value in _KEEPING_CLASSES or (isinstance(node, cst.ClassDef) and _is_of_classes(node, facts)):
                return True
        elif isinstance(node, (cst.Attribute, cst.Name)):
            if _is_finder(node, facts) or (node not in bases and _is_table(node, facts)):
                return True
        elif isinstance(node, cst.Call):
            if _runs_all(node) or _asks_by_any_name(node, facts):
                return True
        elif isinstance(node, cst.SimpleString) and _may_be_asked_for(node, facts):
            return True
    return _reads_objects(nodes, facts)


def is_kept_by_none(statement: cst.ClassDef, facts: Facts) -> bool:
    """Whether nothing keeps the class where it is defined: what it comes from is the program's own, or known not to."""
    values = [facts.resolver.values(base.value) for base in statement.bases]
    return not statement.keywords and all(
        several and all(not isinstance(value, External) or _WITHOUT_TABLES.match(value.path) for value in several)
        for several in values
    )


def _imports_finder(node: cst.Import | cst.ImportFrom, facts: Facts) -> bool:
    if facts.joining.is_of_program(node):
        return False
    modules = imported_modules(node)
    if not modules or not all(map(_is_plain, modules)):
        return True
    if not isinstance(node, cst.ImportFrom):
        return any(module in _FINDING_PLACES[:1] for module in modules)
    [module] = modules
    if isinstance(node.names, cst.ImportStar):
        return module.partition(".")[0] in packages.STANDARD_LIBRARY and module in _FINDING_PLACES
    inner = {f"{module}.{alias.name.value}" for alias in node.names if isinstance(alias.name, cst.Name)}
    return not inner.isdisjoint({*_FINDING_PLACES, *(f"sys.{name}" for name in _FINDING_MEMBERS)})


def _is_plain(module: str) -> bool:
    root = module.partition(".")[0]
    if module == "IPython.display":
        return True
    is_known = packages.draws_alike(module) or root in _KEEPING_TO_THEMSELVES
    return root not in _FINDING_MODULES and module != _FINDING_PLACES[0] and is_known


def _is_finder(node: cst.Attribute | cst.Name, facts: Facts) -> bool:
    name = node.attr.value if isinstance(node, cst.Attribute) else node.value
    if name not in _FINDING_FUNCTIONS and _is_special(name):
        return True
    if isinstance(node, cst.Attribute):
        is_imported = any(isinstance(o, (cst.Import, cst.ImportFrom)) for o in facts.tree.ancestors(node))
        return name in _FINDING_MEMBERS and not is_imported
    if _is_of_program(node, facts):
        return False
    if name in _OF_HERE and _is_read(node, facts):
        call = facts.tree.parent[node]
        return not (isinstance(call, cst.Call) and call.func is node and call.args)
    return name in _FINDING_FUNCTIONS and _is_read(node, facts)


def _is_special(name: str) -> bool:
    """`__globals__`, `__subclasses__`"""
    is_special = name.startswith("__") and name.endswith("__") and bool(name.strip("_"))
    return is_special and not _HARMLESS_SPECIAL.match(name)


def _may_be_asked_for(text: cst.SimpleString, facts: Facts) -> bool:
    """`attrgetter("__globals__")`; what a docstring tells is no name."""
    is_special = any(map(_is_special, re.findall(r"\w+", text.raw_value)))
    return is_special and not isinstance(facts.tree.parent.get(text), cst.Expr)


def _is_of_program(name: cst.Name, facts: Facts) -> bool:
    """Whether the function gives the name a value of its own, as in `def walk(dir):`; what may be Python's own then is
    told where it comes from."""
    if name not in facts.tree.parent or any(
        isinstance(owner, (cst.Param, cst.Decorator)) for owner in facts.tree.ancestors(name)
    ):
        return False  # what stands there is evaluated outside of the function
    scope = facts.tree.scope_of(name).lookup(name.value)
    if scope is None or not isinstance(scope.node, (cst.FunctionDef, cst.Lambda)):
        return False  # in a file or a class, where it has none yet it is Python's
    return all(binding.kind in ("param", "assign", "for") for binding in scope.bindings[name.value])


def _is_table(node: cst.BaseExpression, facts: Facts) -> bool:
    """Whether this is a file of the program, or `sys`, as a value: what it holds may then be asked for by any name."""
    if node not in facts.tree.parent or (isinstance(node, cst.Name) and not _is_read(node, facts)):
        return False
    return any(isinstance(value, File) or value == External("sys") for value in facts.resolver.values(node))


def _is_read(name: cst.Name, facts: Facts) -> bool:
    if name not in facts.tree.parent or not facts.tree.is_read(name):
        return False
    return not isinstance(facts.tree.parent[name], (cst.Import, cst.ImportFrom, cst.ImportAlias, cst.AsName))


def _is_of_classes(definition: cst.ClassDef, facts: Facts) -> bool:
    """Whether objects of it are classes, which it may keep."""
    return any(
        value == External("builtins.type") or (isinstance(value, External) and value.path.endswith("Meta"))
        for base in definition.bases
        for value in facts.resolver.values(base.value)
    )


def _runs_all(call: cst.Call) -> bool:
    """Whether the call may run what the file defines that makes it: `app.run()`, `main()` of a library."""
    is_given = any(arg.keyword is None for arg in call.args)
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _CALLING_MAIN and not is_given


def _asks_by_any_name(call: cst.Call, facts: Facts) -> bool:
    """`getattr(step, name)`, where a function or class, or something unseen, tells of the file that defines it."""
    if not _TAKING_NAMES.isdisjoint(facts.resolver.public(call.func) if call.func in facts.tree.parent else ()):
        return not all(isinstance(arg.value, cst.SimpleString) for arg in call.args[:1])
    if not isinstance(call.func, cst.Name) or call.func.value not in _BY_NAME or len(call.args) < 2:
        return False
    if isinstance(call.args[1].value, cst.SimpleString):
        return False
    return not all(isinstance(v, (External, Object, Result)) for v in facts.resolver.values(call.args[0].value))


def makes_models(code: cst.CSTNode) -> bool:
    """Whether the code reads models of Keras, which name classes of the program."""
    imported = (alias.evaluated_name for alias in nodes_in(code) if isinstance(alias, cst.ImportAlias))
    return any(map(_MAKING_MODELS.match, (*names(code), *imported)))


def _reads_objects(nodes: list[cst.CSTNode], facts: Facts) -> bool:
    """Whether the code reads files that may name functions and classes of the program."""
    imported = (module for node in facts.tree.imports for module in imported_modules(node))
    loading = frozenset() if _OBJECT_FILES.isdisjoint(module.partition(".")[0] for module in imported) else _LOADING
    for node in nodes:
        if isinstance(node, cst.ImportAlias):
            if node.evaluated_name in loading | _OF_TABLES:  # from pickle import load
                return True
        elif isinstance(node, cst.Arg):
            if node.keyword is not None and node.keyword.value == "allow_pickle":
                return True
        elif isinstance(node, cst.Call) and len(node.args) > 2 and "numpy.load" in facts.resolver.public(node.func):
            return True
        elif isinstance(node, (cst.Attribute, cst.Name)):
            name = node.attr.value if isinstance(node, cst.Attribute) else node.value
            if name in _OF_TABLES:
                return True
            if name in loading and node in facts.tree.parent and not _reads_plainly(node, facts):
                return True
    return False


def _reads_plainly(node: cst.Attribute | cst.Name, facts: Facts) -> bool:
    """`open`, `json.load`, `yaml.safe_load`; the inner name of an attribute is judged with it."""
    parent = facts.tree.parent[node]
    if (isinstance(parent, cst.Attribute) and parent.attr is node) or (
        isinstance(parent, cst.Arg) and parent.keyword is node
    ):
        return True
    public = facts.resolver.public_alone(node)
    return bool(public) and all(
        name.rpartition(".")[2] not in _LOADING or name.partition(".")[0] not in _OBJECT_FILES for name in public
    )


def _is_list_of_names(node: cst.Assign) -> bool:
    """`__all__ = […]`, which says what others may import by a star, and name then."""
    target = node.targets[0].target
    return len(node.targets) == 1 and isinstance(target, cst.Name) and target.value == "__all__"


def names(*nodes: cst.CSTNode, facts: Facts | None = None) -> Iterator[str]:
    """All names in the code, but those that it only defines or imports as they are, and those in its texts; with
    `facts` none that are known to mean something else than what a file defines. A name with a dot behind it is one of
    which something is asked."""
    queue = list(nodes)
    told: set[cst.CSTNode] = set()
    while queue:
        node = queue.pop()
        if isinstance(node, cst.ImportFrom):
            queue += node.names if not isinstance(node.names, cst.ImportStar) else ()
        elif isinstance(node, cst.ImportAlias):
            imported = (*nodes_in(node.name), *nodes_in(node.asname)) if node.asname is not None else ()
            yield from (name.value for name in imported if isinstance(name, cst.Name))
        elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            queue += [child for child in node.children if child is not node.name]
        elif isinstance(node, cst.Assign) and _is_list_of_names(node):
            continue
        elif isinstance(node, cst.Expr) and isinstance(node.value, (cst.SimpleString, cst.ConcatenatedString)):
            continue  # what a docstring tells
        elif isinstance(node, cst.Param) and facts is not None:
            queue += [child for child in node.children if child is not node.name]
        elif isinstance(node, cst.Arg) and facts is not None:
            queue.append(node.value)
        elif isinstance(node, cst.Attribute) and facts is not None:
            queue.append(node.value)
            if not _is_no_file(node.value, facts):
                yield node.attr.value
        elif isinstance(node, cst.Name):
            if facts is None or not _is_of_program(node, facts):
                yield node.value
        elif isinstance(node, (cst.SimpleString, cst.FormattedStringText)):
            if node not in told:
                yield from _named_in(node.value)
        else:
            if isinstance(node, cst.Call) and facts is not None and _prints(node, facts):
                told.update(text for arg in node.args for text in _texts(arg.value))
            queue += node.children


def _named_in(text: str) -> Iterator[str]:
    """The names in a text, be it run or asked for: `import steps; steps.train()`, `@train(loss)`, `steps:train`. What
    is told in words, or is the path of a file, names nothing."""
    words = re.findall(r"\w+", text)
    if "import" in words:
        yield from words
        return
    yield from re.findall(r"(\w+)\s*\(", text)
    yield from re.findall(r"@(\w+)", text)  # of the place where a text is evaluated, in pandas
    path = _PATH_OF_NAMES.match(text)
    if path is not None:
        *owners, last = re.findall(r"\w+", path[1])
        yield last
        yield from (f"{owner}." for owner in owners)


def _is_no_file(node: cst.BaseExpression, facts: Facts) -> bool:
    """Whether this is seen to be no file of the program, of which an attribute may be what the file defines."""
    values = facts.resolver.values(node) if node in facts.tree.parent else ()
    return bool(values) and all(
        isinstance(value, (Class, Object, Result))
        or (isinstance(value, External) and packages.is_known(value.path.partition(".")[0]))
        for value in values
    )


def _prints(call: cst.Call, facts: Facts) -> bool:
    """Whether the call shows what it is given, and no file gets it."""
    public = facts.resolver.public_alone(call.func) if call.func in facts.tree.parent else []
    keywords = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    return bool(public) and set(public) <= _PRINTING and keywords <= _OF_PRINTING


def _texts(node: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """The texts that are put together to what is printed; not those that something else is given for it."""
    if isinstance(node, cst.SimpleString):
        yield node
    elif isinstance(node, cst.FormattedString):
        yield from (part for part in node.parts if isinstance(part, cst.FormattedStringText))
    elif isinstance(node, (cst.ConcatenatedString, cst.BinaryOperation)):
        yield from _texts(node.left)
        yield from _texts(node.right)
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "format":
        yield from _texts(node.func.value)
