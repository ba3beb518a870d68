#include "tests/emulated/rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>

namespace braid::test {
namespace {

constexpr std::chrono::seconds kLimit{120};
constexpr std::string_view kReport = "REPORT ", kTell = "TELL ";

std::map<std::string, RankBody>& bodies() {
  static std::map<std::string, RankBody> instance;
  return instance;
}

struct Child {
  pid_t pid = -1;
  int to = -1, from = -1;
  bool open = true;
  std::string line;
};

Child start(const RegisteredBody& body, int rank, int ranks, const std::string& argument,
            const std::string& folder) {
  int to[2], from[2];
  EXPECT_EQ(pipe2(to, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(from, O_CLOEXEC), 0);
  std::vector<std::string> environment{
      "BRAID_TEST_BODY=" + std::string(body.name), "BRAID_TEST_RANK=" + std::to_string(rank),
      "BRAID_TEST_RANKS=" + std::to_string(ranks), "BRAID_TEST_ARGUMENT=" + argument, "TMPDIR=" + folder};
  for (char** each = environ; *each != nullptr; ++each)
    if (std::strncmp(*each, "TMPDIR=", 7) != 0 && std::strncmp(*each, "GTEST_", 6) != 0 &&
        std::strncmp(*each, "TESTBRIDGE_", 11) != 0)
      environment.emplace_back(*each);
  std::vector<char*> pointers;
  for (std::string& each : environment) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  const char* const arguments[] = {"test_emulated", "--gtest_also_run_disabled_tests",
                                   "--gtest_filter=RankProcess.DISABLED_Body", nullptr};
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    dup2(from[1], STDERR_FILENO);
    execve("/proc/self/exe", const_cast<char* const*>(arguments), pointers.data());
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  return {pid, to[1], from[0], true, {}};
}

void take_line(const std::string& line, size_t from, std::vector<Child>& children,
               std::vector<RankOutcome>& outcomes) {
  if (line.starts_with(kReport)) {
    outcomes[from].reports.push_back(line.substr(kReport.size()));
  } else if (line.starts_with(kTell)) {
    const std::string text = line.substr(kTell.size()) + "\n";
    for (size_t i = 0; i < children.size(); ++i) {
      // One that has ended does not read.
      if (i != from) [[maybe_unused]]
        const ssize_t written = write(children[i].to, text.data(), text.size());
    }
  } else {
    outcomes[from].output += line + "\n";
  }
}

void read_from(size_t i, std::vector<Child>& children, std::vector<RankOutcome>& outcomes) {
  char text[4096];
  const ssize_t got = read(children[i].from, text, sizeof text);
  if (got <= 0) {
    children[i].open = false;
    return;
  }
  std::string& line = children[i].line;
  line.append(text, static_cast<size_t>(got));
  for (size_t end = line.find('\n'); end != std::string::npos; end = line.find('\n')) {
    take_line(line.substr(0, end), i, children, outcomes);
    line.erase(0, end + 1);
  }
}

void expect_nothing_left(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    ADD_FAILURE() << "left in TMPDIR: " << entry.path();
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", error))
    if (entry.path().filename().string().find("braid") != std::string::npos)
      ADD_FAILURE() << "left in /dev/shm: " << entry.path();
}

// Counts the sockets of this name without a file, of all processes.
size_t sockets_named(const std::string& name) {
  std::ifstream table("/proc/net/unix");
  size_t count = 0;
  for (std::string line; std::getline(table, line);)
    if (line.find(name) != std::string::npos) ++count;
  return count;
}

}  // namespace

RegisteredBody::RegisteredBody(const char* name, RankBody body) : name(name) { bodies()[name] = body; }

void RankProcess::report(const std::string& text) const { std::cout << kReport << text << std::endl; }
void RankProcess::tell(const std::string& text) const { std::cout << kTell << text << std::endl; }
std::string RankProcess::hear() const {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

ncclUniqueId RankProcess::share_id(int maker) const {
  ncclUniqueId id;
  std::memset(&id, 0, sizeof id);
  if (rank == maker) {
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    report(std::string("id ") + id.internal);
    tell(id.internal);
  } else {
    std::snprintf(id.internal, sizeof id.internal, "%s", hear().c_str());
  }
  return id;
}

std::vector<RankOutcome> run_rank_processes(const RegisteredBody& body, int ranks,
                                            const std::string& argument, const std::vector<int>& stopped) {
  signal(SIGPIPE, SIG_IGN);
  std::string folder = (std::filesystem::temp_directory_path() / "braid_ranks_XXXXXX").string();
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  std::vector<RankOutcome> outcomes(static_cast<size_t>(ranks));
  std::vector<Child> children;
  const auto begin = std::chrono::steady_clock::now();
  for (int rank = 0; rank < ranks; ++rank) children.push_back(start(body, rank, ranks, argument, folder));
  const auto awaited = [&](size_t i) {
    return children[i].open && std::count(stopped.begin(), stopped.end(), static_cast<int>(i)) == 0;
  };
  for (;;) {
    std::vector<pollfd> polled;
    std::vector<size_t> of;
    bool any = false;
    for (size_t i = 0; i < children.size(); ++i) {
      if (!children[i].open) continue;
      polled.push_back({children[i].from, POLLIN, 0});
      of.push_back(i);
      any = any || awaited(i);
    }
    const auto left = begin + kLimit - std::chrono::steady_clock::now();
    if (!any || left.count() <= 0) break;
    poll(polled.data(), polled.size(),
         static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count()) + 1);
    for (size_t k = 0; k < polled.size(); ++k)
      if (polled[k].revents != 0) read_from(of[k], children, outcomes);
    for (size_t i = 0; i < children.size(); ++i)
      if (!children[i].open && outcomes[i].seconds == 0)
        outcomes[i].seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  for (size_t i = 0; i < children.size(); ++i) {
    if (children[i].open) kill(children[i].pid, SIGKILL);
    outcomes[i].in_time = !awaited(i);
    int status = 0;
    waitpid(children[i].pid, &status, 0);
    while (children[i].open) read_from(i, children, outcomes);
    close(children[i].to);
    close(children[i].from);
    outcomes[i].exited = WIFEXITED(status);
    outcomes[i].code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    outcomes[i].signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  expect_nothing_left(folder);
  std::filesystem::remove_all(folder);
  for (RankOutcome& outcome : outcomes) {
    std::erase_if(outcome.reports, [](const std::string& report) {
      if (!report.starts_with("id ")) return false;
      EXPECT_EQ(sockets_named(report.substr(report.find('@') + 1)), 0u) << "left: " << report;
      return true;
    });
  }
  return outcomes;
}

void expect_good(const std::vector<RankOutcome>& outcomes, const std::vector<int>& faulty) {
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (std::count(faulty.begin(), faulty.end(), static_cast<int>(i)) != 0) continue;
    const RankOutcome& outcome = outcomes[i];
    EXPECT_TRUE(outcome.exited && outcome.code == 0)
        << "rank " << i << (outcome.in_time ? "" : " hung, and")
        << (outcome.exited ? " ended with " : " was ended by signal ")
        << (outcome.exited ? outcome.code : outcome.signal) << ":\n"
        << outcome.output;
  }
}

// Not a test, but where a rank's process begins.
TEST(RankProcess, DISABLED_Body) {
  const char* const name = std::getenv("BRAID_TEST_BODY");
  if (name == nullptr) GTEST_SKIP() << "only for processes that are started by tests";
  emulated::options().time_out = std::chrono::milliseconds(30000);
  const RankProcess process{std::atoi(std::getenv("BRAID_TEST_RANK")),
                            std::atoi(std::getenv("BRAID_TEST_RANKS")), std::getenv("BRAID_TEST_ARGUMENT")};
  bodies().at(name)(process);
  for (const Finding& finding : emulated::take_findings())
    ADD_FAILURE() << emulated::name_of(finding.kind) << ": " << finding.text;
}

}  // namespace braid::test
