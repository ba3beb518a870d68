#include "frontend/import.h"

#include <fmt/format.h>

#include "frontend/alias.h"
#include "frontend/bind_inputs.h"
#include "frontend/check.h"
#include "frontend/check_supported.h"
#include "frontend/convert_version.h"
#include "frontend/dims.h"
#include "frontend/errors.h"
#include "frontend/inline.h"
#include "frontend/load.h"
#include "frontend/load_ranks.h"
#include "frontend/lower_graph.h"
#include "frontend/normalise.h"
#include "frontend/rank_model.h"
#include "frontend/schemas.h"
#include "frontend/sharding/split.h"
#include "frontend/value_needed.h"

namespace braid::frontend {

namespace {

// The model's dimensions without those that only inputs in `bound` have.
DimBounds dims_left(const Model& with_all_inputs, const Model& bound, DimBounds dims) {
  const std::set<std::string> before = dimension_names(with_all_inputs), left = dimension_names(bound);
  std::erase_if(dims, [&](const auto& d) { return before.count(d.first) > 0 && left.count(d.first) == 0; });
  return dims;
}

// The model of one rank, from axis to axis of the mesh. Lowering tells all sizes, and what is known while compiling.
void split(Model& model, Opsets& opsets, InferredTypes& types, DeclaredTypes& declared, const DimBounds& dims,
           const ImportOptions& options) {
  sharding::require_plain(model, opsets);
  sharding::Splitter splitter(*options.split, options.ranks);
  while (!splitter.done()) {
    GraphFacts facts;
    const ir::Schedule so_far = lower_graph(model, opsets, types, declared,
                                            {.dims = dims, .ranks = splitter.ranks(), .facts = &facts});
    model = splitter.next(model, opsets, facts);
    opsets = check_versions(model);
    declare_initializers(model);
    check_with_onnx(model);
    declared = declared_types(model);
    infer_shapes(model);
    types = types_of(model);
  }
}

// A model that is ready to be lowered.
struct Prepared {
  Model model;
  Opsets opsets;
  DeclaredTypes declared;
  DimBounds dims;
};

// Load, check, normalise, split; the inputs in `bound` become constants. Writes into `p` as far as it gets.
void prepare(const std::string& path, const ImportOptions& options, const std::set<std::string>& bound,
             Prepared& p) {
  Model& model = p.model = load_ranks(path, options.ranks);
  p.dims = options.dims;
  if (!bound.empty()) {
    const Model unbound = model;
    bind_inputs(model, options.bindable, bound);
    p.dims = dims_left(unbound, model, std::move(p.dims));
  }

  p.opsets = check_versions(model);
  check_structure(model, p.opsets);
  lift_old_constants(model, p.opsets);
  if (convert_old_model(model, p.opsets)) {
    p.opsets = check_versions(model);
    lift_old_constants(model, p.opsets);  // the converter makes some
  }
  check_supported(model, p.opsets);
  resolve_dims(model, p.dims);
  check_declarations(model);
  declare_initializers(model);
  check_with_onnx(model);

  if (inline_functions(model)) {
    p.opsets = check_versions(model);  // functions bring imports of their own
    check_supported(model, p.opsets);
    check_with_onnx(model);
  }
  p.declared = declared_types(model);
  infer_shapes(model);
  InferredTypes types = types_of(model);
  check_supported(model, p.opsets, types);
  if (options.split) split(model, p.opsets, types, p.declared, p.dims, options);
}

// nullopt if more inputs must be bound; these have been added to `bound`.
std::optional<ir::Schedule> import_bound(const std::string& path, const ImportOptions& options,
                                         std::set<std::string>& bound) {
  Prepared p;
  try {
    prepare(path, options, bound, p);
    const InferredTypes types = types_of(p.model);
    LowerOptions lowering{p.dims, options.ranks, options.keep_values};
    ir::Schedule schedule = lower_graph(p.model, p.opsets, types, p.declared, lowering);
    // What an output's sizes are is known only now.
    if (!options.aliases.empty()) lowering.capacities = growing_inputs(schedule, options.aliases);
    if (lowering.capacities.empty()) return schedule;
    return lower_graph(p.model, p.opsets, types, p.declared, lowering);
  } catch (const ValueNeeded& needed) {
    bool more = false;
    for (const std::string& input : inputs_behind(p.model, needed.value()))
      more |= options.bindable.count(input) > 0 && bound.insert(input).second;
    if (!more) throw;
    return std::nullopt;
  }
}

void check_ranks(const std::string& path, const ImportOptions& options) {
  if (options.ranks < 1)
    ir::user_error(kRankCount, {.file = path}, fmt::format("{} ranks", options.ranks),
                   "the number of ranks must be at least 1");
}

}  // namespace

ir::Schedule import_model(const std::string& path, const ImportOptions& options) {
  register_schemas();
  check_ranks(path, options);
  std::set<std::string> bound;
  std::optional<ir::Schedule> schedule;
  while (!schedule) schedule = import_bound(path, options, bound);
  for (const auto& [output, input] : options.aliases) add_alias(*schedule, output, input);
  return std::move(*schedule);
}

Model rank_model(const std::string& path, const ImportOptions& options) {
  register_schemas();
  check_ranks(path, options);
  Prepared p;
  prepare(path, options, {}, p);
  return std::move(p.model);
}

std::map<std::string, ir::Bounds> default_dims(const std::string& path,
                                               const std::map<std::string, ir::Bounds>& given,
                                               ir::Bounds fallback) {
  return default_dims(dimension_names(path_of_rank(path, 0)), given, fallback);
}

std::map<std::string, ValueSource> value_sources(const std::string& path) {
  const Model model = load_model(path_of_rank(path, 0));
  std::map<std::string, ValueSource> sources;
  for (const onnx::NodeProto& node : model.proto.graph().node()) {
    for (const std::string& output : node.output())
      if (!output.empty()) sources[output] = {name_of(node), node.op_type()};
  }
  return sources;
}

std::set<std::string> dimension_names(const std::string& path) { return dimension_names(load_model(path)); }

}  // namespace braid::frontend
