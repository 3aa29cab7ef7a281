"""`lockstep run` and `lockstep doctor`: starts workers, shows what they print, ends them. A script never imports it."""
