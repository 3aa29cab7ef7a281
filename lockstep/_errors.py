"""What lockstep raises when the workers of a job cannot go on together."""

from __future__ import annotations


class LockstepError(Exception):
    """The job cannot go on: this worker could not join, or a collective call failed.

    A direct subclass of Exception, because AutoGraph replaces others that pass through a traced function.
    """


class JoinError(LockstepError):
    """This process could not join the cluster that its environment describes."""


class MismatchError(LockstepError):
    """The workers do not do the same: other calls, other shapes, other data or random states."""


class LostWorkerError(LockstepError):
    """Another worker ended, or did not answer within LOCKSTEP_STALL_SECONDS, during a collective call."""
