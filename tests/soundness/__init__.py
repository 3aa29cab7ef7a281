"""Small training scripts in the styles of real code, judged by numbers: is the migrated one the same training?

    python -m tests.soundness.run [--group G] [--name TEXT] [--verbose]

Every case is a whole script. It is migrated, and original and migrated run in forks of one process that has TensorFlow
imported, the migrated one on two ranks and on three. The verdict is *same*, *refused* or *WRONG*; see judge.py. A new
group of cases is a module that lists them, named in groups.py.
"""
