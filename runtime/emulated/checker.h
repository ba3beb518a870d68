// The race checker: orders the operations of all streams and host threads by vector clocks and compares the
// ranges that unordered ones actually accessed.
//
// The order has these sources only: operations of one stream are ordered; an operation follows what its host
// thread had seen finish when enqueuing it; a wait follows the event's record; a host thread follows a stream
// that it has synchronised; a collective orders its ranks (nccl_meeting.cc). How the streams happened to run
// does not matter.
//
// Every operation stays in the history, so the pairs found depend on the program alone. A new operation is
// compared only with the latest few of each logical thread that its clock does not cover and that touched a
// common allocation: the history is indexed by allocation. Allocations are never numbered anew, so those that
// are freed cost nothing any more.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/emulated/access_set.h"
#include "runtime/emulated/finding_list.h"
#include "runtime/emulated/vector_clock.h"

namespace braid::emulated {

class Checker {
 public:
  // `text` names it in findings: "rank 1 stream 0", "the host thread of rank 1".
  LogicalThread add_thread(std::string text);
  void rename_thread(LogicalThread thread, std::string text);

  struct Operation {
    OperationId id;
    std::string name;   // kernel, copy or collective
    std::string label;  // ONNX node
    VectorClock clock;  // of everything that it follows, including itself
  };

  // The next operation of a thread: `clock` becomes the thread's own, joined with what else it follows, and
  // is advanced by one.
  Operation begin(LogicalThread thread, VectorClock& clock, std::string name, std::string label);

  // Records what it accessed and reports every conflict with unordered operations.
  void finish(const Operation& operation, AccessRanges ranges);

  // Forgets all operations. Call only while nothing runs.
  void forget();

 private:
  // Ranges of one kind in one allocation: [first, last) of their list, within [begin, end).
  struct Part {
    int allocation;
    size_t first, last;
    size_t begin, end;
  };
  struct Accesses {
    std::vector<AccessRange> ranges;
    std::vector<Part> parts;
  };
  struct Finished {
    OperationId id;
    std::string name, label;
    Accesses reads, writes, atomics;
    uint64_t compared = 0;  // number of the latest operation that was compared with it
  };
  struct Thread {
    std::string text;
    uint32_t count = 0;
  };
  using History = std::map<LogicalThread, std::vector<Finished*>>;  // each by clock
  static Accesses by_allocation(std::vector<AccessRange> ranges);
  void compare(const Finished& operation, const Finished& other);
  bool report_overlap(const Finished& operation, const Accesses& accesses, const char* access,
                      const Finished& other, const Accesses& other_accesses, const char* other_access);
  void report(const Finished& operation, const char* access, const Finished& other, const char* other_access,
              int allocation, size_t begin, size_t end);
  std::string describe(const std::string& name, const std::string& label, LogicalThread thread) const;

  std::mutex mutex_;
  std::vector<Thread> threads_;
  std::deque<Finished> finished_;
  std::unordered_map<int, History> by_allocation_;
  uint64_t compared_ = 0;
};

Checker& checker();

}  // namespace braid::emulated
