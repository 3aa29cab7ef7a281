"""Which models and layers run by themselves, on weights that they were given at random: read off an abstract run."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.filled import Filled
from migrator.analysis.run import Run
from migrator.analysis.shown import Shown
from migrator.analysis.values import NOTHING, Atom, Instance, Made, Value
from migrator.facts.names import api
from migrator.facts.program.tree import Binding, nodes_in, semantic_children

# Layers that start from random weights. Others of Keras have none, or such as are the same wherever they are made.
_RANDOM_LAYERS = re.compile(
    r"keras\.layers\.(?:\w*Dense|\w*Conv\w*|Embedding|(?:\w*)(?:LSTM|GRU|RNN)\w*|\w*Attention|Bidirectional|"
    r"TimeDistributed|LocallyConnected\w+)$"
)
_TRAINING = frozenset({"gradient", "apply_gradients", "minimize"})
_OF_A_LOSS = ("gradient", "minimize")
_LOSSES = ("target", "loss")  # the keywords
_VARIABLES = ("tensorflow.Variable", "keras.Variable", "keras.backend.variable")
_APPLICATION = re.compile(r"keras\.applications\.")

# They draw each time anew, and have no seed of their own.
_DRAWING = re.compile(
    r"(?:tensorflow\.random\.(?!stateless)|keras\.(?:random|initializers|backend\.random)|tensorflow\.(?:keras\.)?init"
    r"|numpy\.random\.(?!RandomState|default_rng|Generator|seed))"
)
# What is given to these runs no step.
_RUNNING_NOTHING = ("tensorflow.", "keras.", "numpy.", "builtins.", "lockstep.", "tensorflow_model_optimization.")


def standalone(run: Run, sent: Iterable[cst.CSTNode], *, any_made: bool = False) -> set[cst.CSTNode]:
    """The calls that make models and layers which are run on data, are a part of no other, start at random, and
    are not surely given other weights before; but not those of which the results are only shown. And those that are
    never trained, of which the weights are set in others. `sent`: the expressions that make what is sent already, or
    that hold it. `any_made`: whether code that is not followed may run any of them, wherever it finds it."""
    holders: dict[Atom, list[Atom]] = defaultdict(list)
    parts: dict[Atom, list[Atom]] = defaultdict(list)
    for owner, value in run.heap.held():
        # A copy has weights of its own, whatever it was made from.
        is_copy = isinstance(owner, Made) and owner.path in api.COPIES
        for atom in () if is_copy else _atoms(value):
            holders[atom].append(owner)
            parts[owner].append(atom)
    filled, givers = _changed(run)
    kept = {atom for owner, value in run.heap.held() if isinstance(owner, Instance) for atom in _atoms(value)}
    held = _held_by(run, sent, parts, kept)
    run_anywhere = _made(run) if any_made else run.applied | _handed_over(run)
    candidates = (((run_anywhere | _drawn(run)) - run.built_in - filled) | givers) - held
    shown = Shown(run, candidates)
    only_shown = {atom for atom in candidates if shown.only(atom)} if not any_made else set()
    found = set()
    for atom in candidates - only_shown:
        owners = _owners(run, atom, holders)
        if owners - only_shown or (owners and shown.is_inside(atom)) or not _is_random(run, atom, parts, set(held)):
            continue
        if isinstance(atom, (Made, Instance)):
            found.add(atom.site.node)
    return found


def _changed(run: Run) -> tuple[set[Atom], set[Atom]]:
    """The models whose weights are surely set to others altogether before they run first, of no class of the script's
    own, which may have none by then; and those whose weights others get, and which nothing trains or sets."""
    filled: dict[Atom, list[cst.Call]] = defaultdict(list)
    loaded: dict[Atom, list[cst.Call]] = defaultdict(list)
    trained: set[Atom] = set()
    fitted: set[Atom] = set()
    taught: set[Atom] = set()  # is sent as what is trained
    givers: set[Atom] = set()
    for call in run.tree.calls:
        func = call.func
        if not isinstance(func, cst.Attribute):
            continue
        name = func.attr.value
        if name.startswith("assign"):
            owner = _owner_of_weight(run, func.value)
            itself = [n for arg in call.args for n in run.tree.names_in(arg.value) if _same_name(n, func.value)]
            is_mixed = bool(itself) or name != "assign" or any(_may_hold(run, arg.value, owner) for arg in call.args)
            if owner:  # `for old, new in zip(model.weights, fresh.weights): old.assign(0.5 * old + 0.1 * new)`
                asked = {atom for arg in call.args for n in _behind(run, arg.value) for atom in _seen(run, n)}
                givers |= asked - owner
        elif name == "set_weights" and call.args:
            owner = _seen(run, func.value)
            asked = {atom for node in _behind(run, call.args[0].value) for atom in _seen(run, node)}
            is_mixed = not asked.isdisjoint(owner) or _may_hold(run, call.args[0].value, owner)
            givers |= asked - owner
        else:
            owner = _seen(run, func.value) if name in ("load_weights", "fit", "compile") else set()
            trained.update(owner)
            fitted.update(owner if name == "fit" else ())
            taught.update(_trained_by(run, call) if name in _TRAINING else owner if name == "fit" else ())
            for atom in owner if name == "load_weights" else ():
                loaded[atom].append(call)
            continue
        for atom in owner if not is_mixed else ():
            filled[atom].append(call)
    before = Filled(run)
    late: set[Atom] = set()
    for atom in [*filled, *loaded]:
        is_own_class = isinstance(atom, Instance) and any(map(api.makes_model, _bases(run, atom)))
        is_built_late = is_own_class and atom in filled and atom not in fitted
        if is_built_late or (atom not in taught and not before.before_use(atom, [*filled[atom], *loaded[atom]])):
            late.add(atom)
    givers = {atom for atom in givers if any(map(_holds_weights, _bases(run, atom)))}
    return {*filled, *loaded} - late, givers - taught - trained - filled.keys()


def _made(run: Run) -> set[Atom]:
    """All models, layers and modules that the program makes."""
    made = (only for node, value in run.seen.items() if isinstance(node, cst.Call) for only in value.objects)
    return {atom for atom in made if any(map(_holds_weights, _bases(run, atom)))}


def _handed_over(run: Run) -> set[Atom]:
    """The models that are given to what is not followed, and may be run there: `Thread(target=run, args=(model,))`."""
    found: set[Atom] = set()
    for node, value in run.seen.items():
        models = [atom for atom in value if any(map(api.makes_model, _bases(run, atom)))] if value.objects else []
        owner = run.tree.parent.get(node) if models else None
        while isinstance(owner, (cst.Element, cst.DictElement, cst.List, cst.Tuple, cst.Dict)):
            owner = run.tree.parent[owner]
        call = run.tree.parent[owner] if isinstance(owner, cst.Arg) else None
        only = run.seen.get(call.func, NOTHING).only if isinstance(call, cst.Call) else None
        if isinstance(only, v.External) and not only.path.startswith(_RUNNING_NOTHING):
            found.update(models)
    return found


def _drawn(run: Run) -> set[Atom]:
    """The variables that begin with random numbers."""
    found: set[Atom] = set()
    for node, value in run.seen.items():
        only = value.only
        if not isinstance(node, cst.Call) or not isinstance(only, Made):
            continue
        if only.site.node is node and only.path in _VARIABLES and any(_draws(run, arg.value) for arg in node.args):
            found.add(only)
    return found


def _draws(run: Run, made: cst.CSTNode) -> bool:
    """Whether random numbers are drawn where the value is made, or what a name in it is given."""
    parts = list(nodes_in(made))
    for name in [part for part in parts if isinstance(part, cst.Name)]:
        scope = run.tree.scope_of(name).lookup(name.value)
        bindings = scope.bindings[name.value] if scope is not None else ()
        parts += [n for b in bindings if b.kind == "assign" and b.value is not None for n in nodes_in(b.value)]
    called = [run.seen.get(part.func, NOTHING).only for part in parts if isinstance(part, cst.Call)]
    return any(isinstance(one, v.External) and _DRAWING.match(one.path) for one in called)


def _held_by(
    run: Run, nodes: Iterable[cst.CSTNode], parts: dict[Atom, list[Atom]], kept: Collection[Atom] = ()
) -> set[Atom]:
    """What the expressions may be, with all that is in it; but not what a call gives that tells one by one what an
    attribute has at the time (`self.net = make(); return self.net`): any of these `kept`, of which it is the last."""
    queue = []
    for node in nodes:
        atoms = list(_atoms(run.seen[node])) if node in run.seen else []
        sites = [atom.site.node for atom in atoms if isinstance(atom, (Made, Instance)) and atom in kept]
        is_any = isinstance(node, cst.Call) and len(set(sites)) < len(sites) == len(atoms)
        queue += atoms if not is_any else []
    found: set[Atom] = set()
    while queue:
        atom = queue.pop()
        if atom not in found:
            found.add(atom)
            queue += parts[atom]
    return found


def _trained_by(run: Run, call: cst.Call) -> Iterator[Atom]:
    """The models whose weights the gradients are of, or are applied to; but not those that their loss is made with."""
    for node in _beside_losses(call):
        bound = _bound(run, node) if isinstance(node, cst.Name) else ()
        for each in (node, *(n for value in bound for n in _beside_losses(value) if isinstance(n, cst.Name))):
            yield from _seen(run, each.value if isinstance(each, cst.Attribute) else each)


def _beside_losses(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What stands in the expression, without what gradients are taken of: the model of `tape.gradient(f(model), w)`."""
    method = node.func.attr.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else ""
    if isinstance(node, cst.Call) and method in _OF_A_LOSS and len(node.args) > 1:
        for i, arg in enumerate(node.args):
            keyword = arg.keyword.value if arg.keyword is not None else ""
            if keyword not in _LOSSES and (keyword or i > 0):
                yield from _beside_losses(arg.value)
        return
    yield node
    for child in semantic_children(node):
        yield from _beside_losses(child)


