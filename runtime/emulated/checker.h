// The race checker: orders the operations of all streams and host threads by vector clocks and compares the
// ranges that unordered ones actually accessed.
//
// The order has these sources only: operations of one stream are ordered; an operation follows what its host
// thread had seen finish when enqueuing it; a wait follows the event's record; a host thread follows a stream
// that it has synchronised; a collective orders its ranks (nccl_meeting.cc). How the streams happened to run
// does not matter.
//
// Every operation stays in the history, so the pairs found depend on the program alone. A new one is compared
// only with those that its clock does not cover: the latest few of each logical thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
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
  struct Finished {
    uint32_t clock;
    std::string name, label;
    AccessRanges ranges;
  };
  struct Thread {
    std::string text;
    uint32_t count = 0;
    std::vector<Finished> finished;  // by clock
  };
  void compare(const Operation& operation, const AccessRanges& ranges, LogicalThread other_thread,
               const Finished& other);
  bool report_overlap(const Operation& operation, const std::vector<AccessRange>& ranges, const char* access,
                      LogicalThread other_thread, const Finished& other,
                      const std::vector<AccessRange>& other_ranges, const char* other_access);
  std::string describe(const std::string& name, const std::string& label, LogicalThread thread) const;

  std::mutex mutex_;
  std::vector<Thread> threads_;
};

Checker& checker();

}  // namespace braid::emulated
