"""Programs of the system that the script runs: which of them only read files, or only say how the machine is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Literal
from migrator.facts.program.syntax import argument, method_called

RUNNING = re.compile(
    r"^(?:subprocess\.(?:run|call|check_call|check_output|getoutput|getstatusoutput|Popen)|os\.popen)$"
)
_TAKING_TEXT = re.compile(r"^(?:subprocess\.(?:getoutput|getstatusoutput)|os\.popen)$")
# They print what stands in files, the same wherever they run.
_READING = frozenset({"cat", "cut", "grep", "head", "ls", "md5sum", "sha256sum", "tail", "wc"})
# They print what the machine is and does, or which version of the code this is.
_ASKING = frozenset({
    "df", "echo", "free", "lscpu", "nproc", "pwd", "uname", "which", "whoami",
})  # fmt: skip
_ASKING_GIT = frozenset({"describe", "diff", "log", "rev-list", "rev-parse", "show", "status"})
# In the text of a shell: it writes files, or runs more than one program.
_OF_THE_SHELL = re.compile(r"[|&;<>`$\n]")
# Of programs that can also set what they tell, the arguments that only ask for it.
_ONLY_ASKING = {
    "date": re.compile(r"[+]|-[uR]$|--(?:utc|rfc-\S+|iso-8601\S*)$|-I\w*$"),
    "hostname": re.compile(r"-[sfidIA]$|--(?:short|fqdn|long|domain|ip-address)$"),
    "nvidia-smi": re.compile(r"-(?:q|L|i|d|x|h)$|\d+$|[A-Z]+$|--(?:query|format|id=|list-gpus|help|version)|csv"),
}
_WRITING_OPTION = re.compile(r"-o|--(?:output|ext-diff|exec)")


class Commands:
    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    def only_reads(self, call: cst.Call) -> bool:
        """`subprocess.check_output(["wc", "-l", path])`"""
        program, _ = self._run_by(call)
        return program in _READING

    def only_asks(self, call: cst.Call) -> bool:
        """`check_output("nvidia-smi -q".split())`: what it prints is this machine's own, and of this moment."""
        program, options = self._run_by(call)
        if program in _ONLY_ASKING:
            return all(map(_ONLY_ASKING[program].match, options))
        if program == "git":
            return bool(options) and options[0] in _ASKING_GIT and not any(map(_WRITING_OPTION.match, options))
        return program in _ASKING

    def _run_by(self, call: cst.Call) -> tuple[str, list[str]]:
        """The program, and those of its arguments that are written out; empty where it is not seen, or its output goes
        into a file."""
        paths = self.resolver.public(call.func)
        command = argument(call, "args", 0) or argument(call, "command", 0) or argument(call, "cmd", 0)
        if command is None or not paths or not all(map(RUNNING.match, paths)) or self._goes_into_a_file(call):
            return "", []
        is_text = all(map(_TAKING_TEXT.match, paths)) or argument(call, "shell") is not None
        words = self._words(command.value, is_text=is_text)
        return (words[0], words[1:]) if words else ("", [])

    def _goes_into_a_file(self, call: cst.Call) -> bool:
        output = argument(call, "stdout")
        return output is not None and set(self.resolver.public(output.value)) != {"subprocess.PIPE"}

    def _words(self, command: cst.BaseExpression, *, is_text: bool) -> list[str]:
        """Of the command; what is not written out in its list is an empty word."""
        of_split = command.func if isinstance(command, cst.Call) and method_called(command) == "split" else None
        if isinstance(of_split, cst.Attribute) and not is_text and isinstance(command, cst.Call) and not command.args:
            return self._text(of_split.value).split()
        if is_text:
            text = self._text(command)
            return [] if _OF_THE_SHELL.search(text) else _split(text)
        text = self._text(command)
        if text:
            return [text]
        # By a name, it may have been changed meanwhile.
        return [self._text(e.value) for e in command.elements] if isinstance(command, (cst.List, cst.Tuple)) else []

    def _text(self, node: cst.BaseExpression) -> str:
        """Empty where it is not written out in one place."""
        values: Collection[object] = self.resolver.values(node)
        if not values and isinstance(node, cst.SimpleString):
            values = [Literal(node)]
        texts = [
            v.node.evaluated_value for v in values if isinstance(v, Literal) and isinstance(v.node, cst.SimpleString)
        ]
        return texts[0] if len(texts) == len(values) == 1 and isinstance(texts[0], str) else ""


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []
