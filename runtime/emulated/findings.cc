#include "runtime/emulated/findings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/emulated/finding_list.h"
#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/nccl_order.h"
#include "runtime/emulated/options.h"

namespace braid::emulated {
namespace {

void print(FindingKind kind, const std::string& text) {
  if (options().print_findings)
    std::fprintf(stderr, "emulated device: %s: %s\n", name_of(kind), text.c_str());
}

void exit_with_findings() {
  collective_order().report();
  const size_t count = finding_list().list().size();
  if (count == 0) return;
  std::fprintf(stderr, "emulated device: %zu finding(s)\n", count);
  std::fflush(nullptr);
  _exit(kExitCode);
}

}  // namespace

const char* name_of(FindingKind kind) {
  switch (kind) {
    case FindingKind::kRace:
      return "race";
    case FindingKind::kUninitializedRead:
      return "uninitialized read";
    case FindingKind::kIllegalAccess:
      return "illegal access";
    case FindingKind::kHostAccess:
      return "host access";
    case FindingKind::kDivergentBarrier:
      return "divergent barrier";
    case FindingKind::kCollectiveMismatch:
      return "collective mismatch";
    case FindingKind::kCollectiveTimeOut:
      return "collective time-out";
    case FindingKind::kRegistration:
      return "registration";
    case FindingKind::kInvalidUse:
      return "invalid use";
    case FindingKind::kIntegerOverflow:
      return "integer overflow";
    case FindingKind::kUndeclaredAccess:
      return "undeclared access";
    case FindingKind::kMemoryPlan:
      return "memory plan";
    case FindingKind::kStepScope:
      return "step scope";
    case FindingKind::kUnchecked:
      return "unchecked error";
    case FindingKind::kCollectiveOrder:
      return "collective order";
    case FindingKind::kGraph:
      return "graph";
    case FindingKind::kKernelFault:
      return "kernel fault";
    case FindingKind::kKernelTimeOut:
      return "kernel time-out";
    case FindingKind::kAsyncCopy:
      return "asynchronous copy";
    case FindingKind::kLeak:
      return "leak";
  }
  return "finding";
}

void FindingList::add(FindingKind kind, std::string text) { add(kind, text, text); }

void FindingList::add(FindingKind kind, std::string key, std::string text) {
  {
    std::lock_guard lock(mutex_);
    if (!plain_.try_emplace({kind, std::move(key)}, text).second) return;
  }
  print(kind, text);
}

void FindingList::add_race(std::string key, std::string text, OperationId first, OperationId second,
                           uint32_t allocation, size_t begin, size_t end) {
  Access access{text, first, second, allocation, begin, end};
  {
    std::lock_guard lock(mutex_);
    auto [at, added] = races_.try_emplace(std::move(key), access);
    if (!added) {
      if (std::tie(first, second, begin) < std::tie(at->second.first, at->second.second, at->second.begin))
        at->second = access;
      return;
    }
  }
  print(FindingKind::kRace, text);
}

void FindingList::add_uninitialized(std::string key, std::string text, OperationId reader,
                                    uint32_t allocation, size_t begin, size_t end) {
  Access access{text, reader, reader, allocation, begin, end};
  {
    std::lock_guard lock(mutex_);
    auto [at, added] = uninitialized_.try_emplace(std::move(key), access);
    if (!added) {
      if (std::tie(reader, begin) < std::tie(at->second.first, at->second.begin)) at->second = access;
      return;
    }
  }
  print(FindingKind::kUninitializedRead, text);
}

std::vector<Finding> FindingList::list() const {
  std::lock_guard lock(mutex_);
  std::vector<Finding> result;
  for (const auto& [key, text] : plain_) result.push_back({key.first, text});
  for (const auto& [key, race] : races_) result.push_back({FindingKind::kRace, race.text});
  for (const auto& [key, read] : uninitialized_) {
    const bool explained = std::any_of(races_.begin(), races_.end(), [&](const auto& entry) {
      const Access& race = entry.second;
      return (race.first.thread == read.first.thread || race.second.thread == read.first.thread) &&
             race.allocation == read.allocation && race.begin < read.end && read.begin < race.end;
    });
    if (!explained) result.push_back({FindingKind::kUninitializedRead, read.text});
  }
  std::sort(result.begin(), result.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.kind, a.text) < std::tie(b.kind, b.text);
  });
  return result;
}

void FindingList::clear() {
  std::lock_guard lock(mutex_);
  plain_.clear();
  races_.clear();
  uninitialized_.clear();
}

void end_process(const std::string& why) {
  finding_list().add(FindingKind::kCollectiveTimeOut, why);
  std::fprintf(stderr, "emulated device: %s; the process ends\n", why.c_str());
  exit_with_findings();
  std::abort();  // not reached: there is a finding
}

// Never destroyed: stream workers may still add findings while the process ends.
FindingList& finding_list() {
  static FindingList* list = [] {
    std::atexit(exit_with_findings);
    return new FindingList;
  }();
  return *list;
}

std::vector<Finding> findings() {
  host_thread().flush();
  collective_order().report();
  return finding_list().list();
}

std::vector<Finding> take_findings() {
  std::vector<Finding> result = findings();
  finding_list().clear();
  collective_order().forget_ended();
  return result;
}

}  // namespace braid::emulated

extern "C" int braid_emulated_findings(char* text, unsigned long size, int take) {
  const auto list = take ? braid::emulated::take_findings() : braid::emulated::findings();
  std::string all;
  for (const auto& finding : list) all += std::string(name_of(finding.kind)) + ": " + finding.text + "\n";
  if (text != nullptr && size > 0) {
    const size_t length = std::min<size_t>(all.size(), size - 1);
    std::memcpy(text, all.data(), length);
    text[length] = '\0';
  }
  return static_cast<int>(list.size());
}
