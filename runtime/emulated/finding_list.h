// Collects findings; internal to the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/emulated/findings.h"
#include "runtime/emulated/vector_clock.h"

namespace braid::emulated {

struct OperationId {
  LogicalThread thread;
  uint32_t clock;
  auto operator<=>(const OperationId&) const = default;
};

class FindingList {
 public:
  void add(FindingKind kind, std::string text);
  // Keeps only the first finding with this key.
  void add(FindingKind kind, std::string key, std::string text);

  // A loop finds the same race in every iteration: of all with one `key`, the one with the lowest pair of
  // clocks is kept. `bytes` are those of the two operations' conflict.
  void add_race(std::string key, std::string text, OperationId first, OperationId second, uint32_t allocation,
                size_t begin, size_t end);
  // Dropped if a race explains it: whether the other operation had written by then was chance.
  void add_uninitialized(std::string key, std::string text, OperationId reader, uint32_t allocation,
                         size_t begin, size_t end);

  std::vector<Finding> list() const;
  void clear();

 private:
  struct Access {
    std::string text;
    OperationId first, second;
    uint32_t allocation;
    size_t begin, end;
  };
  mutable std::mutex mutex_;
  std::map<std::pair<FindingKind, std::string>, std::string> plain_;
  std::map<std::string, Access> races_, uninitialized_;
};

FindingList& finding_list();

// Ends the process as one that has findings, for a program that can never end.
[[noreturn]] void end_process(const std::string& why);

}  // namespace braid::emulated
