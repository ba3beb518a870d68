#include "frontend/traces/chakra.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <bit>

#include "frontend/traces/kineto.h"
#include "frontend/traces/trace_entry.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

bool communicates(const ChakraNode& n) {
  return n.type == ChakraNodeType::comm_coll || n.type == ChakraNodeType::comm_send ||
         n.type == ChakraNodeType::comm_recv;
}

// CollectiveCommType of et_def.proto. A kind that the IR lacks counts as one that moves as many bytes.
std::optional<ir::CollectiveKind> kind_of(std::int64_t comm_type) {
  using Kind = ir::CollectiveKind;
  constexpr Kind kKinds[] = {Kind::all_reduce,
                             Kind::all_reduce /* reduce */,
                             Kind::all_gather,
                             Kind::all_to_all /* gather */,
                             Kind::all_to_all /* scatter */,
                             Kind::broadcast,
                             Kind::all_to_all,
                             Kind::reduce_scatter,
                             Kind::reduce_scatter,
                             Kind::all_reduce /* barrier */};
  if (comm_type < 0 || comm_type >= static_cast<std::int64_t>(std::size(kKinds))) return std::nullopt;
  return kKinds[comm_type];
}

// The part of an AttributeProto's value that we need.
struct Attribute {
  std::string name, text;
  double number = 0;
  std::vector<std::int64_t> list;
};

void set(ChakraNode& node, const Attribute& a) {
  const auto whole = [&] { return static_cast<std::int64_t>(std::clamp(a.number, -1e18, 1e18)); };
  if (a.name == "is_cpu_op") node.cpu = a.number != 0;
  if (a.name == "stream") node.stream = whole();
  if (a.name == "comm_type") node.comm_type = whole();
  if (a.name == "comm_size") node.comm_size = whole();
  if (a.name == "comm_src") node.comm_src = whole();
  if (a.name == "comm_dst") node.comm_dst = whole();
  if (a.name == "num_ops") node.flops = a.number;
  if (a.name == "tensor_size") node.bytes = a.number;
  if (a.name == "runtime" && node.duration_us == 0) node.duration_us = a.number;
  if (a.name == "pg_name") node.pg_name = !a.text.empty() ? a.text : std::to_string(whole());
  if (a.name == "involved_ranks" || a.name == "pg_ranks") {
    for (std::int64_t r : a.list)
      node.involved.push_back(static_cast<int>(std::clamp<std::int64_t>(r, -1, 1'000'000)));
  }
}

// ---- binary
// -------------------------------------------------------------------------------------------------

// Messages one after another, each preceded by its length (varint): GlobalMetadata, then nodes.
class BinaryReader {
 public:
  BinaryReader(std::string_view bytes, const std::string& file)
      : bytes_(bytes), file_(file), builder_(file) {}

  RecordedTrace run() && {
    std::size_t at = 0;
    for (bool first = true; at < bytes_.size(); first = false) {
      const std::size_t begin = at;
      std::uint32_t length = 0;
      CodedInputStream in(data(at), static_cast<int>(std::min<std::size_t>(bytes_.size() - at, 10)));
      if (!in.ReadVarint32(&length)) cut(begin);
      at += static_cast<std::size_t>(in.CurrentPosition());
      if (length > bytes_.size() - at) cut(begin);
      if (!first) node(at, length);
      at += length;
    }
    return std::move(builder_).finish();
  }

 private:
  const std::uint8_t* data(std::size_t at) const {
    return reinterpret_cast<const std::uint8_t*>(bytes_.data()) + at;
  }
  [[noreturn]] void cut(std::size_t at) const {
    ir::user_error(errors::kTraceSyntax, {.file = file_},
                   fmt::format("byte {}: the message is malformed or truncated", at),
                   "record or copy the trace again");
  }

  // Reads a length-delimited field as text.
  static bool text(CodedInputStream& in, std::string& out) {
    std::uint32_t length = 0;
    return in.ReadVarint32(&length) &&
           in.ReadString(&out, static_cast<int>(std::min<std::uint32_t>(length, INT32_MAX)));
  }

