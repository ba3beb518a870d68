#include "analysis/costs/machine.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analysis/costs/embedded_machines.h"
#include "ir/collective_table.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/input_file.h"
#include "ir/json_document.h"

namespace braid::analysis {
namespace {

using ir::JsonDocument;
using ir::JsonObject;
using ir::JsonValue;

constexpr std::array<std::string_view, 5> kModelNames = {"nccl", "inductor", "classic", "shared_memory",
                                                         "paced_link"};
constexpr std::array<std::string_view, 4> kGenerationNames = {"volta", "ampere", "hopper", "blackwell"};

template <class Enum, std::size_t N>
Enum choice(const JsonValue& value, const std::array<std::string_view, N>& names) {
  const auto found = std::find(names.begin(), names.end(), value.string());
  if (found == names.end())
    value.fail(fmt::format("'{}' is not known", value.string()),
               fmt::format("one of: {}", fmt::join(names, ", ")));
  return static_cast<Enum>(found - names.begin());
}

Permille slowdown(const JsonValue& value) {
  return static_cast<Permille>(std::lround(value.number({1, 100}) * 1000));
}

// Peak by data type. f32 is required; other types default to it, f64 to half of it.
std::array<double, ir::kDTypeCount> peaks(JsonObject& object) {
  std::array<double, ir::kDTypeCount> result{};
  const auto at = [&](ir::DType d) -> double& { return result[static_cast<std::size_t>(d)]; };
  result.fill(object.number("f32", {1e-6, 1e9}));
  at(ir::DType::f64) = at(ir::DType::f32) / 2;
  for (int d = 0; d < ir::kDTypeCount; ++d) {
    const auto dtype = static_cast<ir::DType>(d);
    if (const auto value = object.maybe(std::string(ir::to_string(dtype))))
      at(dtype) = value->number({1e-6, 1e9});
  }
  return result;
}

ir::CollectiveKind collective_kind(const JsonValue& value) {
  if (const auto kind = ir::collective_kind(value.string())) return *kind;
  value.fail(fmt::format("'{}' is not a collective", value.string()));
}

MeasuredTable measured_table(JsonObject object) {
  MeasuredTable table;
  table.kind = collective_kind(object.value("kind"));
  table.ranks = static_cast<int>(object.integer("ranks", 2, 1 << 20));
  table.nodes = static_cast<int>(object.integer("nodes", 1, 1 << 20));
  if (const auto symmetric = object.maybe("symmetric")) table.symmetric = symmetric->boolean();
  if (const auto source = object.maybe("source")) source->string();
  const JsonValue points = object.value("points");
  for (const JsonValue& point : points.array()) {
    const std::vector<JsonValue> pair = point.array();
    if (pair.size() != 2) point.fail("a point is [bytes, microseconds]");
    const MeasuredTable::Point p{pair[0].integer(1, std::int64_t{1} << 50), pair[1].number({1e-3, 1e12})};
    if (!table.points.empty()) {
      const MeasuredTable::Point last = table.points.back();
      if (p.bytes <= last.bytes) point.fail("the sizes of the points must grow");
      if (p.us < last.us) point.fail("more bytes take less time than at the point before");
      if (p.us * static_cast<double>(last.bytes) > last.us * static_cast<double>(p.bytes)) {
        point.fail("the bandwidth is lower than at the point before",
                   "two small collectives would be cheaper than one large one; leave the point out or smooth "
                   "the table");
      }
    }
    table.points.push_back(p);
  }
  if (table.points.empty()) points.fail("a table needs at least one point");
  object.finish();
  return table;
}

SymmetricKernels symmetric_kernels(JsonObject object) {
  const SymmetricKernels s{object.number("one_shot_us", {1e-3, 1e6}),
                           object.number("two_shot_us", {1e-3, 1e6}), object.number("gb_s", {1e-3, 1e6})};
  object.finish();
  return s;
}

Network network(JsonObject object) {
  const Network n{static_cast<int>(object.integer("nics", 1, 1024)), object.number("nic_gb_s", {1e-3, 1e6})};
  object.finish();
  return n;
}

CollectiveSettings collective_settings(JsonObject object) {
  using Kind = CollectiveModelKind;
  CollectiveSettings c;
  c.model = choice<Kind>(object.value("model"), kModelNames);
  c.link_gb_s = object.number("link_gb_s", {1e-6, 1e6});
  const bool gpus = c.model == Kind::nccl || c.model == Kind::inductor || c.model == Kind::classic;
  if (gpus) {
    c.generation = choice<GpuGeneration>(object.value("generation"), kGenerationNames);
    if (const auto value = object.maybe("network")) c.network = network(JsonObject(*value));
  }
  if (c.model == Kind::nccl) {
    if (const auto nvls = object.maybe("nvls_gb_s")) c.nvls_gb_s = nvls->number({1e-3, 1e6});
    if (const auto value = object.maybe("symmetric")) c.symmetric = symmetric_kernels(JsonObject(*value));
  }
  if (c.model == Kind::shared_memory) c.symmetric = symmetric_kernels(object.object("symmetric"));
  if (c.model == Kind::paced_link) c.link_latency_us = object.number("link_latency_us", {0, 1e9});
  if (const auto value = object.maybe("slowdown")) c.slowdown = slowdown(*value);
  if (const auto tables = object.maybe("measured")) {
    for (const JsonValue& table : tables->array()) c.measured.push_back(measured_table(JsonObject(table)));
  }
  object.finish();
  return c;
}

}  // namespace

Machine parse_machine(const std::string& text, const std::string& file) {
  const JsonDocument doc(text, file, errors::kMachineNotJson, errors::kBadMachine);
  JsonObject root = doc.object();
  root.integer("version", 1, 1);
  Machine m;
  m.name = root.string("name");
  m.source = root.string("source");
  m.devices_per_node = static_cast<int>(root.integer("devices_per_node", 1, 1 << 20));
  JsonObject device = root.object("device");
  m.memory_gb_s = device.number("memory_gb_s", {1e-3, 1e6});
  if (const auto capacity = device.maybe("capacity_gb"))
    m.capacity_bytes = static_cast<std::int64_t>(capacity->number({1e-6, 1e6}) * 1e9);
  m.launch_us = device.number("launch_us", {0, 1e6});
  JsonObject matrix = device.object("matrix_tflops"), vector = device.object("vector_tflops");
  m.matrix_tflops = peaks(matrix);
  m.tf32_tflops = m.matrix_tflops[static_cast<std::size_t>(ir::DType::f32)];
  if (const auto value = matrix.maybe("tf32")) m.tf32_tflops = value->number({1e-6, 1e9});
  matrix.finish();
  m.vector_tflops = peaks(vector);
  vector.finish();
  device.finish();
  JsonObject classes = root.object("kernels");
  for (std::size_t k = 0; k < ir::kKernelClassNames.size(); ++k) {
    JsonObject c = classes.object(std::string(ir::kKernelClassNames[k]));
    m.classes[k] = {c.number("compute", {1e-4, 1}), c.number("memory", {1e-4, 1}),
                    slowdown(c.value("slowdown"))};
    c.finish();
  }
  classes.finish();
  m.collectives = collective_settings(root.object("collectives"));
  if (const auto gpu = root.maybe("gpu")) m.gpu = gpu_description(JsonObject(*gpu));
  root.finish();
  return m;
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const EmbeddedMachine& m : embedded_machines()) names.emplace_back(m.name);
  std::sort(names.begin(), names.end());
  return names;
}

