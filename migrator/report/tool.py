"""What reports say of the tool itself."""

from __future__ import annotations

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


def manual(rule: str) -> str:
    """The address of a rule's manual."""
    return f"{HOME}#{rule}"
