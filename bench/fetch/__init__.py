"""Public data sets from where their makers publish them, in the form that the benches read."""
