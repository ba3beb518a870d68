"""compute-sanitizer: its command lines, and what its output says."""

import collections
import os
import re
import shutil

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
EXIT_CODE = 9  # of the tool if it found something and the program itself passed
PRINTED = 1000  # findings that it prints at most

# Kinds of which one small case runs with errors of API calls reported, too: products of the library, collectives of NCCL, kernels.
API_KINDS = ("gemm", "collectives", "kernels")

# Calls that fail within a library, which then goes on without: (call, library). Everything else that fails is a fault. Seen on an H200
# with CUDA 13.0 and NCCL 2.28.3: NCCL asks for kernels that were not built for the GPU, and for memory with handles that the system
# refuses; cudaGetLastError takes note of such a failure.
EXPECTED_API_ERRORS = (
    ("cudaFuncGetAttributes", "libnccl"),
    ("cudaGetLastError", "libnccl"),
    ("cuMemCreate", "libnccl"),
)
# Libraries whose frames stand before those of the caller.
DRIVER = ("libcuda.so", "libcudart.so")

ApiError = collections.namedtuple("ApiError", "call error library")


def program():
    found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    return found if os.access(found, os.X_OK) else None


def command(path, tool, api_errors=False):
    words = [path, "--tool", tool, "--error-exitcode", EXIT_CODE, "--print-limit", PRINTED]
    if tool == "memcheck":
        words += ["--report-api-errors", "explicit" if api_errors else "no"]
    if tool == "racecheck":
        words += ["--racecheck-report", "all"]
    return words


def checked_by(tool, cases):
    """initcheck does not see what the library writes in products of halves, so it is right about f32 only."""
    return [c for c in cases if c.dtype == "f32"] if tool == "initcheck" else cases


def findings(text):
    """The sum of all summaries of the output, one per process; None if there is none."""
    errors = [int(n) for n in re.findall(r"ERROR SUMMARY: (\d+) errors?\s*$", text, re.M)]
    hazards = [int(n) for n in re.findall(r"RACECHECK SUMMARY: (\d+) hazards? displayed", text)]
    return sum(errors + hazards) if errors or hazards else None


def api_errors(text):
    """API calls that failed, each with the library that made it: that of the first frame above the driver and the CUDA runtime."""
    lines = [re.sub(r"^=========\s?", "", line) for line in text.splitlines() if line.startswith("=========")]
    found = []
    for block in re.split(r"(?=^Program hit )", "\n".join(lines), flags=re.M)[1:]:
        head = re.match(r"Program hit (\S+).*? on CUDA API call to (\w+)", block)
        if not head:
            continue
        # A frame's library is its last "in ...", on the same line or on the next one.
        frames = re.findall(r"Host Frame:(.*?)(?=Host Frame:|\n\s*\n|\Z)", block, re.S)
        libraries = [
            names[-1].rsplit("/", 1)[-1] for names in (re.findall(r"\bin (\S+)", f) for f in frames) if names
        ]
        caller = next((name for name in libraries if not name.startswith(DRIVER)), "")
        found.append(ApiError(head[2], head[1], caller))
    return found


def is_expected(error):
    return any(
        error.call == call and error.library.startswith(library) for call, library in EXPECTED_API_ERRORS
    )


def verdict(text, with_api_errors):
    """What is wrong by the tool's output; empty: nothing."""
    count = findings(text)
    if count is None:
        return "the tool printed no summary"
    if not with_api_errors:
        return f"{count} findings" if count else ""
    errors = api_errors(text)
    bad = [error for error in errors if not is_expected(error)]
    if bad:
        names = collections.Counter(
            f"{e.call} in {e.library or 'an unknown library'}: {e.error}" for e in bad
        )
        return "calls failed that are not expected to: " + ", ".join(
            f"{n} x {name}" for name, n in names.items()
        )
    return f"{count - len(errors)} findings that are no errors of API calls" if count != len(errors) else ""
