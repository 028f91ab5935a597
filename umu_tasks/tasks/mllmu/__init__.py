"""MLLMU-Bench: what it asks, how its rows are read, and its lmms-eval tasks. See README.md in this folder."""
