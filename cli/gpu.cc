#include "cli/gpu.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::cli {

void add_device(CLI::App& command, DeviceChoice& choice) {
  command
      .add_option_function<std::string>(
          "--device",
          [&choice](const std::string& name) {
            choice = name == "gpu" ? DeviceChoice::gpu : DeviceChoice::emulated;
          },
          "Where CUDA programs run: gpu, or emulated, which checks all accesses (default: gpu, if there is "
          "one)")
      ->check(CLI::IsMember({"gpu", "emulated"}))
      ->type_name("gpu|emulated");
}

bool choose_emulated(DeviceChoice choice) {
  if (choice == DeviceChoice::emulated) return true;
  std::string why;
  if (!find_gpus(&why).empty()) return false;
  if (choice == DeviceChoice::gpu)
    ir::user_error(errors::kNoGpu, {}, fmt::format("there is no GPU: {}", why),
                   "--device emulated needs none");
  static bool said = false;
  if (!said) {
    fmt::print(stderr,
               "{}: the program runs on the emulated device, which checks all accesses; its times mean "
               "nothing\n",
               why);
  }
  said = true;
  return true;
}

void require_gpus(int ranks) {
  const std::size_t gpus = find_gpus().size();
  if (gpus >= static_cast<std::size_t>(ranks)) return;
  ir::user_error(errors::kNoGpu, {},
                 fmt::format("the program has {} ranks, but the driver shows {} GPU{}", ranks, gpus,
                             gpus == 1 ? "" : "s"),
                 "each rank needs a GPU of its own ($CUDA_VISIBLE_DEVICES may hide some); --device emulated "
                 "needs none");
}

}  // namespace braid::cli
