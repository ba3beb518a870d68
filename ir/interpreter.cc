#include "ir/interpreter.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <set>

#include "ir/element.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/extern_registry.h"
#include "ir/interpreter_collectives.h"
#include "ir/interpreter_kernels.h"
#include "ir/interpreter_memory.h"
#include "ir/kernel_parts.h"
#include "ir/measured_dims.h"

namespace braid::ir {
namespace {

std::string sizes_text(std::span<const std::int64_t> sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

// Solves for the one unknown dimension in an input's size `e`, whose value is `actual`.
void solve(Expr e, std::int64_t actual, std::map<std::string, std::int64_t>& dims) {
  std::optional<Expr> unknown;
  int count = 0;
  for_each_symbol(e, [&](Expr s) {
    if (dims.count(s.dim_name())) return;
    unknown = s;
    ++count;
  });
  if (count != 1 || !stride_of(e, *unknown)) return;
  const auto at = [&](std::int64_t value) {
    return evaluate(e, [&](Expr s) { return s == *unknown ? value : dims.at(s.dim_name()); });
  };
  const std::int64_t base = at(0), stride = at(1) - base;
  if (stride == 0 || (actual - base) % stride != 0) return;
  dims.emplace(unknown->dim_name(), (actual - base) / stride);
}

void check_guard(const Guard& g, const std::function<std::int64_t(Expr)>& value) {
  const std::int64_t a = evaluate(g.lhs, value), b = evaluate(g.rhs, value);
  const bool equal = g.relation == Guard::Relation::equal;
  if (equal ? a == b : a <= b) return;
  user_error(errors::kGuardViolated, {{}, g.origin, {}},
             fmt::format("{} {} {} does not hold: {} and {}", to_string(g.lhs),
                         equal ? "==" : "<=", to_string(g.rhs), a, b));
}

class Rank {
 public:
  Rank(const Schedule& program, int rank, std::map<std::string, std::int64_t> dims,
       const InterpreterOptions& options, Exchanges& exchanges)
      : schedule_(program),
        g_(program.graph),
        options_(options),
        exchanges_(exchanges),
        memory_(program, rank, std::move(dims), options.use_plan) {
    for (std::size_t step = 0; step < program.nodes.size(); ++step) {
      for (OpId op : ops_of(program.nodes[step])) {
        top_.push_back(op);
        step_of_.push_back(static_cast<int>(step));
      }
    }
    for (const Operation& op : g_.ops) {
      if (const auto* r = op.as<ReleaseKernel>()) released_.insert(r->start);
    }
    frames_.push_back({&top_, 0, {}, 0, 0});
  }

  RankMemory& memory() { return memory_; }
  bool finished() const { return frames_.empty(); }
  const std::string& blocked_on() const { return blocked_on_; }

  // Runs up to `limit` operations; false if it could not run even one.
  bool advance(std::int64_t limit) {
    bool progress = false;
    for (std::int64_t n = 0; n < limit && !frames_.empty(); ++n) {
      if (!one_operation()) return progress;
      progress = true;
    }
    return progress;
  }

 private:
  struct Frame {
    const std::vector<OpId>* ops;
    std::size_t pc;
    OpId kernel;  // the region kernel; invalid at the top
    std::size_t region;
    std::int64_t trips_left;
  };

  bool one_operation() {
    Frame& frame = frames_.back();
    if (frame.pc == frame.ops->size()) {
      leave_region();
      return true;
    }
    const OpId op = (*frame.ops)[frame.pc];
    if (frames_.size() == 1) memory_.begin_step(step_of_[frame.pc]);
    blocked_on_.clear();
    const std::size_t depth = frames_.size();
    if (!execute(op)) return false;
    // Entering a region has pushed a frame: the kernel is done when the frame is left.
    if (frames_.size() == depth) op_done();
    return true;
  }

  void op_done() {
    Frame& frame = frames_.back();
    const std::size_t at = frame.pc++;
    if (frames_.size() != 1) return;
    if (at + 1 == top_.size() || step_of_[at + 1] != step_of_[at]) memory_.step_done(step_of_[at]);
    if (frame.pc == top_.size()) frames_.clear();
  }

  void leave_region() {
    Frame& frame = frames_.back();
    if (!frame.kernel.valid()) {
      frames_.clear();
      return;
    }
    const Operation& op = g_[frame.kernel];
    const auto& kernel = *op.as<RegionKernel>();
    const Region& region = kernel.regions[frame.region];
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const ByteView from = memory_.view(region.yields[i]), to = memory_.view(op.outputs[i]);
      memory_.write(to, memory_.read(from, op.name), op.name);
    }
    if (kernel.kind == RegionKind::while_true ? is_true(op, kernel) : --frame.trips_left > 0) {
      frame.pc = 0;
      return;
    }
    frames_.pop_back();
    op_done();
  }

  // Whether it is done; otherwise it is tried again when other ranks have gone on.
  bool execute(OpId id) {
    const Operation& op = g_[id];
    return std::visit([&](const auto& k) { return execute(id, op, k); }, op.kernel);
  }

  template <class K>
  bool execute(OpId, const Operation& op, const K& k) {
    run_kernel(memory_, op, k);
    return true;
  }

  const ExternFn* function_of(const Operation& op, const ExternKernel& k) const {
    const auto given = options_.externs.find(k.callee);
    if (given != options_.externs.end()) return &given->second;
    if (const ExternKernelSpec* spec = find_extern_kernel(k.callee)) {
      const std::string why = spec->refuses(g_, k);
      if (!why.empty())
        user_error(errors::kExternKernel, {{}, op.name, {}},
                   fmt::format("the extern kernel '{}' {}", k.callee, why));
      return &spec->interpret;
    }
    const auto other = options_.externs.find("");
    return other == options_.externs.end() ? nullptr : &other->second;
  }

  bool execute(OpId, const Operation& op, const ExternKernel& k) {
    const ExternFn* function = function_of(op, k);
    if (function == nullptr) {
      if (k.writes.empty()) return true;
      user_error(errors::kExternKernel, {{}, op.name, {}},
                 fmt::format("there is no implementation of the extern kernel '{}'", k.callee));
    }
    ExternCall c{op, memory_.rank(), {}, {}};
    for (const TensorRef& r : k.reads) {
      const ByteView v = memory_.view(r);
      c.reads.push_back({v.dtype, v.sizes, memory_.read(v, op.name)});
    }
    for (const TensorRef& r : k.writes) {
      const ByteView v = memory_.view(r);
      c.writes.push_back(make_tensor(v.dtype, v.sizes));
    }
    (*function)(c);
    for (std::size_t i = 0; i < k.writes.size(); ++i)
      memory_.write(memory_.view(k.writes[i]), c.writes[i].bytes, op.name);
    return true;
  }

  bool execute(OpId id, const Operation& op, const Measure& k) {
    std::int64_t value = 0;
    std::memcpy(&value, memory_.read(memory_.view(k.value), op.name).data(), sizeof value);
    if (const Bounds b = bounds(k.dim); value < b.min || value > b.max) {
      user_error(errors::kSizeOutOfBounds, {{}, op.origins.empty() ? op.name : op.origins.front(), {}},
                 fmt::format("dimension '{}' is {}, {}", k.dim.dim_name(), value,
                             value > b.max ? fmt::format("more than its capacity of {}", b.max)
                                           : fmt::format("less than {}", b.min)));
    }
    memory_.set_dim(k.dim, value);
    for (const std::size_t guard : guards_after(g_, top_, id))
      check_guard(g_.guards[guard], [&](Expr s) { return memory_.dim(s); });
    return true;
  }

  bool execute(OpId id, const Operation& op, const CollectiveKernel& k) {
    auto it = open_.find(id);
    if (it == open_.end()) it = open_.emplace(id, exchanges_.start(memory_, op, k)).first;
    if (!k.blocking) return true;
    Exchange* e = it->second;
    if (e && !e->all_started()) return blocked(op, *e, false);
    if (e) exchanges_.finish(*e, memory_.rank(), false);
    open_.erase(it);
    return true;
  }

  bool execute(OpId, const Operation& op, const WaitKernel& k) {
    const OpId start = k.start;
    const auto it = open_.find(start);
    internal_check(it != open_.end(), "'{}' waits for '{}', which has not started", op.name, g_[start].name);
    Exchange* e = it->second;
    if (e && !e->all_started()) return blocked(op, *e, false);
    const bool keep = released_.count(start) != 0;
    if (e) exchanges_.finish(*e, memory_.rank(), keep);
    if (!keep) open_.erase(it);
    return true;
  }

  bool execute(OpId, const Operation& op, const ReleaseKernel& k) {
    const OpId start = k.start;
    const auto it = open_.find(start);
    internal_check(it != open_.end(), "'{}' releases '{}', which has not started", op.name, g_[start].name);
    // A rank that only receives has no memory that its peer still reads.
    const bool read_by_peers = !g_[start].as<CollectiveKernel>()->inputs.empty();
    if (read_by_peers && it->second && !it->second->all_done()) return blocked(op, *it->second, true);
    open_.erase(it);
    return true;
  }

  bool blocked(const Operation& op, const Exchange& e, bool results) {
    blocked_on_ = fmt::format("rank {} is in '{}', which needs {} to {}", memory_.rank(), op.name,
                              e.missing(results), results ? "get its results" : "start");
    return false;
  }

  // The condition of a branch or a while.
  bool is_true(const Operation& op, const RegionKernel& k) {
    return memory_.read(memory_.view(k.operands[0]), op.name)[0] != std::byte{0};
  }

  bool execute(OpId id, const Operation& op, const RegionKernel& k) {
    const std::size_t region = k.kind == RegionKind::branch && !is_true(op, k) ? 1 : 0;
    std::int64_t trips = 1;
    if (k.kind == RegionKind::repeat) trips = memory_.size(k.trips);
    if (k.kind == RegionKind::while_true) trips = is_true(op, k) ? 1 : 0;
    if (trips > 0) frames_.push_back({&k.regions[region].ops, 0, id, region, trips});
    return true;
  }

  const Schedule& schedule_;
  const Graph& g_;
  const InterpreterOptions& options_;
  Exchanges& exchanges_;
  RankMemory memory_;
  std::vector<OpId> top_;
  std::vector<int> step_of_;
  std::set<OpId> released_;         // starts that have a release
  std::map<OpId, Exchange*> open_;  // started, not yet waited for or released; null: not this rank's
  std::vector<Frame> frames_;
  std::string blocked_on_;
};

// Operations of the schedule, including those inside regions.
void collect_ops(const Graph& g, std::span<const OpId> ops, std::vector<OpId>& out) {
  for (OpId id : ops) {
    out.push_back(id);
    if (const auto* k = g[id].as<RegionKernel>()) {
      for (const Region& r : k->regions) collect_ops(g, r.ops, out);
    }
  }
}

void check_constants(const Schedule& schedule) {
  const Graph& g = schedule.graph;
  std::vector<OpId> ops;
  collect_ops(g, execution_order(schedule), ops);
  for (OpId id : ops) {
    const Operation& op = g[id];
    const auto check = [&](BufferId b) {
      const StorageId s = root_storage(g, b);
      if (!s.valid() || g[s].kind != StorageKind::constant || !g[s].data.per_rank.empty()) return;
      user_error(errors::kConstantUnknown, {{}, g[b].name, {}},
                 fmt::format("the data of constant '{}' is unknown", g[s].name),
                 g[s].data.file.empty() ? "the text omits it: print the text with all constants"
                                        : "load the file " + g[s].data.file);
    };
    for_each_operand(op.kernel, [&](const TensorRef& r, bool written) {
      if (!written) check(r.buffer);
    });
    for_each_load(op.kernel, [&](const Instr& load) { check(load.buffer); });
  }
  for (const GraphOutput& o : g.outputs)
    internal_check(o.buffer.valid(), "output '{}' has no buffer", o.name);
}

void run_all(std::vector<std::unique_ptr<Rank>>& ranks, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (;;) {
    std::vector<Rank*> left;
    for (const auto& r : ranks) {
      if (!r->finished()) left.push_back(r.get());
    }
    if (left.empty()) return;
    if (seed != 0) std::shuffle(left.begin(), left.end(), random);
    bool progress = false;
    for (Rank* r : left)
      progress |= r->advance(seed != 0 ? static_cast<std::int64_t>(1 + random() % 5) : INT64_MAX);
    if (progress) continue;
    std::sort(left.begin(), left.end(),
              [](Rank* a, Rank* b) { return a->memory().rank() < b->memory().rank(); });
    std::string who;
    for (Rank* r : left) who += "\n  " + r->blocked_on();
    user_error(errors::kCollectivesDiffer, {}, "deadlock: the ranks wait for each other:" + who);
  }
}

}  // namespace

namespace {

// The dimensions that follow from the sizes of the inputs, whose types and ranks are checked.
std::map<std::string, std::int64_t> solve_dims(const Graph& graph, std::span<const Tensor> inputs) {
  std::map<std::string, std::int64_t> dims;
  std::size_t known;
  do {
    known = dims.size();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Buffer& b = graph[graph.inputs[i].buffer];
      const Location at{{}, graph.inputs[i].name, {}};
      if (inputs[i].dtype != b.dtype) {
        user_error(errors::kWrongInputs, at,
                   fmt::format("the input has type {}, expected {}", to_string(inputs[i].dtype),
                               to_string(b.dtype)));
      }
      if (inputs[i].sizes.size() != b.sizes.size()) {
        user_error(errors::kWrongInputs, at,
                   fmt::format("the input has rank {}, expected {}", inputs[i].sizes.size(), b.sizes.size()));
      }
      for (std::size_t k = 0; k < b.sizes.size(); ++k) solve(b.sizes[k], inputs[i].sizes[k], dims);
    }
  } while (dims.size() != known);
  return dims;
}

void check_bounds(const Graph& graph, const std::map<std::string, std::int64_t>& dims) {
  for (const Expr& d : graph.dims) {
    const auto it = dims.find(d.dim_name());
    if (it == dims.end()) continue;
    const Bounds b = bounds(d);
    if (it->second < b.min || it->second > b.max) {
      user_error(
          errors::kSizeOutOfBounds, {},
          fmt::format("dimension '{}' is {}, outside of [{}, {}]", d.dim_name(), it->second, b.min, b.max));
    }
  }
}

void check_sizes(const Graph& graph, std::span<const Tensor> inputs,
                 const std::function<std::int64_t(Expr)>& value) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::vector<std::int64_t> expected;
    for (const Expr& s : graph[graph.inputs[i].buffer].sizes) expected.push_back(evaluate(s, value));
    if (expected != inputs[i].sizes) {
      user_error(errors::kWrongInputs, {{}, graph.inputs[i].name, {}},
                 fmt::format("the input has sizes {}, expected {}", sizes_text(inputs[i].sizes),
                             sizes_text(expected)));
    }
    internal_check(
        static_cast<std::int64_t>(inputs[i].bytes.size()) == inputs[i].numel() * size_of(inputs[i].dtype),
        "input '{}' holds {} bytes, which does not match its sizes", graph.inputs[i].name,
        inputs[i].bytes.size());
  }
}

}  // namespace

