"""No file of the package opens a file for writing: `ground/whole_files.py` does."""

from __future__ import annotations

import ast

from tests import house

# Files under hybridc/, the calls in them that write, and why they do not replace a file as a whole.
EXCEPTIONS = {
    ("ground/whole_files.py", "os.open"): "the writer itself",
    ("ground/whole_files.py", "os.replace"): "the writer itself",
    ("gluon/download.py", "Path().replace"): "replace_file, MXNet's function that renames a user's file",
    ("ground/store.py", "os.open"): "for reading: the flags are those of open",
    ("subgraph/partition_graph.py", "outline.replace"): "no file: an outline of a graph",
    ("recordio.py", "os.open"): "records are appended one by one",
    ("profiler/trace_file.py", "open"): "a trace is appended to, and complete after each write",
    ("log.py", "logging.FileHandler"): "a log is appended to",
    ("distributed/folder_claim.py", "os.open"): "a lock, which has no content",
    ("distributed/checkpoint_folder.py", "folder.rename"): "a folder is set aside",
    ("library/extension_compile.py", "tempfile.TemporaryDirectory"): "a compiler writes there",
    ("test_utils/surroundings.py", "open"): "the null device",
    ("interchange/onnx/reading/tensor_values.py", "np.memmap"): "for reading: the mode is r",
    ("launch/rank_process.py", "os.open"): "the null device",
    ("compile/background/compiler_worker.py", "os.open"): "the null device",
    ("compile/background/compiler_worker.py", "os.fdopen"): "a pipe",
    ("array_files/npz_format.py", "zipfile.ZipFile"): "into the writer's file",
    ("array_files/npz_format.py", "archive.open"): "into the writer's file",
    ("optimizer/updater.py", "np.savez"): "into memory",
    ("tools/machine/__init__.py", "os.open"): "the null device",
    ("tools/triton_report.py", "tempfile.NamedTemporaryFile"): "for a program of Triton",
    ("tools/packaging/backend.py", "tempfile.TemporaryDirectory"): "pip writes there, while a wheel is built",
    ("tools/packaging/backend.py", "zipfile.ZipFile(wheel).extractall"): "into that folder",
    ("tools/packaging/backend.py", "link.symlink_to"): "in that folder",
    ("tools/packaging/release.py", "tempfile.TemporaryDirectory"): "an environment that is tried and removed",
}
# Files for tests alone, in a folder that a test made.
TESTERS = ("tools/fuzz/",)

MODULES = {
    "np": {"save", "savez", "savez_compressed", "savetxt", "memmap"},
    "os": {"rename", "renames", "replace", "link", "symlink", "mkfifo", "truncate"},
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "make_archive", "unpack_archive"},
    "logging": {"FileHandler"},
    "tempfile": {"mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryFile", "TemporaryDirectory"},
    "io": {"FileIO"},
}
METHODS = {
    "write_bytes",
    "write_text",
    "touch",
    "tofile",
    "extract",
    "extractall",
    "rename",
    "symlink_to",
    "urlretrieve",
}
OPENERS = {"open", "ZipFile", "TarFile", "GzipFile", "BZ2File", "LZMAFile", "fdopen"}


def writes(call: ast.Call) -> bool:
    """Whether a call may create, rename or change a file."""
    name = ast.unparse(call.func)
    module, _, last = name.rpartition(".")
    if last in MODULES.get(module, ()) or last in METHODS:
        return True
    if last == "replace":  # of a Path: a text's has two arguments, a dataclass's keywords
        return len(call.args) == 1 and not call.keywords
    if name == "os.open":
        return "O_RDONLY" not in ast.unparse(call.args[1])
    if last not in OPENERS:
        return False
    on_path = last == "open" and module not in ("", "io", "gzip", "bz2", "lzma", "tarfile", "files", "pillow")
    position = 0 if on_path else 1
    modes = [*call.args[position : position + 1], *(k.value for k in call.keywords if k.arg in ("mode", "flag"))]
    texts = [m.value if isinstance(m, ast.Constant) else "w" for m in modes]
    return any(isinstance(text, str) and len(text) < 5 and set(text) & set("wax+") for text in texts)


def writers(source: str) -> list[tuple[str, int]]:
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [(ast.unparse(call.func), call.lineno) for call in calls if writes(call)]


def test_what_counts_as_writing():
    found = """
open("a", "w"); open(p, mode="ab"); open(p, kind); path.open("x"); gzip.open(p, "wb"); zipfile.ZipFile(p, "a")
Path(p).write_bytes(b""); p.write_text(""); np.savez(p, a); os.open(p, os.O_RDWR | os.O_CREAT); os.replace(a, b)
Path(a).replace(b); shutil.copy(a, b); tar.extractall(d); tempfile.mkstemp(); logging.FileHandler(p); p.touch()
"""
    assert len(writers(found)) == found.count("(") - found.count("Path(")
    for harmless in ('open("a")', 'open(p, "rb")', "p.open()", '"a".replace("b", "c")', "os.open(p, os.O_RDONLY)"):
        assert not writers(harmless)


def test_one_file_writes():
    used = set()
    wrong = []
    for path in sorted(house.PACKAGE.rglob("*.py")):
        file = path.relative_to(house.PACKAGE).as_posix()
        if file.startswith(TESTERS):
            continue
        for name, line in writers(path.read_text()):
            key = (file, "Path().replace" if name.startswith("Path(") and name.endswith(".replace") else name)
            used.add(key)
            if key not in EXCEPTIONS:
                wrong.append(f"{file}:{line}: {name}")
    assert not wrong, "write by hybridc.ground.whole_files, or add to EXCEPTIONS with a reason:\n" + "\n".join(wrong)
    assert used == set(EXCEPTIONS), f"exceptions that nothing needs: {set(EXCEPTIONS) - used}"