  // Repeated integers, packed or one by one.
  static bool integers(CodedInputStream& in, std::uint32_t tag, std::vector<std::uint64_t>& out) {
    std::uint64_t v = 0;
    if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_VARINT) {
      if (!in.ReadVarint64(&v)) return false;
      out.push_back(v);
      return true;
    }
    std::uint32_t length = 0;
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED ||
        !in.ReadVarint32(&length))
      return false;
    const auto limit = in.PushLimit(static_cast<int>(std::min<std::uint32_t>(length, INT32_MAX)));
    while (in.BytesUntilLimit() > 0) {
      if (!in.ReadVarint64(&v)) return false;
      out.push_back(v);
    }
    in.PopLimit(limit);
    return true;
  }

  // A number of any wire type: varint, 32 or 64 bits. `field` decides what the bits mean.
  static bool number(CodedInputStream& in, std::uint32_t tag, double& out) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    std::uint64_t wide = 0;
    std::uint32_t narrow = 0;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_VARINT: {
        if (!in.ReadVarint64(&wide)) return false;
        const bool zigzag = field == 15 || field == 17;  // sint32, sint64
        const bool is_unsigned = field == 11 || field == 13;
        out = zigzag        ? static_cast<double>(WireFormatLite::ZigZagDecode64(wide))
              : is_unsigned ? static_cast<double>(wide)
                            : static_cast<double>(static_cast<std::int64_t>(wide));
        return true;
      }
      case WireFormatLite::WIRETYPE_FIXED64:
        if (!in.ReadLittleEndian64(&wide)) return false;
        out = field == 3    ? std::bit_cast<double>(wide)
              : field == 25 ? static_cast<double>(static_cast<std::int64_t>(wide))
                            : static_cast<double>(wide);
        return true;
      case WireFormatLite::WIRETYPE_FIXED32:
        if (!in.ReadLittleEndian32(&narrow)) return false;
        out = field == 5    ? static_cast<double>(std::bit_cast<float>(narrow))
              : field == 23 ? static_cast<double>(static_cast<std::int32_t>(narrow))
                            : static_cast<double>(narrow);
        return true;
      default:
        return false;
    }
  }

  static bool attribute(const std::string& message, Attribute& out) {
    CodedInputStream in(reinterpret_cast<const std::uint8_t*>(message.data()),
                        static_cast<int>(message.size()));
    while (const std::uint32_t tag = in.ReadTag()) {
      bool good = true;
      std::string inner;
      const int field = WireFormatLite::GetTagFieldNumber(tag);
      if (field == 1) {
        good = text(in, out.name);
      } else if (field == 29) {
        good = text(in, out.text);
      } else if (field == 8 || field == 10 || field == 12 || field == 14) {  // lists of integers: values = 1
        good = text(in, inner);
        CodedInputStream list(reinterpret_cast<const std::uint8_t*>(inner.data()),
                              static_cast<int>(inner.size()));
        std::vector<std::uint64_t> values;
        while (const std::uint32_t value_tag = good ? list.ReadTag() : 0)
          good = integers(list, value_tag, values);
        for (std::uint64_t v : values) out.list.push_back(static_cast<std::int64_t>(v));
      } else if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
        good = WireFormatLite::SkipField(&in, tag);
      } else {
        good = number(in, tag, out.number);
      }
      if (!good) return false;
    }
    return in.ConsumedEntireMessage();
  }

  void node(std::size_t at, std::uint32_t length) {
    CodedInputStream in(data(at), static_cast<int>(length));
    ChakraNode n;
    while (const std::uint32_t tag = in.ReadTag()) {
      bool good = true;
      double v = 0;
      std::uint64_t id = 0;
      std::string inner;
      Attribute a;
      switch (WireFormatLite::GetTagFieldNumber(tag)) {
        case 1:
          good =
              WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_VARINT && in.ReadVarint64(&id);
          n.id = id;
          break;
        case 2:
          good = text(in, n.name);
          break;
        case 3:
          good = number(in, tag, v);
          n.type = v >= 0 && v <= 1000 ? static_cast<ChakraNodeType>(static_cast<int>(v))
                                       : ChakraNodeType::invalid;
          break;
        case 4:
        case 5:
          good = integers(in, tag, n.deps);
          break;
        case 6:
          good = number(in, tag, n.start_us);
          break;
        case 7:
          good = number(in, tag, n.duration_us);
          break;
        case 10:
          good = text(in, inner) && attribute(inner, a);
          if (good) set(n, a);
          break;
        default:
          good = WireFormatLite::SkipField(&in, tag);
          break;
      }
      if (!good) cut(at);
    }
    if (!in.ConsumedEntireMessage()) cut(at);
    builder_.add(std::move(n), [&](const std::string& message) {
      ir::user_error(errors::kBadTraceEvent, {.file = file_}, fmt::format("byte {}: {}", at, message));
    });
  }

  std::string_view bytes_;
  std::string file_;
  ChakraBuilder builder_;
};