std::map<std::string, std::int64_t> bind_dims(const Graph& graph, std::span<const Tensor> inputs) {
  if (inputs.size() != graph.inputs.size()) {
    user_error(errors::kWrongInputs, {},
               fmt::format("got {} inputs, expected {}", inputs.size(), graph.inputs.size()));
  }
  std::map<std::string, std::int64_t> dims = solve_dims(graph, inputs);
  const auto value = [&](Expr s) {
    const auto it = dims.find(s.dim_name());
    if (it == dims.end())
      user_error(errors::kSizeOutOfBounds, {},
                 fmt::format("dimension '{}' is not determined by the inputs", s.dim_name()));
    return it->second;
  };
  check_bounds(graph, dims);
  check_sizes(graph, inputs, value);
  for (const std::size_t guard : guards_of_inputs(graph)) check_guard(graph.guards[guard], value);
  // Memory is made for the capacities.
  for (const OpId measure : graph.measures) {
    const Expr dim = graph[measure].as<Measure>()->dim;
    dims[dim.dim_name()] = bounds(dim).max;
  }
  return dims;
}

InterpreterResult run(std::span<const Schedule* const> programs, std::span<const std::vector<Tensor>> inputs,
                      const InterpreterOptions& options) {
  if (inputs.size() != programs.size()) {
    user_error(errors::kWrongInputs, {},
               fmt::format("got inputs for {} ranks, expected {}", inputs.size(), programs.size()));
  }
  Exchanges exchanges;
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    const Graph& g = programs[r]->graph;
    if (r == 0 || programs[r] != programs[0]) check_constants(*programs[r]);
    ranks.push_back(std::make_unique<Rank>(*programs[r], static_cast<int>(r), bind_dims(g, inputs[r]),
                                           options, exchanges));
    for (std::size_t i = 0; i < g.inputs.size(); ++i) {
      RankMemory& m = ranks.back()->memory();
      m.write(m.view(g.inputs[i].buffer), inputs[r][i].bytes, g.inputs[i].name);
    }
  }
  run_all(ranks, options.order_seed);
  InterpreterResult result;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    result.outputs.emplace_back();
    for (const GraphOutput& o : programs[r]->graph.outputs) {
      RankMemory& m = ranks[r]->memory();
      const ByteView v = m.view(o.buffer);
      result.outputs.back().push_back({v.dtype, v.sizes, m.read(v, o.name)});
    }
  }
  return result;
}

