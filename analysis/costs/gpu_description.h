// The multiprocessors of a GPU: the part "gpu" of a machine description. The cost model does without it;
// kernel cards (scripts/kernel_cards.py) and models of single kernels need it.
#pragma once

#include <optional>
#include <string>

#include "ir/json_document.h"

namespace braid::analysis {

enum class ConstantOrigin : std::uint8_t {
  data_sheet,  // stated by the vendor: data sheet, programming guide, device properties
  measured,    // read directly off a run
  fitted       // chosen so that a model of kernels meets measured times
};

struct GpuConstant {
  double value = 0;
  ConstantOrigin origin = ConstantOrigin::data_sheet;
  std::string note;  // where exactly it comes from; may be empty
};

// Limits are those of one multiprocessor, unless a name says otherwise.
struct GpuDescription {
  std::string architecture;  // as nvcc calls it: sm_90
  GpuConstant multiprocessors;
  GpuConstant clock_mhz;  // under load
  GpuConstant threads;
  GpuConstant blocks;
  GpuConstant registers;           // of 32 bits
  GpuConstant shared_bytes;        // of all blocks together
  GpuConstant block_shared_bytes;  // the most that one block may have
  GpuConstant issue_per_cycle;     // instructions of a warp
  GpuConstant l1_wavefronts_per_cycle;
  // Absent if they have not been measured.
  std::optional<GpuConstant> copy_gb_s;        // bytes read and bytes written of a large copy, together
  std::optional<GpuConstant> l2_gb_s;          // sectors of 32 bytes
  std::optional<GpuConstant> dram_latency_us;  // of a load while the memory is busy
  std::optional<GpuConstant> l2_latency_us, l1_latency_us;  // of a load that is found there
};

// User errors of the document for keys that are missing, unknown or out of range.
GpuDescription gpu_description(ir::JsonObject object);

}  // namespace braid::analysis