// ---- JSON
// ---------------------------------------------------------------------------------------------------

ChakraNodeType type_of(const TraceEntry& e) {
  static const std::map<std::string, ChakraNodeType, std::less<>> kTypes = {
      {"INVALID_NODE", ChakraNodeType::invalid},     {"METADATA_NODE", ChakraNodeType::metadata},
      {"MEM_LOAD_NODE", ChakraNodeType::mem_load},   {"MEM_STORE_NODE", ChakraNodeType::mem_store},
      {"COMP_NODE", ChakraNodeType::comp},           {"COMM_SEND_NODE", ChakraNodeType::comm_send},
      {"COMM_RECV_NODE", ChakraNodeType::comm_recv}, {"COMM_COLL_NODE", ChakraNodeType::comm_coll},
  };
  const nlohmann::json* found = e.find({"type", "NodeType"});
  if (found == nullptr) return ChakraNodeType::invalid;
  if (!found->is_string())
    return static_cast<ChakraNodeType>(std::clamp<std::int64_t>(*e.integer({"type", "NodeType"}), -1, 1000));
  const auto it = kTypes.find(found->get_ref<const std::string&>());
  return it != kTypes.end() ? it->second : ChakraNodeType::last;
}

std::int64_t comm_type_of_name(const std::string& name, const TraceEntry& e) {
  static constexpr std::string_view kNames[] = {
      "ALL_REDUCE", "REDUCE",         "ALL_GATHER",           "GATHER", "SCATTER", "BROADCAST",
      "ALL_TO_ALL", "REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK", "BARRIER"};
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) e.fail(fmt::format("'{}' is not a kind of collective", name));
  return found - std::begin(kNames);
}

// {"name": "comm_size", "int64Val": "1024"}
Attribute attribute_of(const TraceEntry& e) {
  Attribute a;
  a.name = e.string({"name"});
  static constexpr const char* kNumbers[] = {
      "int64Val",   "int64_val",  "uint64Val",  "uint64_val",  "int32Val",   "int32_val",  "uint32Val",
      "uint32_val", "doubleVal",  "double_val", "floatVal",    "float_val",  "sint32Val",  "sint32_val",
      "sint64Val",  "sint64_val", "fixed32Val", "fixed32_val", "fixed64Val", "fixed64_val"};
  for (const char* key : kNumbers) {
    if (const auto v = e.number({key})) a.number = *v;
  }
  if (const auto v = e.boolean({"boolVal", "bool_val"})) a.number = *v ? 1 : 0;
  a.text = e.string({"stringVal", "string_val"});
  for (const char* key :
       {"int64List", "int64_list", "int32List", "int32_list", "uint32List", "uint32_list"}) {
    for (std::uint64_t v : e.object(key).ids({"values"})) a.list.push_back(static_cast<std::int64_t>(v));
  }
  return a;
}

class JsonReader {
 public:
  JsonReader(std::string_view text, const std::string& file)
      : scanner_(trace_scanner(text, file)), builder_(file) {}

  RecordedTrace run() && {
    // Objects one after another (jsonizer), or one object with a list of nodes (simulator).
    for (bool first = true; scanner_.peek() != '\0'; first = false) {
      const std::size_t offset = scanner_.offset();
      if (scanner_.peek() != '{') scanner_.expect('{');
      JsonScanner inside = scanner_;
      inside.expect('{');
      if (first && find_list(inside)) {
        scanner_ = inside;
        list();
        continue;
      }
      const TraceEntry e(scanner_, offset, scanner_.value());
      // GlobalMetadata comes first and has neither id nor type.
      if (first && e.find({"id"}) == nullptr && e.find({"type"}) == nullptr) continue;
      node(e);
    }
    return std::move(builder_).finish();
  }

 private:
  // Moves to the value of "workload_graph", if the object has one.
  static bool find_list(JsonScanner& at) {
    if (at.take('}')) return false;
    do {
      const std::string key = at.string();
      at.expect(':');
      if (key == "workload_graph") return true;
      at.raw_value();
    } while (at.take(','));
    return false;
  }

  void list() {
    scanner_.expect('[');
    if (!scanner_.take(']')) {
      do {
        scanner_.peek();
        const std::size_t offset = scanner_.offset();
        node({scanner_, offset, scanner_.value()});
      } while (scanner_.take(','));
      scanner_.expect(']');
    }
    while (scanner_.take(',')) {
      scanner_.string();
      scanner_.expect(':');
      scanner_.raw_value();
    }
    scanner_.expect('}');
  }