InterpreterResult run(const Schedule& schedule, std::span<const std::vector<Tensor>> inputs,
                      const InterpreterOptions& options) {
  const std::vector<const Schedule*> programs(static_cast<std::size_t>(schedule.graph.ranks), &schedule);
  return run(programs, inputs, options);
}

void opaque_kernel(ExternCall& call) {
  const ExternKernel& k = *call.op.as<ExternKernel>();
  std::uint64_t h = fnv1a(reinterpret_cast<const std::byte*>(k.callee.data()), k.callee.size());
  const auto mix = [&h](std::uint64_t v) {
    h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
    h ^= h >> 29;
  };
  for (const auto& [name, value] : k.attributes) {
    mix(fnv1a(reinterpret_cast<const std::byte*>(name.data()), name.size()));
    if (const auto* i = std::get_if<std::int64_t>(&value)) mix(static_cast<std::uint64_t>(*i));
    if (const auto* d = std::get_if<double>(&value)) mix(std::bit_cast<std::uint64_t>(*d));
    if (const auto* s = std::get_if<std::string>(&value))
      mix(fnv1a(reinterpret_cast<const std::byte*>(s->data()), s->size()));
  }
  for (const Tensor& t : call.reads) mix(fnv1a(t.bytes.data(), t.bytes.size()));
  for (Tensor& t : call.writes) {
    const std::int64_t item = size_of(t.dtype);
    for (std::int64_t i = 0; i < t.numel(); ++i) {
      mix(static_cast<std::uint64_t>(i));
      const auto small = static_cast<std::int64_t>((h >> 33) % 8);
      write_element(t.dtype, t.bytes.data() + i * item,
                    is_float(t.dtype) ? Literal(static_cast<double>(small - 4)) : Literal(small));
    }
  }
}

}  // namespace braid::ir
