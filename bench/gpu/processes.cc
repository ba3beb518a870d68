#include "processes.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace braid::gpu_bundle {
namespace {

constexpr int kSeconds = 120;

void write_all(int fd, const void* data, size_t bytes) {
  if (::write(fd, data, bytes) != static_cast<ssize_t>(bytes)) throw std::runtime_error("a pipe is broken");
}
void read_all(int fd, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::read(fd, at, bytes);
    if (n <= 0) throw std::runtime_error("rank 0 ended before it had NCCL's id");
    at += n;
    bytes -= static_cast<size_t>(n);
  }
}

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() {
    if (::pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
  }
};

// The life of one rank: 'P', 'S' and why, or 'F' and why, into `result`.
void child(int rank, int ranks, const std::vector<Pipe>& ids, int result,
           const std::function<void(int, const ncclUniqueId&)>& body) {
  const std::string host = "braid-rank-" + std::to_string(rank);
  setenv("NCCL_HOSTID", host.c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  setenv("NCCL_IB_DISABLE", "1", 1);
  std::string said = "P";
  try {
    ncclUniqueId id;
    if (rank == 0) {
      GPU_CHECK(ncclGetUniqueId(&id));
      for (int r = 1; r < ranks; ++r) write_all(ids[static_cast<size_t>(r)].ends[1], &id, sizeof id);
    } else {
      read_all(ids[static_cast<size_t>(rank)].ends[0], &id, sizeof id);
    }
    body(rank, id);
  } catch (const Skipped& e) {
    said = std::string("S") + e.what();
  } catch (const std::exception& e) {
    said = std::string("F") + e.what();
  }
  if (::write(result, said.data(), said.size()) < 0) _exit(1);
  _exit(0);  // destructors of the parent's objects are not this process's
}

std::string result_of(int fd, int rank) {
  std::string said;
  for (char piece[512];;) {
    pollfd waiting = {fd, POLLIN, 0};
    if (::poll(&waiting, 1, kSeconds * 1000) <= 0)
      return "Frank " + std::to_string(rank) + " is not done after " + std::to_string(kSeconds) + " s";
    const ssize_t n = ::read(fd, piece, sizeof piece);
    if (n <= 0) break;
    said.append(piece, static_cast<size_t>(n));
  }
  return said.empty() ? "Frank " + std::to_string(rank) + " ended without a result" : said;
}

}  // namespace

void run_processes(int ranks, const std::function<void(int, const ncclUniqueId&)>& rank) {
#ifdef BRAID_EMULATED_DEVICE
  throw Skipped("ranks are threads on the emulated device");
#endif
  std::vector<Pipe> ids(static_cast<size_t>(ranks)), results(ids.size());
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("cannot fork");
    if (pid == 0) {
      for (const Pipe& p : results) ::close(p.ends[0]);
      child(r, ranks, ids, results[static_cast<size_t>(r)].ends[1], rank);
    }
    children.push_back(pid);
  }
  std::vector<std::string> said;
  for (size_t r = 0; r < results.size(); ++r) {
    ::close(results[r].ends[1]);
    ::close(ids[r].ends[0]);
    ::close(ids[r].ends[1]);
  }
  for (size_t r = 0; r < results.size(); ++r) {
    said.push_back(result_of(results[r].ends[0], static_cast<int>(r)));
    if (said.back()[0] == 'F') break;  // the others wait for it
  }
  for (const pid_t pid : children) {
    if (said.size() < children.size() || said.back()[0] == 'F') ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  for (const Pipe& p : results) ::close(p.ends[0]);
  for (const std::string& s : said) {
    if (s[0] == 'S') throw Skipped(s.substr(1));
    if (s[0] == 'F') throw std::runtime_error(s.substr(1));
  }
}

}  // namespace braid::gpu_bundle
