"""What a program is, and where each of its values stands: an abstract run of all of it.

run.py          what is run, in which order, and what is noted of it on the way
statements.py, expressions.py, calls.py, definitions.py, imports.py, truth.py    what Python does, each form once
frames.py, bindings.py, objects.py, dictionaries.py, namespaces.py    what names and objects hold
arrays.py, in_place.py, shortened.py, row_counts.py    what is done to arrays and lists, and how many rows there are
same_batch.py   which values are proven to be of one batch
handles.py      which objects of the program may be behind what a library makes of them
changing.py     which state of Python's changes between the steps that graphs are made of
values.py, placement.py    what a value is, and how the workers' values make up that of one device
shares.py       where the text is going to take a worker's share, or the user says what something is
placing/, ops/  where the result of an operation stands, by the tables of operations
libraries/, packages/    what calls of libraries do: of those that are known, and of those whose code is read
verdicts.py, planning.py    how what is found adds up over the workers, and where it has to be put together
losses.py, mapped.py, models.py, shown.py, callables.py    what is asked of a run
"""
