// A machine as the cost model sees it: one device, a node of several, and the network between nodes.
//
// A machine is a JSON file (analysis/costs/machines, or the user's own; docs/scheduling.md describes every
// key). It says nothing about the number of ranks: the ranks of a group decide how many nodes it spans (rank
// r lives on node r / devices_per_node). GB/s are 1e9 bytes per second, TFLOPS 1e12 per second; bandwidths
// are achieved ones, not those of the data sheet.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/costs/gpu_description.h"
#include "analysis/costs/time.h"
#include "ir/graph.h"
#include "ir/kernel_class.h"

namespace braid::analysis {

using ir::KernelClass;
using ir::kKernelClassCount;

// The share of the device's peak that a class of kernels reaches, and its slow-down beside communication.
struct ClassEfficiency {
  double compute = 1;        // of the peak of the data type, in (0, 1]
  double memory = 1;         // of the memory's bandwidth, in (0, 1]
  Permille slowdown = 1000;  // while a collective is in flight
};

enum class CollectiveModelKind : std::uint8_t {
  nccl,           // NCCL's tuner, with NVLS, PAT and symmetric kernels, and network cards by ranks per node
  inductor,       // PyTorch Inductor's estimate since mid-2026: ring and tree, one network link
  classic,        // PyTorch Inductor's first estimate: ring LL, 2 channels
  shared_memory,  // ranks as threads or processes on one memory
  paced_link      // exactly what the runtime's paced-link engine does (runtime/comm/paced_link.h)
};
enum class GpuGeneration : std::uint8_t { volta, ampere, hopper, blackwell };

// Kernels that read and write peers' memory (NCCL windows, the library's own).
struct SymmetricKernels {
  double one_shot_us = 4.5;  // every rank reads all inputs
  double two_shot_us = 7.8;  // reduce-scatter, then gather
  double gb_s = 320;         // bus bandwidth of one device
};

struct Network {
  int nics = 1;         // per node
  double nic_gb_s = 0;  // each, one direction
};

// Measured times, for groups of exactly this form; they replace the model. Between points: a straight line;
// below the first and after the last one: the model, scaled to meet the point. Neither time nor bandwidth may
// fall from one point to the next, so that one large collective never costs more than two small ones.
struct MeasuredTable {
  struct Point {
    std::int64_t bytes = 0;
    double us = 0;
  };
  ir::CollectiveKind kind = ir::CollectiveKind::all_reduce;
  int ranks = 0;
  int nodes = 1;
  bool symmetric = false;  // of the symmetric kernels: sums of f32, f16, bf16 only
  std::vector<Point> points;
};

struct CollectiveSettings {
  CollectiveModelKind model = CollectiveModelKind::nccl;
  GpuGeneration generation = GpuGeneration::hopper;
  double link_gb_s = 0;  // bus bandwidth of a ring within the node; shared_memory: the copy bandwidth of
  // a rank; paced_link: the link's
  double link_latency_us = 0;  // paced_link: of every collective
  double nvls_gb_s = 0;        // payload/time of a large all-reduce in the switch; 0: none
  std::optional<SymmetricKernels> symmetric;
  std::optional<Network> network;  // absent: one node only
  Permille slowdown = 1000;        // of a collective while the compute stream is busy
  std::vector<MeasuredTable> measured;
};

struct Machine {
  std::string name;
  std::string source;  // where the numbers come from
  int devices_per_node = 1;
  double memory_gb_s = 0;
  std::int64_t capacity_bytes = 0;  // of the memory; 0: not said, and nothing is limited by it
  double launch_us = 0;             // the minimum cost of a kernel
  std::array<double, ir::kDTypeCount> matrix_tflops{};  // of products
  double tf32_tflops = 0;  // of products of f32 whose operands are rounded to tf32
  std::array<double, ir::kDTypeCount> vector_tflops{};  // of everything else
  std::array<ClassEfficiency, kKernelClassCount> classes;
  CollectiveSettings collectives;
  std::optional<GpuDescription> gpu;  // for models of single kernels

  const ClassEfficiency& operator[](KernelClass c) const { return classes[static_cast<std::size_t>(c)]; }
};

inline constexpr const char* kDefaultMachine = "h100";
inline constexpr const char* kCpuMachine = "cpu";  // default of programs for the CPU

// The machines that are built in, in alphabetical order.
std::vector<std::string> machine_names();
// A built-in machine, or, if the name ends in ".json", the file of that path. User errors 550, 551 (what is
// wrong in the file) and 553 (no such machine).
Machine load_machine(const std::string& name_or_file);
// Parses a machine file; `file` is for messages.
Machine parse_machine(const std::string& text, const std::string& file);

// The same device with collectives over a link as the runtime's paced-link engine makes it.
Machine with_paced_link(Machine machine, double latency_us, double gb_s);

// Two lines for people: name, device, node and network; the source.
std::string to_string(const Machine& machine);

// How a group lies on the machine. User error 554 if a rank is negative or the group spans several nodes of a
// machine without a network.
struct GroupTopology {
  int ranks = 1;
  int nodes = 1;
  int ranks_per_node = 1;  // the fewest on any of its nodes
  int siblings = 1;        // parts of the group on a node that send at the same moment, this one included
  friend bool operator==(const GroupTopology&, const GroupTopology&) = default;
};
GroupTopology topology(const Machine& machine, std::span<const int> ranks, int siblings = 1);

// The part of a group that is the slowest by its place: on the most nodes, then with the fewest ranks on one
// of them. `siblings` is the largest number of parts that share the network cards of one node.
struct SlowestPart {
  const std::vector<int>* ranks = nullptr;
  int siblings = 1;
};
SlowestPart slowest_part(const Machine& machine, const ir::Parts& parts);

}  // namespace braid::analysis
