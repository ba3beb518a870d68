// The part of an instance that its generated code does not see: what `create` makes, what is prepared per dims,
// the step's way onto the streams, and what has gone wrong.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/groups.h"
#include "runtime/cuda/instance.h"
#include "runtime/cuda/products.h"
#include "runtime/cuda/segment.h"
#include "runtime/cuda/weights.h"

namespace braid::rt::cuda {

class InstanceCore : private Reporter {
 public:
  InstanceCore(Instance& program, const BraidCudaProgram& table, const Instance::Layout& layout);
  ~InstanceCore();

  // ---- the functions of the table (create.cc, prepare.cc, run.cc, status.cc)
  bool set_up(const BraidCudaCreateInfo& info);
  BraidStatus prepare(const int64_t* dims);
  BraidStatus run(const void* const* inputs, void* const* outputs, cudaStream_t stream);
  BraidStatus status();
  BraidStatus synchronize(int64_t timeout_ms);
  const Failure& failure() const { return failure_; }

 private:
  friend class Instance;

  struct Prepared {
    std::vector<int64_t> dims;
    PreparedProducts products;
    std::vector<bool> empty;  // per input, then per output: has no elements
    uint64_t used = 0;        // count of prepare() at the last use
  };
  static constexpr size_t kMostPrepared = 1024;

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
  bool healthy();

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
  bool broken_ = false;                    // a step failed midway, or its data is wrong
  bool overdue_ = false;                   // a step exceeded the caller's time-out
};

}  // namespace braid::rt::cuda
