// The braid program as a user runs it: one process per call, and folders that go with the test.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace braid::test {

namespace fs = std::filesystem;

using Arguments = std::vector<std::string>;

inline Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct ProcessResult {
  int exit_code = -1;  // 128 + signal where a signal ended it
  std::string out;
  std::string err;
};

// How long a run may take; after that it is ended together with everything it started, and the test fails.
// Working runs never reach this limit.
inline constexpr std::chrono::seconds kMostSecondsOfARun{200};

// Runs `braid` with these arguments. Host-compiler runs use -O0 (BRAID_CXXFLAGS): speed is not what these
// tests are about. `environment`: NAME=VALUE. `meanwhile` is called with the process's id while it runs.
ProcessResult braid(const std::vector<std::string>& arguments, const std::string& input = {},
                    const std::vector<std::string>& environment = {},
                    const std::function<void(int)>& meanwhile = {},
                    std::chrono::seconds limit = kMostSecondsOfARun);

// The same with a standard output of the caller's, which is not read back (out stays empty): an open
// descriptor, or -1 for none.
ProcessResult braid_into(int standard_output, const std::vector<std::string>& arguments,
                         const std::string& input = {});

// The ids of the processes that a process has started and that still run.
std::vector<int> children_of(int process);
// Returns whether this process has not ended. A process that has ended may still wait to be collected.
bool runs(int process);

// A folder that goes with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const fs::path& path() const { return path_; }
  // Writes a file and returns its path.
  std::string file(const std::string& name, const std::string& text) const;
  // Names of what lies in it, below all subfolders too, sorted.
  std::vector<std::string> names() const;

 private:
  fs::path path_;
};

// A model that tests/models writes.
std::string model(const std::string& name);

// The Python of the project's environment; empty if it was not made.
std::string python_of_the_project();

// The folder of a program that `braid compile arguments... -o <folder>` made. Every test is a process of its
// own: the first that asks compiles, the others find the result, until braid or its runtime is built again.
std::string compiled(const std::string& name, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& environment = {});

// Float arrays as .npy files of version 1.
void write_floats(const std::string& path, const std::vector<std::int64_t>& shape,
                  const std::vector<float>& values);
std::vector<float> read_floats(const std::string& path);

// A --target that nvcc, where it is found, builds for one architecture instead of all: half the time.
inline std::string one_architecture(const std::string& target) {
  return target == "cuda" ? "cuda:sm_90" : target;
}

// The exit code of the first numbered error in a text, by the table of cli/exit_codes.h.
int code_of(const std::string& text);

std::string read_text(const fs::path& path);

}  // namespace braid::test
