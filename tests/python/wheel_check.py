#!/usr/bin/env python3
"""The package as users get it.

  wheel_check.py --build                         builds the wheel (scripts/build_wheel.sh), installs it into an empty environment
  wheel_check.py --install BUILD_DIR CMAKE       the wheel's files, installed from a build folder

and runs first_result.py there. Prints the wheel's size, and the seconds from `pip install` to the first result.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import onnx

import models

HERE = pathlib.Path(__file__).resolve().parent
MAX_BYTES = 30_000_000


def first_result(python, folder, **more):
    onnx.save(models.linear(), folder / "linear.onnx")
    onnx.save(models.all_reduce(), folder / "reduce.onnx")
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    environment = {**kept, "BRAID_CACHE_DIR": str(folder / "cache"), **more}  # nothing was compiled before
    command = [*python, HERE / "first_result.py", folder / "linear.onnx", folder / "reduce.onnx"]
    subprocess.run(command, env=environment, check=True, cwd=folder)


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        if sys.argv[1] == "--install":
            build, cmake = sys.argv[2:]
            install = [cmake, "--install", build, "--component", "wheel", "--prefix", folder / "site"]
            subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
            for source in (HERE.parent.parent / "python" / "braid").glob("*.py"):
                (folder / "site" / "braid" / source.name).write_bytes(source.read_bytes())
            first_result([sys.executable, "-S"], folder, PYTHONPATH=str(folder / "site"))
            return
        built = subprocess.run(
            [HERE.parent.parent / "scripts" / "build_wheel.sh", folder / "wheels"],
            check=True,
            stdout=subprocess.PIPE,
        )
        wheel = pathlib.Path(built.stdout.decode().strip())
        size = wheel.stat().st_size
        print(f"{wheel.name}: {size / 1e6:.1f} MB")
        if size > MAX_BYTES:
            sys.exit(f"the wheel has more than {MAX_BYTES} bytes")
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        began = time.monotonic()
        python = folder / "venv" / "bin" / "python"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", wheel]
        subprocess.run(pip, check=True)
        first_result([python], folder)
        print(f"from pip install to the last result of the script: {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
