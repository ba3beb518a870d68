#include "cli/run_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <mutex>

#include "cli/option_checks.h"
#include "cli/option_group.h"
#include "cli/status_line.h"

namespace braid::cli {
namespace {

using harness::DeviceChoice;
using harness::RanksAs;

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

void add_ranks_as(CLI::App& command, RanksAs& choice) {
  CLI::Option* threads = command.add_flag_callback(
      "--ranks-as-threads", [&choice] { choice = RanksAs::threads; },
      "Run ranks as threads of one process (default on the emulated device: races between ranks are found)");
  command
      .add_flag_callback(
          "--ranks-as-processes", [&choice] { choice = RanksAs::processes; },
          "Run each rank as a process (default, except on the emulated device)")
      ->excludes(threads);
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

void add_execution(CLI::App& command, harness::ExecuteOptions& options) {
  const OptionGroup group(command, "Execution");
  command.add_option("--threads", options.omp_threads, "Threads per rank (default: cores / ranks)")
      ->check(number_from(1, 1024));
  add_ranks_as(command, options.ranks_as);
  add_device(command, options.device);
  options.uploaded = show_upload();
}

void add_steps(CLI::App& command, harness::ExecuteOptions& options) {
  const OptionGroup group(command, "Execution");
  command.add_option("--repeat", options.repeat, "Number of measured steps")->check(number_from(1, 1000000));
  command.add_option("--warmup", options.warmup, "Steps before the measured ones")
      ->check(number_from(0, 1000000));
}

void add_inputs(CLI::App& command, harness::InputOptions& options) {
  const OptionGroup group(command, "Inputs");
  command
      .add_option("--input", options.files,
                  "NAME=FILE.npy, NAME@RANK=FILE.npy (also .pb), or FILE.npz with all")
      ->allow_extra_args(false);
  command.add_option("--random", options.random, "Seed: random values for inputs without a file")
      ->check(not_negative);
  command
      .add_option("--random-max", options.random_max,
                  "Draw random integers from [0, MAX), and indices within their axis (default 100)")
      ->check(number_from(std::int64_t{1}));
}

void add_tolerance(CLI::App& command, harness::Tolerance& tolerance) {
  command
      .add_option("--rtol", tolerance.relative,
                  "Relative tolerance (default 1e-3, as ONNX's; at least 1e-2 for f16 and bf16)")
      ->check(finite_not_negative);
  command
      .add_option("--atol", tolerance.absolute,
                  "Absolute tolerance (default 1e-7; at least 1e-3 for f16 and bf16)")
      ->check(finite_not_negative);
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
