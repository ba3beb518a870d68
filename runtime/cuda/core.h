// The part of an instance that its generated code does not see: the resources made by `create`, the state
// prepared per dims, the enqueuing of steps on the streams, and the errors.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/captured_steps.h"
#include "runtime/cuda/groups.h"
#include "runtime/cuda/instance.h"
#include "runtime/cuda/node_profile.h"
#include "runtime/cuda/other_ranks.h"
#include "runtime/cuda/products.h"
#include "runtime/cuda/segment.h"
#include "runtime/cuda/step_watch.h"
#include "runtime/cuda/weights.h"

namespace braid::rt::cuda {

class InstanceCore : private Reporter {
 public:
  InstanceCore(Instance& program, const BraidCudaProgram& table, const Instance::Layout& layout);
  ~InstanceCore();

  // ---- the functions of the table (create.cc, prepare.cc, run.cc, status.cc, destroy.cc)
  bool set_up(const BraidCudaCreateInfo& info);
  BraidStatus prepare(const int64_t* dims);
  BraidStatus run(const void* const* inputs, void* const* outputs, cudaStream_t stream);
  BraidStatus status();
  BraidStatus synchronize(int64_t timeout_ms);
  BraidStatus profile(BraidCudaNodeCost* costs);
  const Failure& failure() const { return failure_; }
  // An exception has left one of them: the instance is of no more use.
  BraidStatus thrown(BraidStatus status, const char* function, const char* why) noexcept;

 private:
  friend class Instance;

  struct Prepared {
    std::vector<int64_t> dims;
    std::vector<PreparedProduct> products;
    std::vector<bool> empty;  // per input, then per output: has no elements
    CapturedSteps captured;
    uint64_t used = 0;  // count of prepare() at the last use
  };
  static constexpr size_t kMostPrepared = 1024, kMostCaptured = 32;
  // How a step's collectives reach their stream: as calls; each captured and launched from its graph;
  // launched from graphs captured earlier.
  enum class Collectives { kCalled, kCaptured, kLaunched };

  bool read_options(const BraidCudaCreateInfo& info);
  bool check_device();
  bool make_streams();
  bool make_flag();
  bool make_memory();
  bool upload(const BraidCudaCreateInfo& info, bool of_rank);
  bool check_dims(const int64_t* dims);
  void use(Prepared* prepared);
  void forget_oldest();
  bool check_operands(const void* const* inputs, void* const* outputs);
  bool check_memory(const char* what, const BraidTensorInfo& tensor, bool empty, const void* pointer,
                    const void** known);
  bool enqueue(cudaStream_t stream);
  bool enqueue_calls();
  cudaGraphExec_t captured_step();
  void capture_step(CapturedSteps& captured);
  void drop_captured();
  Instance::Collective begin_collective();
  bool end_collective(bool good);
  void comes_to_collective();
  int begin_node();  // its place in the table
  cudaStream_t profiled_communication() const {
    return layout_.collectives ? program_.communication_ : nullptr;
  }
  bool healthy();
  bool lost_peer(bool overdue = false);
  void give_up();
  void tear_down();
  bool idle(int64_t timeout_ms);
  void release();

  Instance& program_;
  const BraidCudaProgram& table_;
  const Instance::Layout layout_;
  Failure last_;
  int device_ = 0;
  std::vector<cudaEvent_t> events_;
  cudaEvent_t fork_ = nullptr, join_ = nullptr, caller_ = nullptr;
  Groups groups_;
  Segment segment_;
  Products products_;
  std::vector<std::shared_ptr<DeviceWeights>> weights_;  // what the program's pointers point to
  int* host_flag_ = nullptr;  // pinned: the program's error_flag_, copied at the end of every step
  std::map<std::vector<int64_t>, std::unique_ptr<Prepared>> prepared_;  // by dims, the latest kMostPrepared
  Prepared* current_ = nullptr;
  uint64_t prepare_count_ = 0;
  std::vector<const void*> known_memory_;  // per input, then per output: the pointer last found right
  StepWatch watch_;
  bool watched_ = false;                   // the present step is
  std::optional<DevicePlace> told_place_;  // to the caller
  int64_t timeout_ms_ = -1;
  OtherRanks others_;
  NodeProfile profile_;
  bool graphs_ = false;
  Collectives collectives_ = Collectives::kCalled;  // of the present step
  int next_node_ = 0;                               // of the present step
  size_t next_collective_ = 0;
  uint32_t collective_ = 0;  // the latest of the present step, from 1; kernels that read peers' memory count
  std::vector<const void*> pointers_;  // of the present run: inputs, then outputs
  bool broken_ = false;                // a step failed midway, or its data is wrong
  bool overdue_ = false;               // a step exceeded the caller's time-out
  bool gave_up_ = false;
};

}  // namespace braid::rt::cuda
