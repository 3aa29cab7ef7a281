"""What reports say of the tool itself."""

from __future__ import annotations

from collections.abc import Iterator

# Where `pip` finds it, and with it the manuals of the rules.
HOME = "https://pypi.org/project/tf-lockstep/"


def version() -> str:
    """The version that is installed; of a bare checkout, the one that it says of itself."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("tf-lockstep")
    except PackageNotFoundError:
        from lockstep._version import __version__

        return __version__


def versions(*, verbose: bool) -> Iterator[str]:
    """The version of the tool; `verbose`: of all that its outcome depends on, too."""
    yield f"migrate {version()}"
    if not verbose:
        return
    import platform
    from importlib.metadata import version as installed

    from migrator.registry import all_rules

    yield f"Python {platform.python_version()} ({platform.platform()})"
    for name in ("libcst", "click", "pathspec"):
        yield f"{name} {installed(name)}"
    rules = all_rules().values()
    yield f"{len(rules)} rules, {sum(rule.is_audit for rule in rules)} of them for ports by hand"


def manual(rule: str) -> str:
    """The address of a rule's manual."""
    return f"{HOME}#{rule}"
