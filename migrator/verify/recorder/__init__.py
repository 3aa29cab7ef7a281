"""Runs inside the processes that are compared, in front of the user's script; imports neither click nor libcst.

    python -m migrator.verify.recorder plan.json

Hooks TensorFlow and Keras from outside, at the few places through which every training goes, and leaves a record.
"""
