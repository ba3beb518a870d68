// bench --device emulated: times that counts and kernel cards predict.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "analysis/costs/cost_file.h"
#include "analysis/costs/kernel_time.h"
#include "analysis/costs/machine.h"
#include "cli/cuda_library.h"
#include "cli/launched.h"
#include "cli/model_counts.h"
#include "cli/output_files.h"
#include "cli/profile.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::cli {
namespace {

struct Kernel {
  std::string node, name, label;
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
  const rt::CudaLibrary library = open_cuda_library(program);
  const BraidCudaProgram& table = library.table();
  library.count_kernels([&] { execute(program, inputs, options); },
                        [&](const BraidKernelCounts& k) {
                          if (k.rank != 0) return;
                          const bool known = k.node >= 0 && k.node < table.node_count;
                          Kernel kernel{known ? table.nodes[k.node].name : "", k.name,          k.label,
                                        static_cast<double>(k.launches),       model_counts(k), {}};
                          kernel.counts *= 1 / kernel.launches;
                          kernels.push_back(std::move(kernel));
                        });
  return kernels;
}

nlohmann::ordered_json json_of(const Kernel& kernel, const analysis::GpuDescription& gpu) {
  const analysis::KernelCounts& c = kernel.counts;
  nlohmann::ordered_json json = {{"node", kernel.node},
                                 {"name", kernel.name},
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

// Why nothing can be predicted; empty if it can.
std::string obstacle(const analysis::Machine& machine, const std::string& name,
                     const ExecuteOptions& options) {
  if (!machine.gpu || !analysis::can_predict(*machine.gpu))
    return fmt::format("machine '{}' does not state what a prediction needs of its GPU", name);
  if (launched() || options.ranks_as == RanksAs::processes)
    return "accesses are counted where ranks are threads";
  return "";
}

// A node has a time if all of its kernels have.
analysis::CostEntries costs_of(const std::vector<Kernel>& kernels,
                               const std::map<std::string, double>& products) {
  analysis::CostEntries ns;
  std::set<std::string> unknown;
  for (const Kernel& kernel : kernels) {
    if (kernel.node.empty()) continue;
    if (!kernel.time) unknown.insert(kernel.node);
    ns[kernel.node] += kernel.time ? 1e3 * kernel.time->us * kernel.launches : 0;
  }
  for (const auto& [name, us] : products) ns[name] += 1e3 * us;
  for (const std::string& node : unknown) ns.erase(node);
  return ns;
}

}  // namespace

void tell_predicted(const ProgramFiles& program, const std::vector<std::vector<ir::Tensor>>& inputs,
                    const ExecuteOptions& options, const ir::Schedule* schedule,
                    const std::map<std::string, std::int64_t>& dims, const Prediction& prediction,
                    Report& report) {
  const analysis::Machine machine = analysis::load_machine(prediction.machine);
  std::vector<analysis::KernelCard> cards;
  if (!prediction.cards.empty()) cards = analysis::read_kernel_cards(prediction.cards);
  if (const std::string why = obstacle(machine, prediction.machine, options); !why.empty()) {
    if (!prediction.costs.empty()) ir::user_error(errors::kBadOption, {}, "--predicted-costs: " + why);
    report.print("\nno times predicted: {}\n", why);
    return;
  }
  const analysis::GpuDescription& gpu = *machine.gpu;
  std::vector<Kernel> kernels = counted(program, inputs, options);
  for (Kernel& kernel : kernels)
    for (const analysis::KernelCard& card : cards)
      if (card.program == program.name && card.kernel == kernel.name)
        kernel.time = analysis::predicted_time(kernel.counts, card, gpu);
  std::map<std::string, double> products;  // us
  if (schedule != nullptr)
    for (const auto& [name, work] : work_of(*schedule, dims, prediction.machine))
      if (work.product) products[name] = work.roof_us;

  nlohmann::ordered_json& json = report.json()["predicted"];
  json = {{"machine", prediction.machine}, {"measured", false}, {"kernels", nlohmann::ordered_json::array()}};
  report.print("\npredicted for '{}', not measured; one launch each, in us, with cold caches{}\n",
               prediction.machine,
               prediction.cards.empty() ? "; without --cards only what DRAM needs at least" : "");
  report.print("{:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "predicted", "memory", "L2", "L1",
               "latency", "issue", "launches", "kernel");
  for (const Kernel& kernel : kernels) {
    json["kernels"].push_back(json_of(kernel, gpu));
    print(kernel, gpu, report);
  }
  for (const auto& [name, us] : products) {
    json["products"].push_back({{"name", name}, {"roofline_us", us}});
    report.print("{:>12} {:>59}  {}\n", us_text(us), "roofline of the library's product", name);
  }
  if (!prediction.costs.empty())
    write_file(prediction.costs, analysis::write_cost_file(costs_of(kernels, products)));
}

}  // namespace braid::cli
