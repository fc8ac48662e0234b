"""The command line of ``python -m hybridc launch``."""

from __future__ import annotations

from collections.abc import Sequence

from hybridc.ground.records import dataclass

USAGE = (
    "usage: python -m hybridc launch -n RANKS [--hosts A:4,B:4] [--restarts R] [--timeout SECONDS] "
    "(program.py | -m module) [arguments]"
)
HELP = f"""{USAGE}

Runs a program as several ranks, which communicate by MPI; without MPI for one rank.

  -n RANKS            how many; if they are not given, the sum of the places of --hosts
  --hosts A:4,B:4     on these machines, so many on each, by ssh
  --restarts R        start the program again after a failure, R times at most; it finds HYBRIDC_RESTART=1, 2, ...
  --timeout SECONDS   end all when a rank does not answer for so long, or does not come to a collective (default: 60)
"""


class LaunchError(Exception):
    """A program that cannot be started; the message says why."""


@dataclass(frozen=True)
class LaunchOptions:
    """What is started: how many ranks, where, and the program, as it follows ``"python"`` in a command.

    After a failure it is started again, ``restarts`` times. A rank is late after ``timeout`` seconds; if there is none,
    after those of the environment.
    """

    ranks: int
    program: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    restarts: int = 0
    timeout: int | None = None


_OPTIONS = {"-n": "ranks", "-np": "ranks", "--hosts": "hosts", "--restarts": "restarts", "--timeout": "timeout"}


def parsed(arguments: Sequence[str]) -> LaunchOptions:
    """The options that arguments are; LaunchError if they are wrong."""
    rest = list(arguments)
    values: dict[str, str] = {}
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        option, given, value = rest.pop(0).partition("=")
        if option not in _OPTIONS:
            raise LaunchError(f"there is no option {option}\n{USAGE}")
        if not given:
            if not rest:
                raise LaunchError(f"{option} needs a value\n{USAGE}")
            value = rest.pop(0)
        values[_OPTIONS[option]] = value
    if not rest or rest == ["-m"]:
        raise LaunchError(f"no program is given\n{USAGE}")
    hosts = tuple(host for host in values.get("hosts", "").split(",") if host)
    return LaunchOptions(
        ranks=_count("-n", values["ranks"], 1) if "ranks" in values else _of_hosts(hosts),
        program=tuple(rest),
        hosts=hosts,
        restarts=_count("--restarts", values.get("restarts", "0"), 0),
        timeout=_count("--timeout", values["timeout"], 1) if "timeout" in values else None,
    )


def _count(option: str, text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise LaunchError(f"{option} takes a whole number from {least} on, got {text!r}\n{USAGE}")
    return int(text)


def _of_hosts(hosts: Sequence[str]) -> int:
    """As many ranks as the hosts have places."""
    if not hosts:
        raise LaunchError(f"say how many ranks, as -n 2\n{USAGE}")
    return sum(_count("--hosts HOST:PLACES", host.partition(":")[2] or "1", 1) for host in hosts)
