"""`python -m lockstep`: the same as the command `lockstep`."""

from lockstep.cli import main

if __name__ == "__main__":
    main(prog_name="lockstep")
