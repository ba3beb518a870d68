// Checks the accesses of operations against the declarations of their step (runtime/cuda_plan.h).
//
// A byte of a buffer is born on the stream of the first step that touches it (parts of a buffer may be
// written on two streams). It becomes poison and counts as never written, unless the buffer takes it over in
// place from one that dies at this step. At the end of a run all bytes in arena and segment become poison.
// Both are writes for the race checker, so an access that is not ordered with them is a race. In between, the
// numbers of the steps decide the lives, not time, so the findings are the same in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda_plan.h"
#include "runtime/emulated/access_set.h"
#include "runtime/emulated/finding_list.h"
#include "runtime/emulated/stream.h"

namespace braid::emulated {

struct PlanState;

class DeclaredStep {
 public:
  // Reports what contradicts the plan.
  DeclaredStep(const rt::cuda::PlannedMemory& plan, int number, const std::string& label,
               std::initializer_list<rt::cuda::Touch> touches);

  // Reports the bytes that an operation touched although the step does not declare them, and those that it
  // read although no operation had written them. Empties `ranges.uninitialized`.
  void check(const std::string& who, OperationId operation, AccessRanges& ranges) const;

  // For an operand that begins in declared bytes and must not leave them: returns by how many bytes it does,
  // and the buffer that it leaves. Empty: it does not.
  std::string overrun(uintptr_t begin, uintptr_t end) const;

  struct Bytes {
    uintptr_t begin, end;
  };
  struct Birth {
    int buffer;
    std::vector<Bytes> fresh;       // those without a previous owner
    std::vector<Bytes> taken_over;  // in place, from a buffer that dies at this step
  };
  const std::vector<Birth>& births() const { return births_; }
  // "'h'" or "'h', 'k'"
  std::string names_of_births() const;
  // Call when the births happen, on their stream. Returns what is overwritten with poison.
  std::vector<Bytes> begin_lives() const;

 private:
  struct Declared {
    int buffer;
    bool writes;
    uintptr_t first;
    int64_t bytes, rows, pitch;

    uintptr_t end() const { return first + static_cast<uintptr_t>((rows - 1) * pitch + bytes); }
    // The end of the declared bytes that hold the address; 0: it is not declared.
    uintptr_t end_from(uintptr_t address) const;
    // The first declared byte after the address; the greatest address: none.
    uintptr_t next_from(uintptr_t address) const;
  };
  enum class Access { kRead, kWrite, kAtomic };

  const rt::cuda::PlannedBuffer& buffer(int index) const { return plan_.buffers[index]; }
  void declare(const rt::cuda::Touch& touch, const std::string& who);
  void find_birth(int index, const std::string& who);
  bool is_declared(int index) const;
  bool alive(int index) const;
  int owner(uintptr_t address) const;
  void check_ranges(const std::string& who, const std::vector<AccessRange>& ranges, Access access) const;
  void check_unwritten(const std::string& who, OperationId operation,
                       const std::vector<AccessRange>& ranges) const;
  void check_taken_over(const std::string& who, OperationId operation, const AccessRanges& ranges) const;
  // For memory in a peer's segment: the distance to the same place in this rank's segment.
  struct Peer {
    uintptr_t distance = 0;
    std::string text;
  };
  Peer peer_of(int allocation) const;
  void report_unwritten(const std::string& who, OperationId operation, Bytes bytes, const Peer& peer) const;
  void report(const std::string& who, Access access, uintptr_t begin, uintptr_t end,
              const std::string& peer) const;

  rt::cuda::PlannedMemory plan_;
  std::vector<uintptr_t> bases_;  // of all buffers; 0: not part of this instance
  int number_;
  std::vector<Declared> declared_;
  std::vector<Birth> births_;
  std::shared_ptr<PlanState> state_;
};

// The step to which the running task of this host thread belongs; null: none.
const DeclaredStep* running_step();

// The task, with the step as the running one.
Task in_step(std::shared_ptr<const DeclaredStep> step, Task task);

}  // namespace braid::emulated