def _owner_of_weight(run: Run, node: cst.BaseExpression) -> set[Atom]:
    """The models of which a name stands for one weight after the other: `for w, s in zip(teacher.weights, …)`."""
    if isinstance(node, cst.Subscript):
        return _seen(run, node.value.value) if isinstance(node.value, cst.Attribute) else set()
    scope = run.tree.scope_of(node).lookup(node.value) if isinstance(node, cst.Name) else None
    found: set[Atom] = set()
    for binding in scope.bindings[node.value] if scope is not None and isinstance(node, cst.Name) else ():
        given = _given(run, binding)
        if isinstance(given, cst.Attribute):
            found |= _seen(run, given.value)
    return found


def _given(run: Run, binding: Binding) -> cst.CSTNode | None:
    """What the name gets, or gets the items of: `w` those of `weights` in `for v, w in zip(model.weights, weights)`."""
    given, path = binding.value, binding.path
    while binding.kind == "for" and isinstance(given, cst.Call) and path:
        paired = {"builtins.zip": path[0], "builtins.enumerate": path[0] - 1}
        only = run.seen.get(given.func, NOTHING).only
        place = paired.get(only.path, -1) if isinstance(only, v.External) else -1
        if not 0 <= place < len(given.args):
            break
        given, path = given.args[place].value, path[1:]
    return given


