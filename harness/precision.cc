#include "harness/precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "codegen/temp_dir.h"
#include "harness/compare.h"
#include "harness/program.h"

namespace braid::harness {
namespace {

class Trials {
 public:
  Trials(const CompileOptions& options, const LimitRequest& request)
      : options_(options), execution_(request.execution), lowered_(lower(options)) {
    const passes::PassContext context = pass_context(options);
    for (const passes::PrecisionChoice& choice : lower_precision(options).choices(lowered_, context)) {
      ++products_;
      if (choice.reason.empty()) chosen_.push_back(choice.name);
    }
    CompileOptions wide = options;
    wide.precision = "f32";
    const codegen::TempDir folder;
    const std::shared_ptr<const Program> program = build(wide, folder);
    inputs_ = request.inputs(program->interface());
    expected_ = execute(*program, inputs_, execution_);
    outputs_ = program->interface().outputs;
  }

  std::size_t products() const { return products_; }
  const std::vector<std::string>& chosen() const { return chosen_; }

  // The largest error of an output if these stay in f32.
  double error(const std::vector<std::string>& kept) const {
    CompileOptions narrow = options_;
    narrow.keep_f32 = kept;
    const codegen::TempDir folder;
    const std::vector<RankResult> results = execute(*build(narrow, folder), inputs_, execution_);
    double worst = 0;
    for (std::size_t r = 0; r < results.size(); ++r) {
      for (std::size_t k = 0; k < results[r].outputs.size(); ++k) {
        const auto own = [&](const RankResult& result) {
          const std::optional<TensorPart>& part = outputs_[k].part;
          return part ? part->without_padding(result.outputs[k], result.rank) : result.outputs[k];
        };
        const Difference d =
            compare(own(results[r]), own(expected_[r]), {.relative = 0, .absolute = 0, .of_largest = 0});
        const bool known = std::isfinite(d.max_relative) && (d.mismatches == 0 || d.max_relative > 0);
        worst = std::max(worst, known ? d.max_relative : std::numeric_limits<double>::infinity());
      }
    }
    return worst;
  }

 private:
  std::shared_ptr<const Program> build(CompileOptions options, const codegen::TempDir& folder) const {
    ir::Schedule schedule = lowered_;
    optimise(schedule, options);
    options.output_dir = folder.path();
    emit_program(schedule, options);
    return load_program(find_program(folder.path(), execution_.device, options.model));
  }

  CompileOptions options_;
  ExecuteOptions execution_;
  ir::Schedule lowered_;
  std::size_t products_ = 0;
  std::vector<std::string> chosen_;
  RankTensors inputs_;
  std::vector<RankResult> expected_;
  std::vector<ProgramInterface::Output> outputs_;
};

}  // namespace

double default_limit(const std::string& precision) {
  if (precision == "bf16") return 2e-2;
  if (precision == "f16" || precision == "tf32") return 5e-3;
  if (precision == "int8") return 1e-1;
  return 1e-5;
}

LimitedPrecision limit_error(CompileOptions& options, const LimitRequest& request) {
  const double max_error = request.max_error;
  request.progress("comparing with float32");
  const Trials trials(options, request);
  LimitedPrecision result{trials.products(), {}, trials.error({})};
  const std::vector<std::string>& chosen = trials.chosen();
  if (result.error <= max_error || chosen.empty()) return result;

  std::vector<std::pair<double, std::string>> ranked;
  for (std::size_t k = 0; k < chosen.size(); ++k) {
    request.progress(fmt::format("measuring the error of product {} of {}", k + 1, chosen.size()));
    std::vector<std::string> others = chosen;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
    ranked.emplace_back(trials.error(others), chosen[k]);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const auto first = [&](std::size_t count) {
    std::vector<std::string> names;
    for (std::size_t k = 0; k < count; ++k) names.push_back(ranked[k].second);
    return names;
  };
  // With all of them in f32 the error is 0. Errors need not fall with each, but every accepted number has
  // been measured.
  std::size_t too_few = 0, enough = ranked.size();
  result.error = 0;
  while (enough - too_few > 1) {
    const std::size_t middle = too_few + (enough - too_few) / 2;
    request.progress(fmt::format("returning {} of {} products to float32", middle, ranked.size()));
    const double error = trials.error(first(middle));
    if (error <= max_error) {
      enough = middle;
      result.error = error;
    } else {
      too_few = middle;
    }
  }
  result.kept = first(enough);
  options.keep_f32 = result.kept;
  return result;
}

}  // namespace braid::harness
