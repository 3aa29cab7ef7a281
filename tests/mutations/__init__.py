"""How good is the prover? Ports that are wrong in 20 known ways, and what `--check` and `verify` say of them.

python -m tests.mutations.run              the whole table
python -m tests.mutations.run --mutation M4 --script digits_dcgan
"""
