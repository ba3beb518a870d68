"""Compiles CUDA sources to machine code of one architecture, and disassembles it.

nvcc is looked for where the compiler does (codegen/cuda/build.cc); nvdisasm in the project's Python environment, which scripts/requirements.txt
pins, then beside nvcc and in $PATH.
"""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from machine_file import UserError

MISSING_TOOL = 643
ROOT = pathlib.Path(__file__).resolve().parent.parent
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclasses.dataclass
class Resources:
    """What ptxas says of a kernel."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int  # static


@dataclasses.dataclass
class Code:
    resources: dict  # by mangled name
    sass: str
    seconds: float  # of nvcc


def _executable(places, name):
    for place in places:
        if place and os.access(pathlib.Path(place) / name, os.X_OK):
            return str(pathlib.Path(place) / name)
    return None


def find_nvcc():
    roots = [os.environ[v] + "/bin" for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    path = os.environ.get("PATH", "").split(":")
    return _executable([*roots, *path, "/usr/local/cuda/bin", "/opt/cuda/bin"], "nvcc")


def find_nvdisasm():
    wheels = [str(p) for site in sys.path for p in sorted(pathlib.Path(site).glob("nvidia/*/bin"))]
    nvcc = find_nvcc()
    beside = [str(pathlib.Path(nvcc).resolve().parent)] if nvcc else []
    return _executable([*wheels, *beside, *os.environ.get("PATH", "").split(":")], "nvdisasm")


def tools():
    """Paths of nvcc and nvdisasm; user error 643 if one is missing."""
    nvcc, nvdisasm = find_nvcc(), find_nvdisasm()
    if not nvcc:
        raise UserError(MISSING_TOOL, "nvcc was not found in $CUDA_HOME, $CUDA_PATH, $PATH or /usr/local/cuda",
                        "install the CUDA toolkit and set CUDA_HOME")  # fmt: skip
    if not nvdisasm:
        raise UserError(MISSING_TOOL, "nvdisasm was found neither in Python's packages, beside nvcc, nor in $PATH",
                        "run the script by scripts/python_run.sh, whose environment has it")  # fmt: skip
    return nvcc, nvdisasm


def version(tool):
    """V13.0.88"""
    done = subprocess.run([tool, "--version"], stdout=subprocess.PIPE, text=True, check=True)
    found = re.search(r"\bV(\d+(?:\.\d+)+)", done.stdout)
    return found[1] if found else "unknown"


def _include_folder(source):
    """The folder with the runtime's sources: that of a standalone program or a bundle, else this tree."""
    for folder in (source.parent, source.parent.parent):
        if (folder / "runtime" / "cuda_instance.h").exists():
            return folder
    return ROOT


def resources(log):
    """From what `nvcc -Xptxas -v` prints."""
    found, name, frame = {}, None, (0, 0, 0)
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            name, frame = match[1], None
        elif frame is None and (match := _SPILLS.search(line)):
            frame = tuple(int(n) for n in match.groups())
        elif name and (match := _USED.search(line)):
            shared = _SHARED.search(line)
            found[name] = Resources(int(match[1]), *(frame or (0, 0, 0)), int(shared[1]) if shared else 0)
            name = None
    return found


def compiled(source, architecture, nvcc, nvdisasm):
    """The code of one source. User error 644 if a tool fails."""
    includes = [f"-I{_include_folder(source)}"]
    for variable in ("NCCL_ROOT", "NCCL_HOME"):
        if os.environ.get(variable):
            includes.append(f"-I{os.environ[variable]}/include")
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "program.cubin"
        command = [nvcc, "-std=c++20", "-O2", "-cubin", f"-arch={architecture}", "-Xptxas", "-v", *includes,
                   str(source), "-o", str(cubin)]  # fmt: skip
        begin = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seconds = time.monotonic() - begin
        if done.returncode != 0:
            output = done.stdout.splitlines()
            begin = next((k for k, line in enumerate(output) if "error" in line), 0)  # behind warnings
            lines = "\n  ".join(output[begin : begin + 10])
            raise UserError(644, f"nvcc failed:\n    {' '.join(command)}\n  {lines}")
        shown = subprocess.run(
            [nvdisasm, "-c", str(cubin)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if shown.returncode != 0:
            raise UserError(644, f"nvdisasm cannot read what nvcc wrote: {shown.stderr.strip()}",
                            "use an nvdisasm that is at least as new as nvcc")  # fmt: skip
    return Code(resources(done.stdout), shown.stdout, seconds)


def demangled(names):
    """Readable names, without the number that nvcc gives an anonymous namespace."""
    if not names or not shutil.which("c++filt"):
        return {n: n for n in names}
    done = subprocess.run(["c++filt"], input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True)
    return dict(zip(names, done.stdout.splitlines()))
