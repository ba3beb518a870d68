// A process that a signal ends takes its temporary folders and half-written files along, and nothing else.
#include "codegen/leftovers.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "codegen/temp_dir.h"

namespace braid::codegen {
namespace {

namespace fs = std::filesystem;

class Leftovers : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::path(::testing::TempDir()) / ("braid_leftovers." + std::to_string(::getpid()));
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::string write(const std::string& name) const {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name) << "half";
    return (dir_ / name).string();
  }
  // The signal that ended a process that does this and then gets `signal`.
  static int end_of(int signal, const std::function<void()>& body, bool for_good = true) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (for_good) end_cleanly_on_signals();
      body();
      ::raise(signal);
      ::_exit(0);
    }
    int state = 0;
    EXPECT_EQ(::waitpid(child, &state, 0), child);
    return WIFSIGNALED(state) ? WTERMSIG(state) : 0;
  }
  fs::path dir_;
};

TEST_F(Leftovers, GoWithTheProcess) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EQ(end_of(signal,
                     [&] {
                       static const Leftover file(write("file"));
                       static const Leftover folder((dir_ / "folder").string());
                       // More entries than one reading of a folder gives.
                       for (int k = 0; k < 500; ++k) write("folder/inner/entry" + std::to_string(k));
                       fs::create_symlink(dir_, dir_ / "folder" / "link");
                       write("other");
                     }),
              signal);
    EXPECT_FALSE(fs::exists(dir_ / "file"));
    EXPECT_FALSE(fs::exists(dir_ / "folder"));
    EXPECT_TRUE(fs::exists(dir_ / "other")) << "behind a link, or never named";
  }
}

TEST_F(Leftovers, AreForgottenWhenTheyAreComplete) {
  EXPECT_EQ(end_of(SIGTERM, [&] { const Leftover file(write("file")); }), SIGTERM);
  EXPECT_TRUE(fs::exists(dir_ / "file"));
}

TEST_F(Leftovers, AreNoPipesAndNoLinks) {
  ASSERT_EQ(::mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  fs::create_symlink(write("file"), dir_ / "link");
  EXPECT_EQ(end_of(SIGTERM,
                   [&] {
                     static const Leftover pipe((dir_ / "pipe").string());
                     static const Leftover link((dir_ / "link").string());
                   }),
            SIGTERM);
  EXPECT_TRUE(fs::exists(dir_ / "pipe"));
  EXPECT_TRUE(fs::exists(dir_ / "link"));
  EXPECT_TRUE(fs::exists(dir_ / "file"));
}

TEST_F(Leftovers, StayWhenAChildOfTheProcessIsEnded) {
  EXPECT_EQ(end_of(SIGTERM,
                   [&] {
                     static const Leftover file(write("file"));
                     const pid_t child = ::fork();
                     if (child == 0) {
                       ::raise(SIGTERM);
                       ::_exit(0);
                     }
                     ::waitpid(child, nullptr, 0);
                     if (fs::exists(dir_ / "file")) write("seen");
                   }),
            SIGTERM);
  EXPECT_TRUE(fs::exists(dir_ / "seen"));
  EXPECT_FALSE(fs::exists(dir_ / "file"));
}

TEST_F(Leftovers, OfATemporaryFolderAreItsContents) {
  const fs::path note = dir_ / "path";
  EXPECT_EQ(end_of(SIGINT,
                   [&] {
                     static const TempDir temporary;
                     std::ofstream(fs::path(temporary.path()) / "file") << "half";
                     std::ofstream(note) << temporary.path();
                   }),
            SIGINT);
  std::string path;
  std::ifstream(note) >> path;
  ASSERT_NE(path, "");
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(Leftovers, GoInTheScopeOfALibraryCallAndNotAfterIt) {
  for (const bool within : {true, false}) {
    EXPECT_EQ(end_of(
                  SIGTERM,
                  [&] {
                    auto scope = std::make_unique<EndsCleanly>();
                    const auto inner = std::make_unique<EndsCleanly>();
                    static const Leftover file(write("file"));
                    if (within) (void)scope.release();  // the inner one ends, this does not
                    scope.reset();
                  },
                  false),
              SIGTERM);
    EXPECT_EQ(fs::exists(dir_ / "file"), !within);
  }
}

TEST_F(Leftovers, AHandlerOfTheApplicationStaysInItsPlace) {
  EXPECT_EQ(end_of(
                SIGTERM,
                [&] {
                  ::signal(SIGTERM, [](int) { ::raise(SIGKILL); });
                  static const EndsCleanly scope;
                  static const Leftover file(write("file"));
                },
                false),
            SIGKILL);
  EXPECT_TRUE(fs::exists(dir_ / "file"));
}

// Folders of killed processes, and all that must not be taken for one.
TEST_F(Leftovers, ALaterProcessRemovesWhatKilledOnesLeft) {
  const char* given = std::getenv("TMPDIR");
  const std::string before = given == nullptr ? "" : given;
  ::setenv("TMPDIR", dir_.c_str(), 1);
  const pid_t killed = ::fork();
  if (killed == 0) {
    static const TempDir folder;
    std::ofstream(folder.path() + "/file") << "half";
    ::raise(SIGKILL);
  }
  ASSERT_EQ(::waitpid(killed, nullptr, 0), killed);
  ASSERT_EQ(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()), 1);
  const std::string left = fs::directory_iterator(dir_)->path().filename();
  fs::create_symlink(write("outside"), dir_ / left / "link");
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string name = left;
    EXPECT_NE(name.find(what), std::string::npos);
    return name.replace(name.find(what), what.size(), by);
  };
  const std::string process = "-" + std::to_string(killed) + "-";
  std::vector<std::string> stay = {replaced(process, "-" + std::to_string(::getpid()) + "-"),
                                   replaced(process, process + "0"),  // of another machine or container
                                   left + "0", "braid" + process + "0123456789abcdef"};
  for (const std::string& name : stay) write(name + "/file");
  // In the place of a folder's last digit, another one.
  auto other = [&, number = 0]() mutable {
    std::string name = left;
    const char digit = "0123456789"[number++];
    name.back() = name.back() == digit ? 'a' : digit;
    return name;
  };
  fs::create_directories(dir_ / "else");
  write("else/file");
  stay.push_back(other());
  fs::create_directory_symlink(dir_ / "else", dir_ / stay.back());
  if (::geteuid() == 0) {  // root may give folders away
    stay.push_back(other());
    write(stay.back() + "/file");
    ASSERT_EQ(::chown((dir_ / stay.back()).c_str(), 65534, 65534), 0);
  }
  remove_abandoned_folders();
  given == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before.c_str(), 1);
  EXPECT_FALSE(fs::exists(dir_ / left));
  EXPECT_TRUE(fs::exists(dir_ / "outside"));
  for (const std::string& name : stay) EXPECT_TRUE(fs::exists(dir_ / name / "file")) << name;
}

}  // namespace
}  // namespace braid::codegen
