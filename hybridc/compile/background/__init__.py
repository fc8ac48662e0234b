"""Compilation in the background: another process compiles into the disk cache, while calls run without it.

A trace is data (:mod:`hybridc.compile.background.portable_trace`), so that process starts from nothing and gets no part
of this one's memory: a forked child of a program with threads has their locks, which are never released.
"""
