"""results/device.json: what the device says of itself, and as much of the part "gpu" of a machine description as follows from it.

analysis/costs/gpu_description.h reads that part. Two rates are no properties of the device and stand in NOT_ASKED; the others that a
description may have are fitted to timings.
"""

# key of "gpu": key of the properties, divisor
FROM_PROPERTIES = {
    "multiprocessors": ("multiprocessors", 1),
    "clock_mhz": ("clock_khz", 1000),
    "threads": ("multiprocessor_threads", 1),
    "blocks": ("multiprocessor_blocks", 1),
    "registers": ("multiprocessor_registers", 1),
    "shared_bytes": ("multiprocessor_shared_bytes", 1),
    "block_shared_bytes": ("block_shared_bytes_opted_in", 1),
}
NOT_ASKED = ("issue_per_cycle", "l1_wavefronts_per_cycle")


def description(machine):
    """Of the values of the row `machine`."""
    properties = machine.get("properties", {})
    gpu = {"architecture": properties.get("architecture", "")}
    for key, (name, divisor) in FROM_PROPERTIES.items():
        if name in properties:
            gpu[key] = {
                "value": properties[name] / divisor if divisor > 1 else properties[name],
                "origin": "data_sheet",
            }
            gpu[key]["note"] = (
                "the highest, a property of the device" if key == "clock_mhz" else "a property of the device"
            )
    if "copy_gb_s" in machine:
        gpu["copy_gb_s"] = {"value": machine["copy_gb_s"], "origin": "measured", "note": "row machine"}
    measured = {key: machine[key] for key in sorted(machine) if key.startswith(("copy_", "gemm_"))}
    return {"properties": properties, "measured": measured, "gpu": gpu, "not_asked": list(NOT_ASKED)}