  void node(const TraceEntry& e) {
    ChakraNode n;
    const auto id = e.integer({"id", "Id"});
    if (id && *id < 0) e.fail("the id of a node is negative");
    n.id = static_cast<std::uint64_t>(id.value_or(0));  // proto3 leaves zeros out
    n.name = e.string({"name", "Name"});
    n.type = type_of(e);
    n.deps = e.ids({"dataDeps", "data_deps"});
    const std::vector<std::uint64_t> control = e.ids({"ctrlDeps", "ctrl_deps"});
    n.deps.insert(n.deps.end(), control.begin(), control.end());
    n.start_us = e.number({"startTimeMicros", "start_time_micros"}).value_or(0);
    n.duration_us = e.number({"durationMicros", "duration_micros", "runtime"}).value_or(0);
    if (const nlohmann::json* attributes = e.find({"attr", "attrs"})) {
      if (!attributes->is_array()) e.fail("'attr' is not an array");
      for (const nlohmann::json& item : *attributes) {
        set(n, attribute_of(TraceEntry(scanner_, e.offset(), item)));
      }
    }
    // The simulator's form has these beside the attributes.
    for (const char* key :
         {"is_cpu_op", "stream", "comm_size", "comm_src", "comm_dst", "num_ops", "tensor_size"}) {
      const nlohmann::json* found = e.find({key});
      if (found == nullptr) continue;
      set(n, {key, {}, found->is_boolean() ? (found->get<bool>() ? 1.0 : 0.0) : *e.number({key}), {}});
    }
    if (const nlohmann::json* found = e.find({"comm_type"})) {
      n.comm_type =
          found->is_string() ? comm_type_of_name(found->get<std::string>(), e) : *e.integer({"comm_type"});
    }
    if (n.pg_name.empty()) n.pg_name = e.string({"pg_name", "comm_group"});
    builder_.add(std::move(n), [&](const std::string& message) { e.fail(message); });
  }

  JsonScanner scanner_;
  ChakraBuilder builder_;
};

}  // namespace

void ChakraBuilder::add(ChakraNode node, const Fail& fail) {
  if (node.name.empty()) node.name = fmt::format("node {}", node.id);
  const int type = static_cast<int>(node.type);
  if (type <= 0 || type > static_cast<int>(ChakraNodeType::last))
    fail(fmt::format("node {} ('{}') has the unknown type {}", node.id, node.name, type));
  if (!(node.duration_us >= 0 && node.duration_us <= 1e12))
    fail(fmt::format("the duration of node {} ('{}') is {} us", node.id, node.name, node.duration_us));
  if (!(node.start_us >= 0 && node.start_us <= 1e18))
    fail(fmt::format("the start of node {} ('{}') is {} us", node.id, node.name, node.start_us));
  if (!(node.flops >= 0 && node.bytes >= 0))
    fail(fmt::format("node {} ('{}') has negative work", node.id, node.name));
  if (node.type == ChakraNodeType::comm_coll && !node.cpu) {
    if (!node.comm_type) {
      const auto kind = collective_of_name(node.name);
      if (!kind) fail(fmt::format("the collective node {} ('{}') has no comm_type", node.id, node.name));
    } else if (!kind_of(*node.comm_type)) {
      fail(fmt::format("node {} ('{}') has the unknown comm_type {}", node.id, node.name, *node.comm_type));
    }
  }
  if (communicates(node) && node.comm_size && *node.comm_size < 0)
    fail(fmt::format("node {} ('{}') sends {} bytes", node.id, node.name, *node.comm_size));
  const auto [at, added] = index_.emplace(node.id, static_cast<int>(nodes_.size()));
  if (!added) {
    ir::user_error(errors::kTraceDependency, {.file = trace_.file},
                   fmt::format("the nodes '{}' and '{}' have the same id {}",
                               nodes_[static_cast<std::size_t>(at->second)].name, node.name, node.id));
  }
  nodes_.push_back(std::move(node));
}

std::vector<int> ChakraBuilder::dependencies_of(const ChakraNode& n) const {
  std::vector<int> deps;
  for (std::uint64_t d : n.deps) {
    const auto found = index_.find(d);
    if (found == index_.end()) {
      ir::user_error(
          errors::kTraceDependency, {.file = trace_.file},
          fmt::format("node {} ('{}') depends on node {}, which is not in the trace", n.id, n.name, d));
    }
    deps.push_back(found->second);
  }
  return deps;
}

