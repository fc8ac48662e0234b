"""The command: ``python -m hybridc.tools.fuzz --seconds 60 --seed 1 [--target llvm]``."""

from __future__ import annotations

import argparse
import sys

from hybridc.tools.fuzz.hostile_peers import fuzz_peers
from hybridc.tools.fuzz.main import FILES, NETWORKS, NUMPY, PROGRAMS, fuzz, fuzz_cache, fuzz_files
from hybridc.tools.fuzz.networks.random_network import RandomNetwork
from hybridc.tools.fuzz.numpy_program import NumpyProgram
from hybridc.tools.fuzz.random_program import RandomProgram
from hybridc.tools.fuzz.worker import Worker


def main(arguments: list[str] | None = None) -> int:
    """Check random programs; 0 if all that must hold holds, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m hybridc.tools.fuzz", description="Check random programs.")
    parser.add_argument("--seconds", type=float, help="how long (default: 60, if no --count is given)")
    parser.add_argument("--count", type=int, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="equal seeds give equal programs")
    parser.add_argument("--first", type=int, default=0, help="the number of the first program of the seed")
    parser.add_argument("--target", action="append", help="llvm, numpy; may be given several times (default: both)")
    parser.add_argument("--shrink", type=float, default=60.0, help="seconds at most to make a failing program smaller")
    parser.add_argument("--stop", type=int, default=20, help="end after so many different failures")
    parser.add_argument("--replay", help="check this program again, given as the fuzzer printed it")
    parser.add_argument("--networks", action="store_true", help="check random Gluon networks instead of programs")
    parser.add_argument("--numpy", action="store_true", help="check random programs of mx.np against NumPy")
    parser.add_argument("--files", action="store_true", help="read damaged files, and caches, instead of programs")
    kinds = (*FILES, "onnx")
    parser.add_argument("--kind", action="append", choices=kinds, help="with --files: only these, and no caches")
    parser.add_argument("--peers", action="store_true", help="attack the servers of ranks, instead of programs")
    given = parser.parse_args(arguments)
    targets = given.target or ["llvm", "numpy"]
    if given.replay:
        kind = NumpyProgram if given.numpy else RandomNetwork if given.networks else RandomProgram
        return replay(given.replay, targets, kind)
    seconds = 60.0 if given.seconds is None and given.count is None else given.seconds
    if given.files:
        return files(given.seed, targets, given.count, seconds, given.kind)
    if given.peers:
        rounds, failed = fuzz_peers(given.seed, rounds=given.count, seconds=seconds)
        print(f"{rounds} rounds of hostile peers: {failed} failures")
        return int(failed > 0)
    report = fuzz(
        given.seed,
        targets,
        count=given.count,
        seconds=seconds,
        first=given.first,
        shrinking=given.shrink,
        stop=given.stop,
        fuzzed=NUMPY if given.numpy else NETWORKS if given.networks else PROGRAMS,
    )
    print(
        f"{report.programs} {'networks' if given.networks else 'programs'} of {report.steps} "
        f"{'layers and functions' if given.networks else 'operators'} ({len(report.operators)} different ones) on "
        f"{', '.join(targets)}: {len(report.found)} failures; {report.invalid} were invalid"
    )
    return int(bool(report.found))


def files(seed: int, targets: list[str], count: int | None, seconds: float | None, kinds: list[str] | None) -> int:
    """Read damaged files, and run with damaged caches for a fifth of the time, if no kinds of files are asked for."""
    if kinds:
        number, failed = fuzz_files(seed, targets[0], count=count, seconds=seconds, kinds=kinds)
        print(f"{number} files ({', '.join(kinds)}): {failed} failures")
        return int(failed > 0)
    part = None if seconds is None else seconds * 0.8
    number, failed = fuzz_files(seed, targets[0], count=count, seconds=part)
    rounds = 1 if seconds is None else max(1, int(seconds / 5 / 20))
    broken = sum(fuzz_cache(seed, target, rounds) for target in targets)
    print(f"{number} files: {failed} failures; {rounds} damaged caches on {', '.join(targets)}: {broken} failures")
    return int(failed + broken > 0)


def replay(text: str, targets: list[str], kind: type[RandomProgram | NumpyProgram | RandomNetwork]) -> int:
    """Check one program, or network, again."""
    program = kind.from_json(text)
    failed = 0
    for target in targets:
        worker = Worker(target)
        outcome = worker.check(program)
        worker.close()
        print(f"{target}: {'holds' if outcome is None else ': '.join(outcome)}")
        failed += outcome is not None
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
