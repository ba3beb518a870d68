// bench --device emulated: times that counts and kernel cards predict.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "analysis/costs/kernel_time.h"
#include "analysis/costs/machine.h"
#include "cli/cuda_library.h"
#include "cli/launched.h"
#include "cli/model_counts.h"
#include "cli/profile.h"

namespace braid::cli {
namespace {

struct Kernel {
  std::string name, label;
  double launches = 0;
  analysis::KernelCounts counts;                // the mean of its launches
  std::optional<analysis::PredictedTime> time;  // absent without a card
};

std::string us_text(double us) { return fmt::format("{:.1f} us", us); }

// Rank 0's kernels in one step.
std::vector<Kernel> counted(const ProgramFiles& program, const std::vector<std::vector<ir::Tensor>>& inputs,
                            ExecuteOptions options) {
  options.warmup = 0;
  options.repeat = 1;
  std::vector<Kernel> kernels;
  open_cuda_library(program).count_kernels(
      [&] { execute(program, inputs, options); },
      [&](const BraidKernelCounts& k) {
        if (k.rank != 0) return;
        Kernel kernel{k.name, k.label, static_cast<double>(k.launches), model_counts(k), {}};
        kernel.counts *= 1 / kernel.launches;
        kernels.push_back(std::move(kernel));
      });
  return kernels;
}

nlohmann::ordered_json json_of(const Kernel& kernel, const analysis::GpuDescription& gpu) {
  const analysis::KernelCounts& c = kernel.counts;
  nlohmann::ordered_json json = {{"name", kernel.name},
                                 {"label", kernel.label},
                                 {"launches", kernel.launches},
                                 {"read_bytes", c.read_bytes},
                                 {"written_bytes", c.written_bytes},
                                 {"read_sectors", c.read_sectors},
                                 {"write_sectors", c.write_sectors},
                                 {"wavefronts", c.wavefronts},
                                 {"lane_reads", c.lane_reads},
                                 {"lane_writes", c.lane_writes},
                                 {"least_us", analysis::least_us(c, gpu)}};
  if (kernel.time) {
    json["predicted_us"] = kernel.time->us;
    json["terms_us"] = {{"memory", kernel.time->memory_us},
                        {"l2", kernel.time->l2_us},
                        {"l1", kernel.time->l1_us},
                        {"latency", kernel.time->latency_us},
                        {"issue", kernel.time->issue_us}};
  }
  return json;
}

void print(const Kernel& kernel, const analysis::GpuDescription& gpu, const Report& report) {
  const std::string name =
      kernel.label.empty() ? kernel.name : fmt::format("{}  <- {}", kernel.name, kernel.label);
  if (kernel.time) {
    const analysis::PredictedTime& t = *kernel.time;
    report.print("{:>12} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9}  {}\n", us_text(t.us),
                 t.memory_us, t.l2_us, t.l1_us, t.latency_us, t.issue_us, kernel.launches, name);
  } else {
    report.print("{:>12} {:>9.1f} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "no card",
                 analysis::least_us(kernel.counts, gpu), "", "", "", "", kernel.launches, name);
  }
}

}  // namespace

void tell_predicted(const ProgramFiles& program, const std::vector<std::vector<ir::Tensor>>& inputs,
                    const ExecuteOptions& options, const ir::Schedule* schedule,
                    const std::map<std::string, std::int64_t>& dims, const std::string& machine,
                    const std::string& cards_file, Report& report) {
  const analysis::Machine description = analysis::load_machine(machine);
  std::vector<analysis::KernelCard> cards;
  if (!cards_file.empty()) cards = analysis::read_kernel_cards(cards_file);
  if (!description.gpu || !analysis::can_predict(*description.gpu)) {
    report.print("\nno times predicted: machine '{}' does not state what a prediction needs of its GPU\n",
                 machine);
    return;
  }
  if (launched() || options.ranks_as == RanksAs::processes) {
    report.print("\nno times predicted: accesses are counted where ranks are threads\n");
    return;
  }
  const analysis::GpuDescription& gpu = *description.gpu;
  std::vector<Kernel> kernels = counted(program, inputs, options);
  for (Kernel& kernel : kernels)
    for (const analysis::KernelCard& card : cards)
      if (card.program == program.name && card.kernel == kernel.name)
        kernel.time = analysis::predicted_time(kernel.counts, card, gpu);

  nlohmann::ordered_json& json = report.json()["predicted"];
  json = {{"machine", machine}, {"measured", false}, {"kernels", nlohmann::ordered_json::array()}};
  report.print("\npredicted for '{}', not measured; one launch each, in us, with cold caches{}\n", machine,
               cards_file.empty() ? "; without --cards only what DRAM needs at least" : "");
  report.print("{:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "predicted", "memory", "L2", "L1",
               "latency", "issue", "launches", "kernel");
  for (const Kernel& kernel : kernels) {
    json["kernels"].push_back(json_of(kernel, gpu));
    print(kernel, gpu, report);
  }
  if (schedule == nullptr) return;
  for (const auto& [name, work] : work_of(*schedule, dims, machine)) {
    if (!work.product) continue;
    json["products"].push_back({{"name", name}, {"roofline_us", work.roof_us}});
    report.print("{:>12} {:>59}  {}\n", us_text(work.roof_us), "roofline of the library's product", name);
  }
}

}  // namespace braid::cli
