"""The part "gpu" of a machine description (analysis/costs/machines, docs/scheduling.md), for Python scripts.

    gpu = load_gpu("h200")              # or the path of a file that ends in .json
    gpu.architecture, gpu.copy_gb_s     # "sm_90", 4260; None where the description does not say it
    gpu.origin["copy_gb_s"]             # "measured"

The compiler reads the same files strictly (analysis/costs/machine.cc); this loader checks what it uses.
"""

import dataclasses
import json
import math
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "analysis" / "costs" / "machines"


class UserError(Exception):
    """What a user did wrong, with a number of docs/errors.md."""

    def __init__(self, code, message, hint=""):
        self.code = code
        super().__init__(f"error BR{code:04}: {message}" + (f"\n  hint: {hint}" if hint else ""))


@dataclasses.dataclass
class Gpu:
    """Limits are those of one multiprocessor; analysis/costs/gpu_description.h says what each is."""

    name: str
    architecture: str
    multiprocessors: float
    clock_mhz: float
    threads: float
    blocks: float
    registers: float
    shared_bytes: float
    block_shared_bytes: float
    issue_per_cycle: float
    l1_wavefronts_per_cycle: float
    copy_gb_s: float | None = None
    l2_gb_s: float | None = None
    dram_latency_us: float | None = None
    l2_latency_us: float | None = None
    l1_latency_us: float | None = None
    origin: dict = dataclasses.field(default_factory=dict)  # of each constant: data_sheet, measured or fitted


def _description(name):
    path = pathlib.Path(name) if name.endswith(".json") else FOLDER / f"{name}.json"
    known = sorted(p.stem for p in FOLDER.glob("*.json"))
    if not name.endswith(".json") and name not in known:
        raise UserError(553, f"no machine is called '{name}'",
                        f"one of {', '.join(known)}, or the path of a machine file that ends in .json")  # fmt: skip
    try:
        return path, json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise UserError(1, f"cannot read {path}: {e.strerror}") from e
    except (ValueError, RecursionError) as e:
        raise UserError(550, f"{path}: not JSON: {e}") from e


def load_gpu(name):
    """The GPU of a built-in machine or of a file. User errors 1, 550, 551, 553."""
    path, root = _description(name)
    part = root.get("gpu") if isinstance(root, dict) else None
    if not isinstance(part, dict):
        raise UserError(551, f"{path}: the machine does not describe its GPU: it has no object 'gpu'",
                        "docs/scheduling.md describes its keys")  # fmt: skip
    if not re.fullmatch(r"sm_\d{2,3}[af]?", str(part.get("architecture"))):
        raise UserError(551, f"{path}: /gpu/architecture is not a GPU architecture", "for example sm_90")
    values, origin = {"architecture": part["architecture"]}, {}
    for field in dataclasses.fields(Gpu):
        if (
            field.name in ("name", "architecture", "origin")
            or field.default is None
            and field.name not in part
        ):
            continue
        constant = part.get(field.name)
        value = constant.get("value") if isinstance(constant, dict) else None
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < math.inf:
            raise UserError(551, f"{path}: /gpu/{field.name}/value is not a positive number")
        values[field.name], origin[field.name] = value, constant.get("origin")
    return Gpu(name=path.stem, origin=origin, **values)