def _may_hold(run: Run, node: cst.CSTNode, models: set[Atom]) -> bool:
    """Whether weights of one of the models may come into the value: also through names, however many, and in what a
    function of the script's gives or is given, `functools.reduce(step, batches, weights)`."""
    queue, seen = [node], {node}
    while queue:
        for name in run.tree.names_in(queue.pop()):
            asked = _seen(run, name)
            if not asked.isdisjoint(models):
                return True
            scope = run.tree.scope_of(name).lookup(name.value) if not asked else None
            for binding in scope.bindings[name.value] if scope is not None else ():
                if binding.kind == "param":  # data, of which it is not seen what they are of
                    return True
                given = binding.node if isinstance(binding.node, cst.FunctionDef) else _given(run, binding)
                if _is_empty(given):  # whatever fills it
                    return True
                if given is not None and given not in seen:
                    seen.add(given)
                    queue.append(given)
    return False


def _is_empty(given: cst.CSTNode | None) -> bool:
    """Whether it is a list or dictionary without anything in it."""
    if isinstance(given, cst.Call):
        return not given.args
    return isinstance(given, (cst.List, cst.Dict)) and not given.elements


def _same_name(name: cst.Name, node: cst.BaseExpression) -> bool:
    first = node.value.value if isinstance(node, cst.Subscript) and isinstance(node.value, cst.Attribute) else node
    return isinstance(first, cst.Name) and first.value == name.value


