#include "runtime/comm/shm_waiting.h"

#include <algorithm>
#include <cstring>

#include "runtime/comm/process_identity.h"

namespace braid::rt::shm {
namespace {

std::string name(int rank) { return "rank " + std::to_string(rank); }

bool shown(uint32_t number) { return number % 2 == 1; }
int rank_of(uint32_t target) { return static_cast<int>(target / 2); }
bool unstarted(uint32_t target) { return target % 2 == 1; }

// The call that a rank shows; empty if it shows another one by then.
std::string call_of(const WaitLine& line, uint32_t number) {
  char text[kWaitBytes];
  for (int i = 0; i < kWaitBytes / 8; ++i) {
    const uint64_t word = line.call[i].load(std::memory_order_acquire);
    std::memcpy(text + 8 * i, &word, 8);
  }
  text[kWaitBytes - 1] = '\0';
  return line.number.load() == number ? text : std::string();
}

std::string sentence(const WaitLine& line, int rank, uint32_t number, int peer) {
  return name(rank) + " waits for " + name(peer) + " in " + call_of(line, number);
}

}  // namespace

Waiting::~Waiting() {
  if (shown_) line_.number.fetch_add(1);
}

void Waiting::show(const std::string& call) {
  char text[kWaitBytes] = {};
  std::memcpy(text, call.data(), std::min(call.size(), sizeof text - 1));
  for (int i = 0; i < kWaitBytes / 8; ++i) {
    uint64_t word;
    std::memcpy(&word, text + 8 * i, 8);
    line_.call[i].store(word, std::memory_order_release);
  }
  line_.looks.store(0);
  shown_ = true;
}

// A wait is published with its first check, so that no rank reads the target of an earlier one.
void Waiting::look(int peer, bool unstarted) {
  line_.target.store(static_cast<uint32_t>(peer) * 2 + (unstarted ? 1 : 0));
  if (line_.looks.fetch_add(1) == 0) line_.number.fetch_add(1);
}

// The ranks from this one's peer to this one, each waiting for something that the next one has not started.
std::vector<Waiting::Seen> Waiting::find_circle() const {
  std::vector<Seen> circle;
  int rank = rank_;
  do {
    const WaitLine& line = arena_.rank_line(rank).wait;
    const Seen seen{rank, line.number.load(), line.looks.load(), line.target.load()};
    if (!shown(seen.number) || !unstarted(seen.target)) return {};
    circle.push_back(seen);
    rank = rank_of(seen.target);
  } while (rank != rank_ && circle.size() < arena_.header().size);
  if (rank != rank_) return {};  // a cycle of others, which report it themselves
  return circle;
}

std::string Waiting::circle() {
  const std::vector<Seen> now = find_circle();
  const bool same = std::ranges::equal(now, first_, [](const Seen& a, const Seen& b) {
    return a.rank == b.rank && a.number == b.number && a.target == b.target;
  });
  if (!same) first_ = now;
  if (!same || now.empty()) return {};
  for (size_t k = 0; k < now.size(); ++k) {
    if (now[k].looks - first_[k].looks < 2) return {};
  }
  std::string text = "ranks disagree about what comes next: ";
  for (const Seen& s : now) {
    text += std::string(&s == now.data() ? "" : "; ") +
            sentence(arena_.rank_line(s.rank).wait, s.rank, s.number, rank_of(s.target));
  }
  return text;
}

std::string chain_of_waits(const Arena& arena, int rank, int peer) {
  std::string text;
  std::vector<int> seen = {rank};
  while (std::ranges::find(seen, peer) == seen.end()) {
    seen.push_back(peer);
    const RankLine& line = arena.rank_line(peer);
    const uint32_t number = line.wait.number.load();
    const int next = rank_of(line.wait.target.load());
    if (!shown(number)) {
      const bool stopped = is_stopped({line.pid, line.start_time, line.pid_namespace});
      if (stopped) {
        text += "; " + name(peer) + " (process " + std::to_string(line.pid) + ") is stopped";
      } else if (seen.size() > 2) {
        text += "; " + name(peer) + " is missing: it waits for no other rank";
      }
      return text;
    }
    text += "; " + sentence(line.wait, peer, number, next);
    peer = next;
  }
  return text;
}

}  // namespace braid::rt::shm
