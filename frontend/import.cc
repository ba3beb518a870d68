#include "frontend/import.h"

#include <fmt/format.h>

#include "frontend/alias.h"
#include "frontend/bind_inputs.h"
#include "frontend/check.h"
#include "frontend/check_supported.h"
#include "frontend/class_outputs.h"
#include "frontend/convert_version.h"
#include "frontend/copies.h"
#include "frontend/dead_nodes.h"
#include "frontend/dims.h"
#include "frontend/inline.h"
#include "frontend/load.h"
#include "frontend/load_ranks.h"
#include "frontend/lower_graph.h"
#include "frontend/rank_model.h"
#include "frontend/schemas.h"
#include "frontend/seed_random.h"
#include "frontend/sharding/node_order.h"
#include "frontend/sharding/onnx_graph.h"
#include "frontend/sharding/split.h"
#include "frontend/value_needed.h"
#include "ir/error_numbers.h"
#include "split/plan.h"

namespace braid::frontend {

namespace {

// The dimensions without those that the model had before inputs became constants, and has no longer.
DimBounds dims_left(const std::set<std::string>& before, const Model& bound, DimBounds dims) {
  const std::set<std::string> left = dimension_names(bound);
  std::erase_if(dims, [&](const auto& d) { return before.count(d.first) > 0 && left.count(d.first) == 0; });
  return dims;
}

// A model that is read, checked and in its normal form: functions inlined, old versions converted.
struct Ready {
  Model model;
  Opsets opsets;
  DimBounds dims;
  std::string annotations;         // annotations_of
  std::set<std::string> left_out;  // values that only copied others, or were copied
};

// The annotations for several devices that the model has, in a sentence; empty: none.
std::string annotations_of(const onnx::ModelProto& model) {
  std::set<std::string> used;
  for (const onnx::NodeProto& node : model.graph().node()) {
    for (const onnx::NodeDeviceConfigurationProto& own : node.device_configurations())
      used.insert(own.configuration_id());
  }
  std::string names;
  for (const onnx::DeviceConfigurationProto& own : model.configuration()) {
    if (used.count(own.name()) > 0)
      names += fmt::format("{}'{}' of {}", names.empty() ? "" : ", ", own.name(), own.num_devices());
  }
  if (names.empty()) return {};
  return fmt::format(
      "the model is annotated for several devices (configuration {}), but is not split: --configuration NAME "
      "splits it so",
      names);
}

// Receives notes; may be null.
using Note = std::function<void(const std::string& text)>;

// Reads the model with the inputs in `bound` as constants. Identities of values in `named` stay. If this
// throws, `ready` holds the model as far as it has come.
void read_model(Ready& ready, const std::string& path, const ImportOptions& options,
                const std::set<std::string>& bound, std::set<std::string> named, const Note& note) {
  ready = {load_ranks(path, options.ranks), {}, options.dims, {}, {}};
  Model& model = ready.model;
  ready.annotations = annotations_of(model.proto);
  leave_out_maps_and_strings(model, note);
  if (!bound.empty() || !options.fixed.empty()) {
    const std::set<std::string> before = dimension_names(model);
    fix_inputs(model, options.fixed, ready.dims);
    bind_inputs(model, options.bindable, bound);
    ready.dims = dims_left(before, model, std::move(ready.dims));
  }

  Opsets& opsets = ready.opsets;
  opsets = check_versions(model);
  check_structure(model, opsets);
  drop_dead_nodes(model, lowered_opsets(opsets));
  drop_unread_inputs(model, lowered_opsets(opsets), note);
  check_supported(model, lowered_opsets(opsets));
  resolve_dims(model, ready.dims);
  check_declarations(model, note);
  check_with_onnx(model);
  if (convert_old_model(model, opsets, ready.dims, options.ranks)) {
    opsets = check_versions(model);
    check_with_onnx(model);
  }
  if (inline_functions(model, ready.dims, options.ranks)) {
    opsets = check_versions(model);  // functions bring imports of their own
    drop_dead_nodes(model, opsets);
    check_supported(model, opsets);
    check_with_onnx(model);
  }
  if (options.seed) seed_random_nodes(*model.proto.mutable_graph(), opsets, *options.seed);
  if (!options.keep_values) {
    named.merge(annotated_names(model.proto.graph()));
    ready.left_out = leave_out_copies(*model.proto.mutable_graph(), named);
  }
}

ir::Schedule lower_ready(const Ready& ready, int ranks, const ImportOptions& options, const Note& note,
                         bool measures = false) {
  LowerOptions lowering{ready.dims, ranks, options.keep_values};
  lowering.measure = {
      .allowed = measures, .capacities = options.capacities, .default_capacity = options.default_capacity};
  lowering.note = note;
  ir::Schedule schedule = lower_graph(ready.model, ready.opsets, lowering);
  // The sizes of outputs are known only after the first lowering.
  if (!options.aliases.empty()) lowering.capacities = growing_inputs(schedule, options.aliases);
  if (lowering.capacities.empty()) return schedule;
  return lower_graph(ready.model, ready.opsets, lowering);
}

// The tensors and nodes of which the plan of a request speaks.
std::set<std::string> names_in(const sharding::SplitRequest& split) {
  if (split.plan.empty()) return {};
  return split::names_in(split::parse_mesh_plan(split.plan, split.plan_file));
}

// A plain model in the order of its own in which it is split. Lowering it determines all sizes and the values
// that are known at compile time.
struct Plain {
  Plain(const Ready& given, const Note& note) : ready(given) {
    sharding::order_by_outputs(*ready.model.proto.mutable_graph());
    sharding::require_plain(ready.model, ready.opsets);
    schedule = lower_graph(ready.model, ready.opsets, {.dims = ready.dims, .facts = &facts, .note = note});
    graph = sharding::make_graph(ready.model, ready.opsets, facts);
  }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;

