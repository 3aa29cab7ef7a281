"""What a script writes: checkpoints, models, arrays, plots, summaries, and where it reads them again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.files.paths import Paths
from migrator.facts.files.written_rows import WrittenRows
from migrator.facts.names import api
from migrator.facts.objects.kinds import Kinds, origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import (
    Class,
    Element,
    External,
    Function,
    Member,
    Object,
    Result,
    Value,
    calls,
    is_call_of,
)
from migrator.facts.ports.ranks import Ranks
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Statement, Tree
from migrator.records import dataclass

_MODEL_WRITERS = frozenset({"save", "save_weights", "export", "save_model"})
_MODEL_READERS = frozenset({"load_weights"})
_CHECKPOINTS = frozenset({"tensorflow.train.Checkpoint", "tensorflow.train.CheckpointManager"})
_CHECKPOINT_WRITERS = frozenset({"save", "write"})
_CHECKPOINT_READERS = frozenset({"restore", "read", "restore_or_initialize"})
_WRITING_FUNCTIONS = re.compile(
    r"^(?:numpy\.(?:save|savez|savez_compressed|savetxt)|matplotlib\.(?:pyplot|pylab|image)\.(?:savefig|imsave)"
    r"|tensorflow\.saved_model\.save|keras\.(?:models|saving)\.save_model|keras\.(?:utils|preprocessing\.image)\.save_img"
    r"|tensorflow\.data\.(?:Dataset|experimental)\.save"
    r"|keras\.utils\.plot_model|joblib\.dump|cv2\.imwrite|tensorflow\.io\.(?:write_file|write_graph)"
    r"|imageio\.(?:v2\.|v3\.)?(?:imwrite|imsave|mimwrite|mimsave|volwrite|volsave)|skimage\.io\.imsave"
    r"|scipy\.(?:io\.(?:savemat|mmwrite|wavfile\.write)|misc\.imsave|sparse\.save_npz)|tifffile\.(?:imwrite|imsave)"
    r"|soundfile\.write|librosa\.output\.write_wav|nibabel\.save|SimpleITK\.WriteImage|sklearn\.externals\.joblib\.dump"
    r"|tensorflow\.(?:train|compat\.v1\.train)\.write_graph"
    r"|shutil\.(?:rmtree|copy|copyfile|move)|os\.(?:remove|rename|unlink|rmdir|replace)|matplotlib\.pyplot\.show"
    r"|tensorflow\.io\.gfile\.(?:rmtree|remove|rename|copy)"
    r"|tensorflow\.gfile\.(?:DeleteRecursively|Remove|Rename|Copy))$"
)
# Writers whose path is not their first argument, or not that alone.
_PATHS_OF = {
    re.compile(
        r"^(?:shutil\.(?:copy|copyfile|move)|os\.(?:rename|replace)|tensorflow\.io\.gfile\.(?:rename|copy)"
        r"|tensorflow\.gfile\.(?:Rename|Copy))$"
    ): slice(0, 2),
    re.compile(
        r"^(?:tensorflow\.saved_model\.save|keras\.(?:models|saving)\.save_model|joblib\.dump|keras\.utils\.plot_model"
        r"|tensorflow\.data\.(?:Dataset|experimental)\.save|sklearn\.externals\.joblib\.dump|nibabel\.save|SimpleITK\.WriteImage|tensorflow\.(?:\w+\.)*write_graph)$"
    ): slice(1, 2),
}
_READING_FUNCTIONS = re.compile(
    r"^(?:numpy\.(?:load|loadtxt)|keras\.(?:models|saving)\.load_model|tensorflow\.saved_model\.load|joblib\.load"
    r"|tensorflow\.data\.(?:Dataset|experimental)\.load|tensorflow\.train\.load_checkpoint|tensorflow\.lite\.TFLiteConverter\.from_saved_model"
    r"|keras\.(?:utils|preprocessing)\.\w+_dataset_from_directory|tensorflow\.data\.(?:Dataset\.list_files|\w+Dataset)"
    r"|glob\.i?glob|os\.(?:listdir|walk|scandir)|tensorflow\.io\.gfile\.(?:listdir|walk|glob)"
    r"|tensorflow\.gfile\.(?:ListDirectory|Walk|Glob)|pandas\.read_\w+|PIL\.Image\.open|cv2\.imread"
    r"|imageio\.(?:v2\.|v3\.)?(?:imread|mimread)|matplotlib\.(?:pyplot|image)\.imread"
    r"|keras\.(?:utils|preprocessing\.image)\.load_img|tensorflow\.io\.read_file)$"
)
_LOOKING = re.compile(
    r"^(?:builtins\.open|os\.path\.(?:exists|isfile|getsize|getmtime)|os\.stat|tensorflow\.io\.gfile\.(?:GFile|exists)"
    r"|tensorflow\.gfile\.(?:GFile|FastGFile|Open|Exists)"
    r"|shelve\.open|zipfile\.ZipFile|tarfile\.open|h5py\.File)$"
)
# Files that are open for writing in some modes, and those that always are.
_FILES = re.compile(
    r"^(?:builtins\.open|io\.open|codecs\.open|gzip\.(?:open|GzipFile)|bz2\.(?:open|BZ2File)|lzma\.(?:open|LZMAFile)"
    r"|tensorflow\.io\.gfile\.GFile|tensorflow\.gfile\.(?:GFile|FastGFile|Open)|h5py\.File|zipfile\.ZipFile"
    r"|tarfile\.(?:open|TarFile))$"
)
_WRITERS = frozenset({
    "tensorflow.io.TFRecordWriter", "tensorflow.python_io.TFRecordWriter", "imageio.get_writer",
    "imageio.v2.get_writer", "cv2.VideoWriter", "pandas.ExcelWriter", "matplotlib.backends.backend_pdf.PdfPages",
})  # fmt: skip
_LISTING = re.compile(
    r"^(?:glob\.i?glob|os\.(?:listdir|walk|scandir)|tensorflow\.io\.gfile\.(?:listdir|walk|glob)"
    r"|tensorflow\.gfile\.(?:ListDirectory|Walk|Glob))$"
)
_ASKING = re.compile(
    r"^(?:os\.path\.(?:exists|isdir|isfile)|tensorflow\.io\.gfile\.(?:exists|isdir)"
    r"|tensorflow\.gfile\.(?:Exists|IsDirectory))$"
)
_FOLDERS = frozenset({"os.makedirs", "os.mkdir", "tensorflow.io.gfile.mkdir", "tensorflow.gfile.MkDir"})
# Calls that fetch or unpack what all workers read afterwards.
_FETCHING = re.compile(
    r"^(?:urllib\.request\.urlretrieve|shutil\.unpack_archive|wget\.download|gdown\.download\w*|os\.system"
    r"|subprocess\.(?:run|call|check_call|check_output)|nltk\.download|kaggle\..*)$"
)
_COMMANDS = re.compile(r"^subprocess\.(?:run|call|check_call|check_output)$")
# Programs that print what stands in files, the same wherever they run.
_READING_PROGRAMS = frozenset({"cat", "cut", "grep", "head", "ls", "md5sum", "sha256sum", "tail", "wc"})
_UNPACKING = frozenset({"extractall", "extract"})
_ARCHIVES = ("zipfile.", "tarfile.")
SUMMARY_WRITER = "tensorflow.summary.create_file_writer"
_PICTURES = ("PIL.", "keras.utils.array_to_img", "keras.preprocessing.image.array_to_img")
_PATH_WRITERS = frozenset({"write_text", "write_bytes", "unlink", "rmdir", "rename"})
_PATH_LISTERS = frozenset({"glob", "rglob", "iterdir"})
_PATH_ASKERS = frozenset({"exists", "is_file", "is_dir"})
_PATH_READERS = frozenset({"read_text", "read_bytes"}) | _PATH_LISTERS
_PATH_METHODS = _PATH_WRITERS | _PATH_READERS | {"open"}
_TABLE_WRITERS = frozenset({"to_csv", "to_json", "to_pickle", "to_excel", "to_parquet", "to_hdf", "to_feather"})
_MEMORY = ("io.BytesIO", "io.StringIO")
# They put files aside and open others in their place.
_CHANGING_FILES = frozenset({
    f"logging.handlers.{name}" for name in ("RotatingFileHandler", "TimedRotatingFileHandler", "WatchedFileHandler")
})  # fmt: skip
_LOG_FILES = _CHANGING_FILES | {"logging.FileHandler"}
_FIGURES = re.compile(r"^matplotlib\.pyplot\.(?:figure|gcf|subplots)$")


# Files that may be os.devnull, by their path: what is written to that is lost, and nothing else happens.
_SINKS = re.compile(
    r"^(?:builtins\.open|io\.open|codecs\.open|gzip\.open|bz2\.open|lzma\.open|logging\.(?:FileHandler|basicConfig)"
    r"|tensorflow\.(?:io|python_io)\.TFRecordWriter|tensorflow\.io\.gfile\.GFile"
    r"|tensorflow\.gfile\.(?:GFile|FastGFile|Open))$"
)
_PATH_NAMES = ("file", "filename", "path", "name")
_WRITING_METHODS = frozenset({
    "write", "writelines", "flush", "close", "setLevel", "setFormatter", "addFilter", "removeFilter",
})  # fmt: skip


@dataclass(frozen=True, eq=False)
class Write:
    """A statement that writes files, or several in a row: what opens a file, writes to it, and closes it."""

    node: cst.CSTNode
    statement: Statement
    is_with: bool = False
    following: tuple[Statement, ...] = ()

    @property
    def statements(self) -> tuple[Statement, ...]:
        return (self.statement, *self.following)


class Files:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, ranks: Ranks) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.ranks = ranks
        self._names = Paths(tree, resolver)

    @cached_property
    def writes(self) -> list[Write]:
        """The places that write files, in source order, a `with open(…, "w")` as a whole."""
        found: dict[cst.CSTNode, Write] = {}
        rows = WrittenRows(self.tree, self.resolver, self.kinds, self.is_opening)
        in_rows: set[Statement] = set()
        for call in self.tree.calls:
            if self.is_opening(call) and self.tree.statement_of(call) not in in_rows:
                with_ = self._with_around(call)
                row = rows.row(call) if with_ is None else ()
                if row:
                    in_rows |= set(row)
                    found.setdefault(call, Write(call, row[0], following=row[1:]))
                elif with_ is not None:
                    found.setdefault(with_, Write(call, with_, is_with=True))
                elif isinstance(self.tree.parent.get(call), cst.Arg) or self._is_used_at_once(call):
                    found.setdefault(call, Write(call, self.tree.statement_of(call)))
            elif self._is_write(call) or call in self.fetches:
                found.setdefault(call, Write(call, self.tree.statement_of(call)))
        return sorted(found.values(), key=lambda w: self.tree.order[w.node])

    def tells_its_path(self, node: cst.CSTNode) -> bool:
        """Whether this is a call that writes a checkpoint, in any case, and returns its path."""
        func = node.func if isinstance(node, cst.Call) else None
        if not isinstance(func, cst.Attribute) or func.attr.value not in _CHECKPOINT_WRITERS:
            return False
        owners = self.resolver.values(func.value)
        return bool(owners) and all(
            isinstance(owner, Result)
            and is_call_of(owner, *_CHECKPOINTS)
            and argument(owner.call, "checkpoint_interval") is None  # by which a manager passes over some
            for owner in owners
        )

    @cached_property
    def fetches(self) -> set[cst.Call]:
        """Calls that download files, unpack them, or run a command that may."""
        found = set()
        for call in self.tree.calls:
            paths = [v.path for v in self.resolver.values(call.func) if isinstance(v, External)]
            name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
            owners = self.resolver.values(call.func.value) if isinstance(call.func, cst.Attribute) else ()
            unpacks = name in _UNPACKING and any(origin(v).startswith(_ARCHIVES) for v in owners)
            if unpacks or (any(map(_FETCHING.match, paths)) and not self._only_reads(call)):
                found.add(call)
        return found

    def _only_reads(self, call: cst.Call) -> bool:
        """Whether it runs a program that only reads: `subprocess.check_output(["wc", "-l", path])`."""
        if not any(isinstance(v, External) and _COMMANDS.match(v.path) for v in self.resolver.values(call.func)):
            return False
        command = argument(call, "args", 0)
        words = command.value.elements if command is not None and isinstance(command.value, cst.List) else ()
        program = words[0].value if words else None
        is_reading = isinstance(program, cst.SimpleString) and program.evaluated_value in _READING_PROGRAMS
        return is_reading and argument(call, "shell") is None and argument(call, "stdout") is None

    @cached_property
    def cached_downloads(self) -> list[cst.Call]:
        """Downloads that are only looked up where the file is there already: Keras's `get_file`."""
        return [
            call
            for call in self.tree.calls
            if any(
                isinstance(v, External) and v.path in ("keras.utils.get_file", "keras.utils.data_utils.get_file")
                for v in self.resolver.values(call.func)
            )
        ]

    def _is_used_at_once(self, call: cst.Call) -> bool:
        """`open(path, "w").close()`, `open(path, "w").write(text)`: a statement of its own."""
        method = self.tree.parent.get(call)
        used = self.tree.parent.get(method) if isinstance(method, cst.Attribute) else None
        return isinstance(used, cst.Call) and isinstance(self.tree.parent.get(used), cst.Expr)

    def told_again(self) -> Iterator[tuple[cst.CSTNode, cst.Call]]:
        """What is written into a file, or names it, with the calls that may read it afterwards."""
        for write in self.writes:
            paths = [path for c in self._calls_of(write) for path in self.paths(c, most=2)]
            reads = [r for r in self.looks if self._may_read(r, write, paths)]
            for call in self.tree.calls if reads else ():
                is_there = any(self.tree.contains(statement, call) for statement in write.statements)
                if is_there and not self._is_given(call):
                    yield from ((arg.value, read) for arg in call.args for read in reads if read is not call)
        for opening in self.opened:
            write = Write(opening, self.tree.statement_of(opening))
            reads = [r for r in self.looks if self._may_read(r, write, self.paths(opening))]
            for call in self._written_by(opening) if reads else ():
                yield from ((arg.value, read) for arg in call.args for read in reads if read is not call)

    def _is_given(self, call: cst.Call) -> bool:
        """Whether another call is given what this one returns, and with it what this one is given."""
        return isinstance(self.tree.parent.get(call), cst.Arg)

    def _may_read(self, read: cst.Call, write: Write, written: list[cst.BaseExpression]) -> bool:
        """Whether the call reads what was written: by the same text, from a list of files, or further down by a path
        that only the run tells."""
        paths = self.paths(read)
        if any(self._names.may_be_same(path, other) for path in paths for other in written):
            return True
        if all(isinstance(path, cst.SimpleString) for path in (*paths, *written)) and not self.lists(read):
            return False
        same = self.tree.function_of(read) is self.tree.function_of(write.node)
        return self._may_follow(read, write.node) if same else self.lists(read)

    def asks(self, node: cst.CSTNode) -> bool:
        """Whether something in the node asks if a file is there, or which there are."""
        return bool(self.asking_in(node)) or any(self.lists(c) for c in self.tree.calls if self.tree.contains(node, c))

    def _asks(self, call: cst.Call) -> bool:
        paths = [v.path for v in self.resolver.values(call.func) if isinstance(v, External)]
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        return any(map(_ASKING.match, paths)) or (name in _PATH_ASKERS and self.is_path(call))

    def asking_in(self, node: cst.CSTNode) -> list[cst.Call]:
        """The calls in the node that ask whether a file is there."""
        return [c for c in self.tree.calls if self.tree.contains(node, c) and self._asks(c)]

    def lists(self, read: cst.Call) -> bool:
        """Whether the call tells the names of files."""
        paths = [v.path for v in self.resolver.values(read.func) if isinstance(v, External)]
        name = read.func.attr.value if isinstance(read.func, cst.Attribute) else ""
        return any(map(_LISTING.match, paths)) or name in _PATH_LISTERS

    @cached_property
    def folders(self) -> list[cst.Call]:
        """Calls that make a folder, and fail where it is there already, if they are not told otherwise."""
        found = []
        for call in self.tree.calls:
            paths = {v.path for v in self.resolver.values(call.func) if isinstance(v, External)}
            is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value == "mkdir" and self.is_path(call)
            if is_method or paths & _FOLDERS:
                found.append(call)
        return found

    def is_shown(self, call: cst.CSTNode) -> bool:
        """Whether the call shows a window: no file is made."""
        return isinstance(call, cst.Call) and any(
            isinstance(v, External) and v.path == "matplotlib.pyplot.show" for v in self.resolver.values(call.func)
        )

    def _may_follow(self, later: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether the one may run after the other in their function: it stands below, or in a loop with it."""
        loops = set(self.tree.loops_around(node))
        return self.tree.order[later] > self.tree.order[node] or any(
            loop in loops for loop in self.tree.loops_around(later)
        )

    def paths(self, call: cst.Call, most: int = 1) -> list[cst.BaseExpression]:
        """The path that a call is of: its first argument, or what its method is one of (`Path("a.txt").read_text()`);
        of calls that are not known, with `most`, one of the first arguments. Of copies and new names both paths."""
        func = call.func
        is_method = isinstance(func, cst.Attribute) and func.attr.value in _PATH_METHODS and self.is_path(call)
        if not is_method:
            for value in self.resolver.values(func):
                if isinstance(value, Member) and calls(value.owner) == "tensorflow.train.CheckpointManager":
                    return []  # it is given a number
                for writer, places in _PATHS_OF.items():
                    if isinstance(value, External) and writer.match(value.path):
                        return [arg.value for arg in call.args[places]]
            return [arg.value for arg in call.args[:most]]
        owner = cst.ensure_type(func, cst.Attribute).value
        made = isinstance(owner, cst.Call) and len(owner.args) == 1
        return [cst.ensure_type(owner, cst.Call).args[0].value] if made else [owner]

    def _calls_of(self, write: Write) -> Iterator[cst.Call]:
        """The calls of the statement that may write, but not those that only put a path together."""
        calls = (c for c in self.tree.calls if self.tree.contains(write.node, c) and (c is write.node or write.is_with))
        return (c for c in calls if c is write.node or not self._makes_path(c))

    def _makes_path(self, call: cst.Call) -> bool:
        values = self.resolver.values(call.func)
        return bool(values) and all(isinstance(v, External) and v.path.startswith("os.path.") for v in values)

    @cached_property
    def looks(self) -> list[cst.Call]:
        """Calls that read files or ask whether they are there."""
        return [
            call
            for call in self.tree.calls
            if call in self.reads
            or (
                any(isinstance(v, External) and _LOOKING.match(v.path) for v in self.resolver.values(call.func))
                and not self.is_opening(call)
            )
        ]

    @cached_property
    def opened(self) -> list[cst.Call]:
        """Files that are opened for writing outside of a `with`, and log files: they stay open, and no one statement
        writes them."""
        found = []
        for call in self.tree.calls:
            paths = {v.path for v in self.resolver.values(call.func) if isinstance(v, External)}
            logs = paths & _LOG_FILES or ("logging.basicConfig" in paths and argument(call, "filename") is not None)
            opens = self.is_opening(call) and self._with_around(call) is None and not self._is_in_write(call)
            if opens or (logs and not self._is_parted(call)):
                found.append(call)
        return found

    def path_of_sink(self, call: cst.Call) -> cst.BaseExpression | None:
        """The path of a file that is opened, where the script only writes to the file: another process may write to
        `os.devnull` instead."""
        values = self.resolver.values(call.func)
        if not values or not all(isinstance(v, External) and _SINKS.match(v.path) for v in values):
            return None
        mode = argument(call, "mode", 1)
        text = mode.value.evaluated_value if mode is not None and isinstance(mode.value, cst.SimpleString) else ""
        if set(str(text)) & {"+", "x"} or not self._is_only_written(call):
            return None
        is_file = not any(isinstance(v, External) and v.path.startswith("logging.basic") for v in values)
        given = (argument(call, name, 0 if is_file else None) for name in _PATH_NAMES)
        return next((arg.value for arg in given if arg is not None), None)

    def changes_files(self, call: cst.Call) -> bool:
        """Whether it makes a handler of logs, of which nothing is asked, that opens its file anew by itself."""
        values = self.resolver.values(call.func)
        is_handler = bool(values) and all(isinstance(v, External) and v.path in _CHANGING_FILES for v in values)
        return is_handler and self._is_only_written(call)

    def _is_parted(self, call: cst.Call) -> bool:
        """Whether the rank decides which file the call opens: each worker has one of its own then, or os.devnull."""
        paths = (arg.value for arg in call.args if isinstance(arg.value, cst.IfExp))
        return any(self.ranks.depends_on_rank(path.test) for path in paths)

    def _is_only_written(self, opening: cst.Call) -> bool:
        """Whether nothing is asked of the file: not where it stands in it, nor its name."""
        return all(
            attribute.attr.value in _WRITING_METHODS or isinstance(self.tree.parent[attribute], cst.AssignTarget)
            for attribute in self._attributes
            if self._is_made_by(attribute.value, opening)
        )

    def _written_by(self, opening: cst.Call) -> list[cst.Call]:
        """The calls that are given the open file, or what is made of it (`csv.writer(file)`), and their methods."""
        found = [opening]
        for made in found:
            for call in self.tree.calls:
                owner = [call.func.value] if isinstance(call.func, cst.Attribute) else []
                given = (*owner, *(arg.value for arg in call.args))
                if call not in found and any(self._is_made_by(node, made) for node in given):
                    found.append(call)
        return found[1:]

    def _is_made_by(self, node: cst.BaseExpression, call: cst.Call) -> bool:
        return any(isinstance(v, Result) and v.call is call for v in self.resolver.values(node))

    def closing(self, opening: cst.Call) -> cst.Call | None:
        """The only call that closes the file."""
        found = [
            attribute
            for attribute in self._attributes
            if attribute.attr.value == "close" and self._is_made_by(attribute.value, opening)
        ]
        call = self.tree.parent.get(found[0]) if len(found) == 1 else None
        return call if isinstance(call, cst.Call) else None

    @cached_property
    def _attributes(self) -> list[cst.Attribute]:
        return self.tree.all_of(cst.Attribute)

    def _is_in_write(self, call: cst.Call) -> bool:
        """`pickle.dump(history, open(path, "wb"))`: the statement as a whole is guarded."""
        return any(self.tree.contains(statement, call) for w in self.writes for statement in w.statements)

    @cached_property
    def summary_writers(self) -> list[cst.Call]:
        return [
            call
            for call in self.tree.calls
            if any(isinstance(v, External) and v.path == SUMMARY_WRITER for v in self.resolver.values(call.func))
        ]

    @cached_property
    def reads(self) -> list[cst.Call]:
        """Calls that read what a script of this kind writes."""
        return [call for call in self.tree.calls if self._is_read(call)]

    @cached_property
    def restores(self) -> list[cst.Call]:
        """Calls that load weights into objects that exist already."""
        found = []
        for call in self.tree.calls:
            if isinstance(call.func, cst.Attribute):
                for owner in self.resolver.values(call.func.value):
                    if call.func.attr.value in _MODEL_READERS and self.kinds.has_weights(owner):
                        found.append(call)
                        break
                    if call.func.attr.value in _CHECKPOINT_READERS and is_call_of(owner, *_CHECKPOINTS):
                        found.append(call)
                        break
        return found

    @cached_property
    def copies(self) -> list[cst.Call]:
        """Calls that put weights that the script has in memory into a model."""
        return [
            call
            for call in self.tree.calls
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "set_weights"
            and call.args
            and any(self.kinds.has_weights(owner) for owner in self.resolver.values(call.func.value))
        ]

    def restored(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """The expressions for the models that a restoring call fills."""
        func = call.func
        if not isinstance(func, cst.Attribute):
            return
        if func.attr.value in (*_MODEL_READERS, "set_weights"):
            yield func.value
            return
        for owner in self.resolver.values(func.value):
            yield from self._checkpointed(owner)

    def _checkpointed(self, owner: Value) -> Iterator[cst.BaseExpression]:
        if not isinstance(owner, Result):
            return
        if is_call_of(owner, "tensorflow.train.CheckpointManager"):
            checkpoint = argument(owner.call, "checkpoint", 0)
            if checkpoint is not None:
                for inner in self.resolver.values(checkpoint.value):
                    yield from self._checkpointed(inner)
        elif is_call_of(owner, "tensorflow.train.Checkpoint"):
            for arg in owner.call.args:
                values = self.resolver.values(arg.value)
                is_named = isinstance(arg.value, (cst.Name, cst.Attribute))
                if any(
                    self.kinds.has_weights(v) or self.kinds.is_optimizer(v) or (is_named and self.kinds.is_variable(v))
                    for v in values
                ):
                    yield arg.value

    def is_chief_only(self, node: cst.CSTNode) -> bool:
        """Whether the node runs on one rank alone already."""
        return self.ranks.is_guarded(node)

    def is_in_chiefs_callback(self, node: cst.CSTNode) -> bool:
        """Whether it runs in a callback that the other workers leave out, as it derives from one that writes files."""
        queue, seen = [node], set[cst.CSTNode]()
        while queue:
            place = queue.pop()
            classes = (owner for owner in self.tree.ancestors(place) if isinstance(owner, cst.ClassDef))
            if any(self.resolver.derives_from(Class(cls), api.WRITING_CALLBACKS.__contains__) for cls in classes):
                return True
            function = self.tree.function_of(place)
            if function is not None and function not in seen:
                seen.add(function)
                queue += self.resolver.callers(function)
        return False

    # -- kinds of calls ------------------------------------------------------------------------------------------

    def _is_write(self, call: cst.Call) -> bool:
        if call.args and any(origin(v) in _MEMORY for v in self.resolver.values(call.args[0].value)):
            return False  # `savefig(buffer)`
        if isinstance(call.func, cst.Attribute):
            name = call.func.attr.value
            for owner in self.resolver.values(call.func.value):
                if name in _MODEL_WRITERS and self._has_weights(owner) and not self._is_own_method(call):
                    return True
                if name in _CHECKPOINT_WRITERS and is_call_of(owner, *_CHECKPOINTS):
                    return True
                if name == "savefig" and self._is_figure(owner):
                    return True
                if name == "save" and (origin(owner).startswith(_PICTURES) or self.kinds.is_dataset(owner)):
                    return True
                if name in _PATH_WRITERS and origin(owner).startswith("pathlib."):
                    return True
                if name in _TABLE_WRITERS and origin(owner).startswith("pandas."):
                    return True
        return any(
            isinstance(v, External) and _WRITING_FUNCTIONS.match(v.path) for v in self.resolver.values(call.func)
        )

    def _has_weights(self, owner: Value) -> bool:
        # `self.model` inside of a Keras callback is the model that is being fitted.
        if isinstance(owner, Member) and owner.name == "model":
            return self._is_callback(owner.owner)
        return self.kinds.has_weights(owner)

    def _is_callback(self, value: Value) -> bool:
        return isinstance(value, Object) and self.resolver.derives_from(
            value.of, lambda path: path.startswith("keras.callbacks.")
        )

    def is_path(self, call: cst.Call) -> bool:
        """Whether the call is a method of a pathlib.Path."""
        func = cst.ensure_type(call.func, cst.Attribute)
        return any(origin(v).startswith("pathlib.") for v in self.resolver.values(func.value))

    def _is_own_method(self, call: cst.Call) -> bool:
        return any(isinstance(v, Function) for v in self.resolver.values(call.func))

    def _is_figure(self, owner: Value) -> bool:
        return bool(_FIGURES.match(calls(owner.of if isinstance(owner, Element) else owner)))

    def is_opening(self, call: cst.Call) -> bool:
        """`open(path, "w")`, `path.open("w")`, archives, videos and TensorFlow's own file objects."""
        if self._is_parted(call):
            return False
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "open" and self.is_path(call):
            return self._is_writing_mode(argument(call, "mode", 0))
        paths = {value.path for value in self.resolver.values(call.func) if isinstance(value, External)}
        return bool(paths & _WRITERS) or (
            any(map(_FILES.match, paths)) and self._is_writing_mode(argument(call, "mode", 1))
        )

    @staticmethod
    def _is_writing_mode(mode: cst.Arg | None) -> bool:
        text = mode.value.evaluated_value if mode is not None and isinstance(mode.value, cst.SimpleString) else ""
        return any(letter in "wax+" for letter in str(text).partition(":")[0])  # behind the colon: how it is packed

    def _with_around(self, call: cst.Call) -> cst.With | None:
        item = self.tree.parent.get(call)
        owner = self.tree.parent.get(item) if isinstance(item, cst.WithItem) else None
        return owner if isinstance(owner, cst.With) else None

    def _is_read(self, call: cst.Call) -> bool:
        if any(isinstance(v, External) and _READING_FUNCTIONS.match(v.path) for v in self.resolver.values(call.func)):
            return True
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _PATH_READERS and self.is_path(call):
            return True
        return call in self.restores or self._only_reads(call)
