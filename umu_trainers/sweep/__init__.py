"""`umu sweep`: search the settings of unlearning for little left, much kept, and a small gap between the modalities.

config.py   the sweep's own YAML file      space.py     what is searched          check.py   does the trainer take it
studies.py  trials shared by processes     samplers.py  where trials come from    workers.py who runs which trial
storages.py where they are kept
trial.py    train and score one trial      pruning.py   which one is ended early
values.py   results file -> objectives     choice.py    Pareto front, recommended setting
report.py   what a sweep ends in           picture.py   its plot
"""
