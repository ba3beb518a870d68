// bench --device emulated: times that counts and kernel cards predict.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "analysis/costs/cost_file.h"
#include "analysis/costs/kernel_time.h"
#include "analysis/costs/machine.h"
#include "cli/profile.h"
#include "codegen/output_files.h"
#include "harness/kernel_prediction.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::cli {
namespace {

using harness::CountedKernel;

std::string us_text(double us) { return fmt::format("{:.1f} us", us); }

nlohmann::ordered_json json_of(const CountedKernel& kernel, const analysis::GpuDescription& gpu) {
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

void print(const CountedKernel& kernel, const analysis::GpuDescription& gpu, const Report& report) {
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

void tell_predicted(const harness::Program& program, const harness::RankTensors& inputs,
                    const harness::ExecuteOptions& options, const ir::Schedule* schedule,
                    const std::map<std::string, std::int64_t>& dims, const Prediction& prediction,
                    Report& report) {
  const analysis::Machine machine = analysis::load_machine(prediction.machine);
  std::vector<analysis::KernelCard> cards;
  if (!prediction.cards.empty()) cards = analysis::read_kernel_cards(prediction.cards);
  if (const std::string why = harness::why_not_predicted(machine, prediction.machine, options);
      !why.empty()) {
    if (!prediction.costs.empty()) ir::user_error(errors::kBadOption, {}, "--predicted-costs: " + why);
    report.print("\nno times predicted: {}\n", why);
    return;
  }
  const analysis::GpuDescription& gpu = *machine.gpu;
  std::vector<CountedKernel> kernels = harness::count_kernels(program, inputs, options);
  for (CountedKernel& kernel : kernels)
    for (const analysis::KernelCard& card : cards)
      if (card.program == program.files().name && card.kernel == kernel.name)
        kernel.time = analysis::predicted_time(kernel.counts, card, gpu);
  std::map<std::string, double> products;  // us
  if (schedule != nullptr)
    for (const auto& [name, work] : harness::work_of(*schedule, dims, prediction.machine))
      if (work.product) products[name] = work.roof_us;

  nlohmann::ordered_json& json = report.json()["predicted"];
  json = {{"machine", prediction.machine}, {"measured", false}, {"kernels", nlohmann::ordered_json::array()}};
  report.print("\npredicted for '{}', not measured; one launch each, in us, with cold caches{}\n",
               prediction.machine,
               prediction.cards.empty() ? "; without --cards only what DRAM needs at least" : "");
  report.print("{:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "predicted", "memory", "L2", "L1",
               "latency", "issue", "launches", "kernel");
  for (const CountedKernel& kernel : kernels) {
    json["kernels"].push_back(json_of(kernel, gpu));
    print(kernel, gpu, report);
  }
  for (const auto& [name, us] : products) {
    json["products"].push_back({{"name", name}, {"roofline_us", us}});
    report.print("{:>12} {:>59}  {}\n", us_text(us), "roofline of the library's product", name);
  }
  if (!prediction.costs.empty())
    codegen::write_file(prediction.costs,
                        analysis::write_cost_file(harness::predicted_costs(kernels, products)));
}

}  // namespace braid::cli
