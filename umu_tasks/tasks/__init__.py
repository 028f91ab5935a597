"""The benchmarks as lmms-eval tasks, one folder each; this folder is what `--include-path` takes (`umu tasks`)."""
