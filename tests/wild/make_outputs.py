"""Run the programs, all or those named, with MXNet and keep what they print: see README.md."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main(names):
    for program in sorted([*(HERE / "programs").glob("*.py"), *(HERE / "libraries").glob("*.py")]):
        if names and program.stem not in names:
            continue
        made = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
        if made.returncode:
            sys.exit(f"{program.name}: {made.stderr}")
        (HERE / "outputs").mkdir(exist_ok=True)
        (HERE / "outputs" / f"{program.stem}.txt").write_text(made.stdout)
        print(program.stem, len(made.stdout.splitlines()), "lines")


if __name__ == "__main__":
    main(sys.argv[1:])
