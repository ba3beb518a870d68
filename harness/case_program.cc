#include "harness/case_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/program.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/interpreter.h"

namespace braid::harness {
namespace {

// A program that was split by hand takes other tensors than the plain case has.
void require_plain_inputs(const ProgramInterface& table, const TestCase& test) {
  for (const TestData& data : test.data) {
    for (std::size_t k = 0; k < std::min(table.inputs.size(), data.inputs[0].size()); ++k) {
      const InputSpec& spec = table.inputs[k];
      const std::vector<std::int64_t>& given = data.inputs[0][k].sizes;
      bool same = given.size() == spec.sizes.size();
      for (std::size_t d = 0; same && d < given.size(); ++d) {
        const std::int64_t size =
            spec.part && spec.part->whole()[d] ? *spec.part->whole()[d] : spec.sizes[d].constant;
        same = size < 0 || size == given[d];
      }
      if (same) continue;
      ir::user_error(
          errors::kRankCount, {.file = test.dir},
          fmt::format(
              "the case is for one rank, and its input '{}' [{}] is none of the program, which is for {}",
              spec.name, fmt::join(given, ", "), table.ranks),
          "give a program that braid compile has split (--devices, --tp, --mesh, --plan)");
    }
  }
}

}  // namespace

std::map<std::string, ir::Tensor> bindable_inputs(const TestCase& test, const TestData& data) {
  std::map<std::string, ir::Tensor> values;
  for (std::size_t k = 0; k < std::min(test.input_names.size(), data.inputs[0].size()); ++k) {
    const auto same = [&](const auto& rank) { return k < rank.size() && rank[k] == data.inputs[0][k]; };
    if (std::all_of(data.inputs.begin(), data.inputs.end(), same))
      values.emplace(test.input_names[k], data.inputs[0][k]);
  }
  return values;
}

CaseProgram::CaseProgram(CompileOptions options, bool interpreted, const ExecuteOptions& execution,
                         const TestCase& test)
    : execution_(execution), schedule_(lower(options)), split_(options.split.wanted()) {
  ranks_ = schedule_.graph.ranks;
  find_bound(options, test);
  if (split_) {
    const ir::Graph& graph = schedule_.graph;
    for (const ir::GraphInput& i : graph.inputs) inputs_.push_back(TensorPart::of(i.part, graph, i.buffer));
    for (const ir::GraphOutput& i : graph.outputs)
      outputs_.push_back(TensorPart::of(i.part, graph, i.buffer));
    require_no_terms(options.model);
  }
  optimise(schedule_, options);
  if (interpreted) return;
  options.output_dir = temporary_.path();
  emit_program(schedule_, options);
  program_ = load_program(find_program(options.output_dir, execution.device, options.model));
}

void CaseProgram::find_bound(const CompileOptions& options, const TestCase& test) {
  for (std::size_t k = 0; k < test.input_names.size(); ++k) {
    const std::string& name = test.input_names[k];
    const auto has_name = [&](const ir::GraphInput& input) { return input.name == name; };
    const auto& left = schedule_.graph.inputs;
    if (!options.import.bindable.count(name) || std::any_of(left.begin(), left.end(), has_name)) continue;
    bound_.insert(name);
    bound_positions_.push_back(k);
  }
}

CaseProgram::CaseProgram(const std::string& dir, const ExecuteOptions& execution, const TestCase& test)
    : execution_(execution), program_(load_program(find_program(dir, execution.device, dir))) {
  const ProgramInterface& table = program_->interface();
  ranks_ = table.ranks;
  split_ = test.ranks == 1 && ranks_ > 1;
  if (ranks_ != test.ranks && !split_) {
    ir::user_error(errors::kRankCount, {.file = test.dir},
                   fmt::format("the case is for {} ranks, but the program is for {}", test.ranks, ranks_),
                   fmt::format("compile the program with --ranks {}", test.ranks));
  }
  if (!split_) return;
  require_plain_inputs(table, test);
  for (const InputSpec& i : table.inputs) inputs_.push_back(i.part);
  for (const ProgramInterface::Output& i : table.outputs) outputs_.push_back(i.part);
  require_no_terms(dir);
}

void CaseProgram::require_no_terms(const std::string& shown) const {
  for (const auto* all : {&inputs_, &outputs_}) {
    const auto term = std::ranges::find_if(*all, [](const auto& part) { return part && part->is_term(); });
    if (term == all->end()) continue;
    ir::user_error(errors::kSplitRequest, {.file = shown},
                   fmt::format("each rank has a term of the {}put {}, but the case has it whole",
                               all == &inputs_ ? "in" : "out", term - all->begin()),
                   "let the plan keep it whole, or split a dimension of it");
  }
}

RankTensors CaseProgram::expected(const TestData& data, std::vector<RankResult>& results) const {
  if (!split_) return data.outputs;
  RankTensors all(static_cast<std::size_t>(ranks_), data.outputs[0]);
  for (RankResult& result : results) {
    std::vector<ir::Tensor>& own = all[static_cast<std::size_t>(result.rank)];
    for (std::size_t k = 0; k < std::min({own.size(), outputs_.size(), result.outputs.size()}); ++k)
      if (outputs_[k] && outputs_[k]->is_whole(own[k]))
        own[k] = outputs_[k]->expected(own[k], result.rank, result.outputs[k]);
  }
  return all;
}

std::vector<RankResult> CaseProgram::run(RankTensors inputs) const {
  for (std::vector<ir::Tensor>& rank : inputs) {
    for (auto k = bound_positions_.rbegin(); k != bound_positions_.rend(); ++k)
      rank.erase(rank.begin() + static_cast<std::ptrdiff_t>(*k));
  }
  if (split_) inputs = RankTensors(static_cast<std::size_t>(ranks_), inputs[0]);
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    for (std::size_t k = 0; k < std::min(inputs_.size(), inputs[r].size()); ++k)
      if (inputs_[k] && inputs_[k]->is_whole(inputs[r][k]))
        inputs[r][k] = inputs_[k]->given(inputs[r][k], static_cast<int>(r));
  }
  if (program_ != nullptr) return execute(*program_, inputs, execution_);
  std::vector<RankResult> results;
  for (std::vector<ir::Tensor>& outputs :
       ir::run(schedule_, inputs, {.use_plan = schedule_.plan.has_value()}).outputs) {
    const int rank = static_cast<int>(results.size());
    results.push_back({.rank = rank, .outputs = std::move(outputs)});
  }
  return results;
}

}  // namespace braid::harness
