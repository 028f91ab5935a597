"""UMU-Bench as lmms-eval tasks: data, scoring, backend, report."""

__version__ = "0.1.0"
