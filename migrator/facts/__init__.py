"""What a script is: its models, optimizers, gradients, datasets, arrays and files, as values that rules read.

From the ground up:

    names/       which public names of libraries mean what
    program/     the parsed files, as they stand
    objects/     what an expression may be: names, calls, attributes and containers are followed
    training/    what is trained, and how
    data/        what is trained on, and where each worker takes its share
    randomness/  where random numbers come from
    files/       what is written, and read again
    dependence/  what depends on what
    decisions/   what training is steered by
    ports/       what is ported already
    startup/     where the runtime is imported
    script.py    all of these, each worked out when a rule first asks
"""
