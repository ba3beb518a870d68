#include "tests/cli/braid_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>

#include "cli/exit_codes.h"
#include "tests/cli/paths.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

constexpr std::string_view kExecutable = "BRAID_EXECUTABLE=";

// The program under test: BRAID_EXECUTABLE of the environment goes before the one of this build.
std::string executable() {
  const char* given = std::getenv("BRAID_EXECUTABLE");
  return given ? given : paths::executable();
}

// The variables of this process, and what stands in `changes` instead; of two for one name the later.
std::vector<std::string> variables(const std::vector<std::string>& changes) {
  std::map<std::string, std::string> values;
  const auto set = [&](const std::string& text) { values[text.substr(0, text.find('='))] = text; };
  for (char** variable = environ; *variable != nullptr; ++variable) set(*variable);
  for (const std::string& change : changes) set(change);
  std::vector<std::string> out;
  for (auto& [name, text] : values) out.push_back(text);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// With all that it has started, and what those have.
void kill_tree(int process) {
  ::kill(process, SIGSTOP);  // so that it starts nothing more
  for (const int child : children_of(process)) kill_tree(child);
  ::kill(process, SIGKILL);
}

// How waitpid describes the end of the process.
int await(int process, std::chrono::seconds limit, const std::vector<std::string>& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(process, &status, WNOHANG);
    if (ended == process || (ended < 0 && errno != EINTR)) return status;
    const auto passed = std::chrono::steady_clock::now() - begin;
    if (passed > limit) break;
    ::usleep(passed < std::chrono::milliseconds(50) ? 200 : 2000);
  }
  std::string command = "braid";
  for (const std::string& argument : arguments) command += " " + argument;
  ADD_FAILURE() << "hangs: '" << command << "' has not ended within " << limit.count() << " s";
  kill_tree(process);
  ::waitpid(process, &status, 0);
  return status;
}

ProcessResult run(int out, const std::vector<std::string>& arguments, const std::string& input,
                  const std::vector<std::string>& environment, const std::function<void(int)>& meanwhile,
                  std::chrono::seconds limit) {
  const Folder folder;
  // Tests start programs from several threads. The child must not allocate, since another thread may have
  // held the allocator's lock at the fork, so everything it needs is built before. CUDA programs run
  // emulated, whatever this machine has.
  std::vector<std::string> changes = {"BRAID_CXXFLAGS=-O0", "CUDA_VISIBLE_DEVICES="};
  changes.insert(changes.end(), environment.begin(), environment.end());
  std::vector<std::string> settings = variables(changes);
  std::vector<std::string> words = {executable()};
  for (const std::string& change : environment)
    if (change.starts_with(kExecutable)) words[0] = change.substr(kExecutable.size());
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> argv = pointers(words), envp = pointers(settings);
  const int in = ::open(folder.file("in", input).c_str(), O_RDONLY | O_CLOEXEC);
  const int err = ::open((folder / "err").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const pid_t child = ::fork();
  if (child == 0) {
    const int files[] = {in, out, err};
    for (int k = 0; k < 3; ++k) {
      if (k == 1 && out < 0)
        ::close(k);
      else if (files[k] < 0 || ::dup2(files[k], k) < 0)
        ::_exit(126);
    }
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(in);
  ::close(err);
  if (child < 0) throw std::runtime_error("fork failed");
  if (meanwhile) meanwhile(child);
  const int status = await(child, limit, arguments);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, {}, read_text(folder / "err")};
}

}  // namespace

ProcessResult braid(const std::vector<std::string>& arguments, const std::string& input,
                    const std::vector<std::string>& environment, const std::function<void(int)>& meanwhile,
                    std::chrono::seconds limit) {
  const Folder folder;
  const int out = ::open((folder / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  ProcessResult result = run(out, arguments, input, environment, meanwhile, limit);
  ::close(out);
  result.out = read_text(folder / "out");
  return result;
}

ProcessResult braid_into(int standard_output, const std::vector<std::string>& arguments,
                         const std::string& input) {
  return run(standard_output, arguments, input, {}, {}, kMostSecondsOfARun);
}

std::vector<int> children_of(int process) {
  const std::string id = std::to_string(process);
  std::ifstream in("/proc/" + id + "/task/" + id + "/children");
  return {std::istream_iterator<int>(in), {}};
}

bool runs(int process) {
  const std::string stat = read_text("/proc/" + std::to_string(process) + "/stat");
  const std::size_t end = stat.rfind(')');
  return end != std::string::npos && end + 2 < stat.size() && stat[end + 2] != 'Z' && stat[end + 2] != 'X';
}

Folder::Folder() {
  std::string pattern = (fs::temp_directory_path() / "braid-test-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) throw std::runtime_error("cannot make " + pattern);
  path_ = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string Folder::file(const std::string& name, const std::string& text) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
  return (path_ / name).string();
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    names.push_back(entry.path().lexically_relative(path_).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string model(const std::string& name) { return paths::test_models(name); }

std::string python_of_the_project() {
  const char* moved = std::getenv("BRAID_VENV");
  const std::string python = std::string(moved != nullptr ? moved : paths::source(".venv")) + "/bin/python";
  return fs::exists(python) ? python : "";
}

std::string compiled(const std::string& name, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& environment) {
  const fs::path dir = fs::path(paths::binary("test_programs")) / name, stamp = dir / "compiled";
  fs::create_directories(dir);
  const int lock = ::open((dir / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ::flock(lock, LOCK_EX);
  auto newest = fs::last_write_time(executable());
  for (const auto& entry : fs::directory_iterator(paths::binary("lib"))) {
    newest = std::max(newest, fs::last_write_time(entry.path()));
  }
  // CUDA programs take a copy of the runtime's sources with them.
  for (const auto& entry : fs::recursive_directory_iterator(paths::source("runtime"))) {
    newest = std::max(newest, fs::last_write_time(entry.path()));
  }
  if (!fs::exists(stamp) || fs::last_write_time(stamp) < newest) {
    std::vector<std::string> command = {"compile", "-o", dir.string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const ProcessResult result = braid(command, {}, environment);
    if (result.exit_code != 0) {
      ::close(lock);
      throw std::runtime_error("braid compile failed: " + result.err);
    }
    std::ofstream(stamp).flush();
  }
  ::close(lock);
  return dir.string();
}

void write_floats(const std::string& path, const std::vector<std::int64_t>& shape,
                  const std::vector<float>& values) {
  std::string sizes;
  for (std::int64_t s : shape) sizes += std::to_string(s) + ",";
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + sizes + "), }";
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  const char length[2] = {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  file.write(length, 2);
  file << header;
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(float)));
}

std::vector<float> read_floats(const std::string& path) {
  const std::string text = read_text(path);
  if (text.size() < 10 || text.find("'<f4'") == std::string::npos)
    throw std::runtime_error(path + " is no float .npy");
  const std::size_t begin = 10 + static_cast<unsigned char>(text[8]) +
                            256 * static_cast<std::size_t>(static_cast<unsigned char>(text[9]));
  std::vector<float> values((text.size() - begin) / sizeof(float));
  std::memcpy(values.data(), text.data() + begin, values.size() * sizeof(float));
  return values;
}

int code_of(const std::string& text) {
  const std::size_t at = text.find("BR0");
  if (at == std::string::npos) return cli::kInternal;
  return cli::exit_code_of(std::stoi(text.substr(at + 2, 4)));
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace braid::test
