"""Settings of the whole suite, made before torch is imported."""

import os

# The models are tiny: a second thread only waits, and the programs that tests start (several at once) fight over cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# No test needs the hub: those of the hub's path start programs of their own against a server of their own.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
