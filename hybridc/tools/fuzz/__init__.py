"""Random programs that look for faults: ``python -m hybridc.tools.fuzz --seconds 60 --seed 1``.

``generate`` writes a program over every registered operator, ``check`` says what does not hold of it, ``worker``
does so in a process of its own, ``shrink`` makes a program that fails smaller, ``source`` prints it as Python, ``main``
is the loop. ``docs/testing.md`` says what is compared and how far results may differ.
"""
