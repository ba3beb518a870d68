// A node of a Chakra execution trace, in any of its file formats.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/traces/recorded_op.h"

namespace braid::frontend {

// NodeType of et_def.proto.
enum class ChakraNodeType : int {
  invalid = 0,
  metadata = 1,
  mem_load = 2,
  mem_store = 3,
  comp = 4,
  comm_send = 5,
  comm_recv = 6,
  comm_coll = 7,
  last = 10,  // storage, batch and checkpoint nodes: on the host
};

struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  ChakraNodeType type = ChakraNodeType::invalid;
  std::vector<std::uint64_t> deps;  // control and data
  double start_us = 0, duration_us = 0;
  // Attributes.
  bool cpu = false;
  std::optional<std::int64_t> stream, comm_type, comm_size, comm_src, comm_dst;
  std::string pg_name;
  std::vector<int> involved;    // ranks of the group, where the node has them
  double flops = 0, bytes = 0;  // num_ops, tensor_size
};

class ChakraBuilder {
 public:
  // Raises error 562 at the node's position in the file.
  using Fail = std::function<void(const std::string&)>;

  explicit ChakraBuilder(std::string file) { trace_.format = "Chakra", trace_.file = std::move(file); }
  void add(ChakraNode node, const Fail& fail);
  RecordedTrace finish() &&;

 private:
  std::vector<int> dependencies_of(const ChakraNode& node) const;
  RecordedCollective collective_of(const ChakraNode& node);
  void keep_order_of_streams(std::map<std::int64_t, std::vector<int>>& streams);
  void add_assumptions(bool streams, bool durations, bool starts);

  RecordedTrace trace_;
  std::vector<ChakraNode> nodes_;
  std::map<std::uint64_t, int> index_;
  bool no_group_ = false, no_time_ = false;
};

// `text` and `bytes` are the whole file.
RecordedTrace read_chakra_json(std::string_view text, const std::string& file);
RecordedTrace read_chakra(std::string_view bytes, const std::string& file);

}  // namespace braid::frontend
