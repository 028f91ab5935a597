"""What we add to lmms-eval's results file: the ``"umu"`` block, standard errors, and an honest exit status.

- `hooks`: where lmms-eval is made to call us.
- `run`: what is known about the run so far.
- `validity`: whether its scores may be read at all.
- `provenance`: what made the file.
- `stock`: what can be said about a backend that isn't ours.
- `exit_status`: ends the program with status 1 after everything is saved and printed.
"""
