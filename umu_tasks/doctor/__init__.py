"""`umu doctor`: is everything here that scoring and training need, and if not, what to do.

finding.py   one line of the result     libraries.py  versions         machine.py  GPU, memory, disk
hub.py       can the hub be reached     data.py       the data sets    model.py    a checkpoint, without its weights
deadline.py  ask what may never answer
"""