Machine load_machine(const std::string& name_or_file) {
  if (name_or_file.ends_with(".json")) return parse_machine(ir::read_text_file(name_or_file), name_or_file);
  for (const EmbeddedMachine& m : embedded_machines()) {
    if (name_or_file == m.name) return parse_machine(std::string(m.json), std::string(m.name) + ".json");
  }
  ir::user_error(errors::kUnknownMachine, {}, fmt::format("no machine is called '{}'", name_or_file),
                 fmt::format("one of {}, or the path of a machine file that ends in .json",
                             fmt::join(machine_names(), ", ")));
}

Machine with_paced_link(Machine machine, double latency_us, double gb_s) {
  machine.name += fmt::format(" with a link of {:g} us, {:g} GB/s", latency_us, gb_s);
  machine.collectives = {
      .model = CollectiveModelKind::paced_link, .link_gb_s = gb_s, .link_latency_us = latency_us};
  // Such a link takes neither processor time nor memory bandwidth.
  for (ClassEfficiency& c : machine.classes) c.slowdown = 1000;
  return machine;
}

std::string to_string(const Machine& m) {
  const CollectiveSettings& c = m.collectives;
  const std::string network =
      c.network ? fmt::format("{} x {} GB/s between nodes", c.network->nics, c.network->nic_gb_s)
                : "one node";
  const double tflops = m.matrix_tflops[static_cast<std::size_t>(ir::DType::bf16)];
  return fmt::format("{:<8} {} per node, {} TFLOPS bf16, {} GB/s memory, {} GB/s {}, {}\n         {}\n",
                     m.name, m.devices_per_node, tflops, m.memory_gb_s, c.link_gb_s,
                     c.model == CollectiveModelKind::shared_memory ? "copies" : "links", network, m.source);
}

namespace {

GroupTopology place_of(const Machine& machine, std::span<const int> ranks) {
  std::map<int, int> nodes;  // ranks on each
  for (int r : ranks) ++nodes[r / machine.devices_per_node];
  GroupTopology result{static_cast<int>(ranks.size()), static_cast<int>(nodes.size()),
                       static_cast<int>(ranks.size())};
  for (const auto& [node, count] : nodes) result.ranks_per_node = std::min(result.ranks_per_node, count);
  return result;
}

}  // namespace

GroupTopology topology(const Machine& machine, std::span<const int> ranks, int siblings) {
  for (int r : ranks) {
    if (r < 0)
      ir::user_error(errors::kOutsideOfMachine, {}, fmt::format("rank {} of a group is negative", r));
  }
  GroupTopology result = place_of(machine, ranks);
  result.siblings = siblings;
  if (result.nodes > 1 && !machine.collectives.network) {
    ir::user_error(errors::kOutsideOfMachine, {},
                   fmt::format("a group spans {} nodes, but machine '{}' is one node of {}", result.nodes,
                               machine.name, machine.devices_per_node),
                   "choose a machine with a network, or give this one a 'network' in its file");
  }
  return result;
}

SlowestPart slowest_part(const Machine& machine, const ir::Parts& parts) {
  SlowestPart slowest;
  GroupTopology worst;
  std::map<int, int> on_node;
  for (const std::vector<int>& part : parts) {
    const GroupTopology here = place_of(machine, part);
    if (slowest.ranks == nullptr ||
        std::pair(here.nodes, -here.ranks_per_node) > std::pair(worst.nodes, -worst.ranks_per_node)) {
      slowest.ranks = &part;
      worst = here;
    }
    if (here.nodes == 1) continue;
    std::set<int> nodes;
    for (int r : part) nodes.insert(r / machine.devices_per_node);
    for (int node : nodes) slowest.siblings = std::max(slowest.siblings, ++on_node[node]);
  }
  return slowest;
}

}  // namespace braid::analysis