  // The model of one rank, from axis to axis of the mesh.
  Ready split(int ranks, const sharding::SplitRequest& request) const {
    Ready local = ready;
    sharding::Splitter splitter(request, ranks);
    for (bool first = true; !splitter.done(); first = false) {
      GraphFacts own;
      std::optional<ir::Schedule> so_far;
      if (!first)
        so_far = lower_graph(local.model, local.opsets,
                             {.dims = local.dims, .ranks = splitter.ranks(), .facts = &own});
      local.model = splitter.next(local.model, local.opsets, first ? facts : own);
      // Removes the Identity nodes that return values which an axis has converted, since a model that is read
      // again has none either.
      if (splitter.done()) leave_out_copies(*local.model.proto.mutable_graph(), {});
      local.opsets = check_versions(local.model);
      check_with_onnx(local.model);
    }
    return local;
  }

  Ready ready;
  GraphFacts facts;
  ir::Schedule schedule;  // has the expressions of the facts
  split::Graph graph;
};

void check_ranks(const std::string& path, const ImportOptions& options) {
  if (options.ranks < 1)
    ir::user_error(errors::kRankCount, {.file = path}, fmt::format("{} ranks", options.ranks),
                   "the number of ranks must be at least 1");
}

}  // namespace

struct PlainModel::State {
  std::string path;
  ImportOptions options;
  std::set<std::string> bound, named;  // bound: inputs; named: values that plans name
  std::set<std::string> told;          // notes
  bool measures = false;               // sizes that the data decide: where binding inputs does not help
  const Note note = [this](const std::string& text) {
    if (options.note && told.insert(text).second) options.note(text);
  };
  std::optional<Ready> ready;
  std::unique_ptr<Plain> plain;

  // Calls `use` with the model, and again with more inputs bound if it needs their values. `use` sets the
  // model that it lowers.
  template <class Use>
  auto with_model(const Use& use) {
    for (;;) {
      Ready made;
      const Model* model = &made.model;
      std::optional<Ready> local;
      try {
        if (!ready) {
          read_model(made, path, options, bound, named, note);
          ready = std::move(made);
        }
        model = &ready->model;
        return use(local, model);
      } catch (const ValueNeeded& needed) {
        bool more = false;
        for (const std::string& input : inputs_behind(*model, needed.value()))
          more |= options.bindable.count(input) > 0 && bound.insert(input).second;
        if (!more && measures) throw;
        measures = measures || !more;
        plain.reset();
        ready.reset();
      }
    }
  }

  ir::Schedule with_aliases(ir::Schedule schedule) const {
    for (const auto& [output, input] : options.aliases) add_alias(schedule, output, input);
    return schedule;
  }

  const Plain& made_plain() {
    if (!plain) plain = std::make_unique<Plain>(*ready, note);
    return *plain;
  }

  void keep_copies(const std::set<std::string>& names) {
    for (const std::string& name : names) {
      named.insert(name);
      if (!ready || ready->left_out.count(name) == 0) continue;
      plain.reset();
      ready.reset();
    }
  }
};

PlainModel::PlainModel(const std::string& path, const ImportOptions& options)
    : state_(std::make_unique<State>()) {
  register_schemas();
  check_ranks(path, options);
  state_->path = path;
  state_->options = options;
  state_->measures = options.bindable.empty();
}

PlainModel::~PlainModel() = default;

ir::Schedule PlainModel::lower(int ranks, const sharding::SplitRequest* split) {
  if (split != nullptr) state_->keep_copies(names_in(*split));
  ir::Schedule schedule = state_->with_model([&](std::optional<Ready>& local, const Model*& model) {
    const Plain& plain = state_->made_plain();
    if (split == nullptr) return lower_ready(plain.ready, ranks, state_->options, {});
    local = plain.split(ranks, *split);
    model = &local->model;
    return lower_ready(*local, ranks, state_->options, {});
  });
  return state_->with_aliases(std::move(schedule));
}

ir::Schedule PlainModel::lower() {
  return state_->with_aliases(state_->with_model([&](std::optional<Ready>&, const Model*&) {
    if (!state_->ready->annotations.empty()) state_->note(state_->ready->annotations);
    return lower_ready(*state_->ready, state_->options.ranks, state_->options, state_->note,
                       state_->measures);
  }));
}

void PlainModel::keep_copies(const std::string& plan, const std::string& file) {
  state_->keep_copies(split::names_in(split::parse_mesh_plan(plan, file)));
}

void PlainModel::with_graph(const std::function<void(const split::Graph&)>& use) {
  state_->with_model([&](std::optional<Ready>&, const Model*&) { use(state_->made_plain().graph); });
}

ir::Schedule import_model(const std::string& path, const ImportOptions& options) {
  PlainModel model(path, options);
  return options.split ? model.lower(options.ranks, options.split.get()) : model.lower();
}

RankModel rank_model(const std::string& path, const ImportOptions& options) {
  register_schemas();
  check_ranks(path, options);
  const std::set<std::string> named = options.split ? names_in(*options.split) : std::set<std::string>{};
  Ready ready;
  read_model(ready, path, options, {}, named, options.note);
  if (options.split) ready = Plain(ready, options.note).split(options.ranks, *options.split);
  return {std::move(ready.model), std::move(ready.opsets), std::move(ready.dims), options.ranks};
}

ElementTypes element_types(const RankModel& model) {
  GraphFacts facts;
  const ir::Schedule schedule =
      lower_graph(model.model, model.opsets, {.dims = model.dims, .ranks = model.ranks, .facts = &facts});
  ElementTypes types;
  for (const auto& [name, value] : facts.values) {
    if (value.tensor) types[name] = value.dtype;
  }
  return types;
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