RecordedCollective ChakraBuilder::collective_of(const ChakraNode& n) {
  RecordedCollective c;
  c.elements = std::clamp<std::int64_t>(n.comm_size.value_or(1), 1, std::int64_t{1} << 40);
  c.group = n.pg_name.empty() ? "group" : n.pg_name;
  c.ranks = n.involved;
  if (n.type == ChakraNodeType::comm_coll) {
    c.kind = n.comm_type ? *kind_of(*n.comm_type) : *collective_of_name(n.name);
  } else {
    c.kind = ir::CollectiveKind::all_to_all;
    const std::int64_t a = n.comm_src.value_or(0), b = n.comm_dst.value_or(1);
    c.group = fmt::format("p2p_{}_{}", a, b);
    c.pair = true;
    if (a >= 0 && b >= 0 && a != b && a <= 1'000'000 && b <= 1'000'000)
      c.ranks = {static_cast<int>(a), static_cast<int>(b)};
  }
  std::vector<int> sorted = c.ranks;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() < 2 || sorted.front() < 0 ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    c.ranks = {0, 1};
    no_group_ = true;
  }
  return c;
}

// The converter of PyTorch traces records the stream that ran a kernel and leaves the order within it to the
// reader.
void ChakraBuilder::keep_order_of_streams(std::map<std::int64_t, std::vector<int>>& streams) {
  for (auto& [stream, list] : streams) {
    std::stable_sort(list.begin(), list.end(), [&](int a, int b) {
      return trace_.ops[static_cast<std::size_t>(a)].begin_ns <
             trace_.ops[static_cast<std::size_t>(b)].begin_ns;
    });
    for (std::size_t k = 1; k < list.size(); ++k)
      trace_.ops[static_cast<std::size_t>(list[k])].deps.push_back(list[k - 1]);
  }
}

void ChakraBuilder::add_assumptions(bool streams, bool durations, bool starts) {
  if (streams) trace_.assumptions.push_back("operations of one stream keep their order");
  if (durations && !starts) {
    trace_.assumptions.push_back(
        "the trace has durations but no start times: the recorded order is that of the file, one node after "
        "the other");
  }
  if (no_group_)
    trace_.assumptions.push_back(
        "the trace does not list the ranks of groups: collectives count as those of two ranks");
  if (no_time_) trace_.assumptions.push_back("communication without duration gets its cost from the machine");
  if (!durations) trace_.assumptions.push_back("the trace has no times: costs come from the machine");
}

RecordedTrace ChakraBuilder::finish() && {
  std::map<std::int64_t, std::vector<int>> streams;
  bool durations = false, starts = false;
  for (const ChakraNode& n : nodes_) {
    if (n.cpu) continue;
    durations |= n.duration_us > 0;
    starts |= n.start_us > 0;
  }
  double clock = 0;  // without starts: one after another, in the order of the file
  for (std::size_t k = 0; k < nodes_.size(); ++k) {
    const ChakraNode& n = nodes_[k];
    RecordedOp op;
    op.name = n.name;
    op.deps = dependencies_of(n);
    const bool works = n.type == ChakraNodeType::comp || n.type == ChakraNodeType::mem_load ||
                       n.type == ChakraNodeType::mem_store || communicates(n);
    op.host = n.cpu || !works;
    op.stream = static_cast<int>(std::clamp<std::int64_t>(n.stream.value_or(0), 0, INT32_MAX));
    if (!op.host) {
      if (durations) {
        op.begin_ns = starts ? n.start_us * 1e3 : clock;
        op.end_ns = op.begin_ns + n.duration_us * 1e3;
        clock = op.end_ns;
        if (n.duration_us == 0 && !communicates(n)) op.work = ir::Cost{.ns = 0};
      } else if (!communicates(n)) {
        op.work = n.flops > 0 || n.bytes > 0 ? ir::Cost{.ns = -1, .flops = n.flops, .bytes = n.bytes}
                                             : ir::Cost{.ns = 0};
      }
      if (communicates(n)) {
        no_time_ |= durations && n.duration_us == 0;
        op.collective = collective_of(n);
      }
      if (n.stream) streams[*n.stream].push_back(static_cast<int>(k));
    }
    trace_.ops.push_back(std::move(op));
  }
  keep_order_of_streams(streams);
  add_assumptions(!streams.empty(), durations, starts);
  return std::move(trace_);
}

RecordedTrace read_chakra_json(std::string_view text, const std::string& file) {
  return JsonReader(text, file).run();
}
RecordedTrace read_chakra(std::string_view bytes, const std::string& file) {
  return BinaryReader(bytes, file).run();
}

}  // namespace braid::frontend
