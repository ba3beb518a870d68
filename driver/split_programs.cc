#include "driver/split_programs.h"

#include <utility>

#include "driver/optimise.h"
#include "driver/plain_program.h"
#include "driver/split_request.h"
#include "ir/input_file.h"
#include "passes/forward_copies.h"
#include "passes/fuse_horizontal.h"

namespace braid {

using split::FoundPlans;
using split::Graph;
using split::PlannedProgram;
using split::SearchOptions;

namespace {

// The type in which --precision lets products compute.
std::optional<ir::DType> product_type(const CompileOptions& options) {
  if (options.precision == "bf16") return ir::DType::bf16;
  if (options.precision == "f16") return ir::DType::f16;
  if (options.precision == "int8") return ir::DType::i8;
  return std::nullopt;
}

frontend::ImportOptions import_of(const SplitWith& with) {
  frontend::ImportOptions import;
  import.dims = with.dims;
  import.aliases = with.aliases;
  return import;
}

}  // namespace

SplitPrograms::SplitPrograms(const CompileOptions& options)
    : options_(options), quiet_(options), limit_(options.split.memory_limit) {
  const std::shared_ptr<const analysis::CostModel> costs = pass_context(options).costs;
  add(options.model, options.import, options.split.sizes, costs);
  for (const SplitWith& with : options.split.with) add(with.model, import_of(with), {with.sizes}, costs);
  // A complete plan is obeyed as it is.
  if (const std::int64_t capacity = costs->machine().capacity_bytes;
      !limit_ && capacity > 0 && options.split.plan_file.empty())
    limit_ = capacity;
  quiet_.run = {};
  quiet_.run.verify = false;  // the chosen one is compiled again
  quiet_.split = {};
}

void SplitPrograms::add(const std::string& file, const frontend::ImportOptions& import,
                        std::vector<StepSizes> sizes,
                        const std::shared_ptr<const analysis::CostModel>& costs) {
  Program& program = programs_.emplace_back();
  program.file = file;
  program.model = std::make_shared<frontend::PlainModel>(file, import);
  program.sizes = std::move(sizes);
  if (program.sizes.empty()) program.sizes.emplace_back();
  program.aliases = !import.aliases.empty();
  for (const StepSizes& own : program.sizes) {
    const analysis::CostOptions sized{.dims = own.dims, .cost_file = options_.cost_file};
    program.points.push_back(
        {own.dims.empty() ? costs : std::make_shared<const analysis::CostModel>(costs->machine(), sized),
         own.steps});
  }
}

void SplitPrograms::prepare() {
  annotated_ = obeyed_annotations(options_);
  for (Program& program : programs_) {
    ir::Schedule plain = program.model->lower(1, nullptr);
    for (split::PricePoint& point : program.points)
      point.attention_flops = attention_flops(plain, *point.costs);
    program.joins = product_joins(std::move(plain));
  }
  if (const std::string& file = options_.split.keep_file; !file.empty()) {
    keep_ = ir::read_text_file(file);
    programs_[0].model->keep_copies(keep_, file);
  }
}

void SplitPrograms::with_graph(const std::function<void(const Graph&)>& use) {
  programs_[0].model->with_graph(use);
}

SearchOptions SplitPrograms::search_options(bool obey) const {
  SearchOptions search;
  search.obey = obey;
  search.caches = options_.split.caches;
  // A copy may be made in several loops.
  search.largest_fused_copy =
      static_cast<double>(passes::FuseHorizontal{}.small_points * passes::ForwardCopies{}.max_parts);
  search.precision = product_type(options_);
  search.keep = keep_;
  search.keep_file = options_.split.keep_file;
  search.annotated = frontend::sharding::annotations_of(annotated_);
  return options_of(programs_[0], std::move(search));
}

SearchOptions SplitPrograms::options_of(const Program& program, SearchOptions common) const {
  const split::PricePoint& first = program.points[0];
  common.steps = first.steps;
  common.attention_flops = first.attention_flops;
  common.points.assign(program.points.begin() + 1, program.points.end());
  common.joins = program.joins;
  common.aliases = program.aliases;
  if (&program != &programs_[0]) common.keep.clear();
  return common;
}

std::vector<FoundPlans> SplitPrograms::find_plans(const std::vector<split::Mesh>& meshes,
                                                  const SearchOptions& options) {
  std::vector<FoundPlans> found;
  std::vector<PlannedProgram> planned;
  for (const Program& program : programs_)
    planned.push_back({nullptr, program.points[0].costs, options_of(program, options)});
  // Graphs are valid during the calls that give them.
  const auto search = [&](const auto& self, std::size_t p) -> void {
    if (p < planned.size()) {
      programs_[p].model->with_graph([&](const Graph& graph) {
        planned[p].graph = &graph;
        self(self, p + 1);
      });
      return;
    }
    if (several() && !shared_) {
      std::vector<const Graph*> graphs;
      std::vector<std::string> files;
      for (const PlannedProgram& one : planned) graphs.push_back(one.graph);
      for (const Program& program : programs_) files.push_back(program.file);
      shared_ = split::shared_tensors(graphs, files);
    }
    found = split::find_plans(planned, shared_.value_or(split::SharedTensors{}), meshes);
  };
  search(search, 0);
  return found;
}

analysis::Time SplitPrograms::least_time(int ranks) {
  analysis::Time sum;
  for (Program& program : programs_) {
    program.model->with_graph([&](const Graph& graph) {
      const split::PricePoint& first = program.points[0];
      sum.ps += first.steps *
                split::least_time(graph, ranks, first.costs, options_of(program, search_options(false))).ps;
    });
  }
  return sum;
}

}  // namespace braid
