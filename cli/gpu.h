// Which device a CUDA program runs on.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/gpus.h"

namespace CLI {
class App;
}  // namespace CLI

namespace braid::cli {

using codegen::cuda::describe_gpu;
using codegen::cuda::find_gpus;
using codegen::cuda::Gpu;

// Where CUDA programs run.
enum class DeviceChoice { automatic, gpu, emulated };

// --device gpu|emulated
void add_device(CLI::App& command, DeviceChoice& choice);

// Whether CUDA programs run on the emulated device. If nothing was chosen, they do so if there is no GPU, and
// a line on standard error says it once. UserError BR0013 if a GPU was chosen but there is none.
bool choose_emulated(DeviceChoice choice);

// UserError BR0013 if there are fewer GPUs than ranks.
void require_gpus(int ranks);

}  // namespace braid::cli
