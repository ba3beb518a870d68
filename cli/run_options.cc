#include "cli/run_options.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>

#include "cli/command_line.h"
#include "cli/status_line.h"

namespace braid::cli {
namespace {

using harness::DeviceChoice;
using harness::RanksAs;

void add_device(Command command, DeviceChoice& choice) {
  command
      .option(
          "--device",
          [&choice](const std::string& name) {
            choice = name == "gpu" ? DeviceChoice::gpu : DeviceChoice::emulated;
          },
          "Where CUDA programs run: gpu, or emulated, which checks all accesses (default: gpu, if there is "
          "one)")
      .one_of({"gpu", "emulated"})
      .type_name("gpu|emulated");
}

void add_ranks_as(Command command, RanksAs& choice) {
  const Argument threads = command.flag(
      "--ranks-as-threads", [&choice] { choice = RanksAs::threads; },
      "Run ranks as threads of one process (default on the emulated device: races between ranks are found)");
  command
      .flag(
          "--ranks-as-processes", [&choice] { choice = RanksAs::processes; },
          "Run each rank as a process (default, except on the emulated device)")
      .excludes(threads);
}

class UploadLine {
 public:
  void show(std::uint64_t done, std::uint64_t total) {
    const std::lock_guard lock(mutex_);
    if (done == total) {
      line_.clear();
    } else if (total >= kShownFrom) {
      line_.show(fmt::format("weights: {} of {} MiB on the device", done >> 20, total >> 20));
    }
  }

 private:
  static constexpr std::uint64_t kShownFrom = std::uint64_t{256} << 20;

  std::mutex mutex_;
  StatusLine line_;
};

}  // namespace

void add_execution(Command command, harness::ExecuteOptions& options) {
  const OptionGroup group(command, "Execution");
  command.option("--threads", options.omp_threads, "Threads per rank (default: cores / ranks)").from(1, 1024);
  add_ranks_as(command, options.ranks_as);
  add_device(command, options.device);
  options.uploaded = show_upload();
}

void add_steps(Command command, harness::ExecuteOptions& options) {
  const OptionGroup group(command, "Execution");
  command.option("--repeat", options.repeat, "Number of measured steps").from(1, 1000000);
  command.option("--warmup", options.warmup, "Steps before the measured ones").from(0, 1000000);
}

void add_inputs(Command command, harness::InputOptions& options) {
  const OptionGroup group(command, "Inputs");
  command
      .option("--input", options.files, "NAME=FILE.npy, NAME@RANK=FILE.npy (also .pb), or FILE.npz with all")
      .one_value();
  command.option("--random", options.random, "Seed: random values for inputs without a file").not_negative();
  command
      .option("--random-max", options.random_max,
              "Draw random integers from [0, MAX), and indices within their axis (default 100)")
      .from(std::int64_t{1});
}

void add_tolerance(Command command, harness::Tolerance& tolerance) {
  command
      .option("--rtol", tolerance.relative,
              "Relative tolerance (default 1e-3, as ONNX's; at least 1e-2 for f16 and bf16)")
      .check(finite_not_negative());
  command
      .option("--atol", tolerance.absolute,
              "Absolute tolerance (default 1e-7; at least 1e-3 for f16 and bf16)")
      .check(finite_not_negative());
}

std::optional<rt::LinkPacing> link_pacing(const ModelOptions& options) {
  const std::optional<CompileOptions::Link> link = options.paced_link();
  if (!link) return std::nullopt;
  return rt::LinkPacing{static_cast<std::int64_t>(link->latency_us * 1e3 + 0.5), link->gb_s};
}

std::function<void(std::uint64_t done, std::uint64_t total)> show_upload() {
  return [line = std::make_shared<UploadLine>()](std::uint64_t done, std::uint64_t total) {
    line->show(done, total);
  };
}

}  // namespace braid::cli
