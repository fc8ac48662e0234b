"""``python -m hybridc launch -n 4 train.py``: a program as several ranks.

``launcher`` starts mpiexec, which starts a ``rank_process`` for each rank. That forks the rank itself, writes the lines
it prints, and reports to the launcher how it ends. ``rank_program`` is what the rank does: start MPI, run the program.
"""