def _behind(run: Run, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The names and attributes in an expression, and in what a name in it was given."""
    for name in run.tree.names_in(node):
        yield name
        for value in _bound(run, name):
            yield from run.tree.names_in(value)


def _bound(run: Run, name: cst.Name) -> Iterator[cst.BaseExpression]:
    """What the name was given."""
    scope = run.tree.scope_of(name).lookup(name.value)
    for binding in scope.bindings[name.value] if scope is not None else ():
        if binding.kind in ("assign", "for") and isinstance(binding.value, cst.BaseExpression):
            yield binding.value


def _seen(run: Run, node: cst.CSTNode) -> set[Atom]:
    value = run.seen.get(node)
    return {atom for atom in value if isinstance(atom, (Made, Instance))} if value is not None else set()


def _atoms(value: Value) -> Iterator[Atom]:
    """What the value may be, and what stands in its tuples."""
    for atom in value:
        yield atom
        if isinstance(atom, v.Tuple):
            for item in atom.items:
                yield from _atoms(item)


def _owners(run: Run, atom: Atom, holders: dict[Atom, list[Atom]]) -> set[Atom]:
    """The models that hold it, in an attribute, or in a list or dictionary that they have."""
    queue, seen = [*holders[atom]], {atom}
    owners: set[Atom] = set()
    while queue:
        owner = queue.pop()
        if owner in seen:
            continue
        seen.add(owner)
        if isinstance(owner, v.Container):
            queue += holders[owner]
        elif any(_is_broadcast(run, owner, base) for base in _bases(run, owner)):
            owners.add(owner)
    return owners


def _is_broadcast(run: Run, owner: Atom, base: str) -> bool:
    """Whether what the owner holds is sent with it: a module may hold networks that are trained one by one."""
    return (
        api.makes_model(base)
        or api.is_layer_class(base)
        or (api.is_module_class(base) and (owner in run.applied or owner in run.known_weights))
    )


def _is_random(run: Run, atom: Atom, parts: dict[Atom, list[Atom]], seen: set[Atom]) -> bool:
    """Whether it has weights that are drawn where it is made."""
    if atom in seen:
        return False
    seen.add(atom)
    if isinstance(atom, Made):
        if _RANDOM_LAYERS.match(atom.path) or atom.path in _VARIABLES:
            return True
        if _APPLICATION.match(atom.path):
            weights = run.heap.load(atom, ("argument", "weights"))
            return weights.is_none
        if atom.path in api.LOAD_MODEL:
            return False
        if api.makes_model(atom.path) and atom.path not in api.SEQUENTIAL:
            return True
    if isinstance(atom, Instance) and not any(_holds_weights(base) for base in _bases(run, atom)):
        return False
    return any(_is_random(run, part, parts, seen) for part in _parts(atom, parts))


def _parts(atom: Atom, parts: dict[Atom, list[Atom]]) -> Iterator[Atom]:
    for part in parts[atom]:
        yield part
        if isinstance(part, v.Container):
            yield from parts[part]


def _bases(run: Run, atom: Atom) -> list[str]:
    if isinstance(atom, Made):
        return [atom.path]
    return run.classes.external_bases(atom.cls) if isinstance(atom, Instance) else []


def _holds_weights(path: str) -> bool:
    return api.makes_model(path) or api.is_layer_class(path) or api.is_module_class(path)
