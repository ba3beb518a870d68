#include "tests/cli/braid_process.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace braid::test {
namespace {

// The program under test: BRAID_EXECUTABLE of the environment goes before the one of this build.
std::string executable() {
  const char* given = std::getenv("BRAID_EXECUTABLE");
  return given ? given : BRAID_EXECUTABLE_PATH;
}

[[noreturn]] void become(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment, const fs::path& in, int out,
                         const fs::path& err) {
  const int files[] = {::open(in.c_str(), O_RDONLY), out,
                       ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600)};
  for (int k = 0; k < 3; ++k) {
    if (k == 1 && out < 0)
      ::close(k);
    else if (files[k] < 0 || ::dup2(files[k], k) < 0)
      ::_exit(126);
  }
  ::setenv("BRAID_CXXFLAGS", "-O0", 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);  // CUDA programs run emulated, whatever this machine has
  for (const std::string& variable : environment) {
    const std::size_t equals = variable.find('=');
    ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  const std::string program = executable();
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

ProcessResult run(int out, const std::vector<std::string>& arguments, const std::string& input,
                  const std::vector<std::string>& environment, const std::function<void(int)>& meanwhile) {
  const Folder folder;
  const std::string in = folder.file("in", input);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) become(arguments, environment, in, out, folder / "err");
  if (meanwhile) meanwhile(child);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, {}, read_text(folder / "err")};
}

}  // namespace

ProcessResult braid(const std::vector<std::string>& arguments, const std::string& input,
                    const std::vector<std::string>& environment, const std::function<void(int)>& meanwhile) {
  const Folder folder;
  const int out = ::open((folder / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  ProcessResult result = run(out, arguments, input, environment, meanwhile);
  ::close(out);
  result.out = read_text(folder / "out");
  return result;
}

ProcessResult braid_into(int standard_output, const std::vector<std::string>& arguments,
                         const std::string& input) {
  return run(standard_output, arguments, input, {}, {});
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
    names.push_back(fs::relative(entry.path(), path_).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string model(const std::string& name) { return (fs::path(BRAID_TEST_MODELS) / name).string(); }

std::string compiled(const std::string& name, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& environment) {
  const fs::path dir = fs::path(BRAID_BINARY_DIR) / "test_programs" / name, stamp = dir / "compiled";
  fs::create_directories(dir);
  const int lock = ::open((dir / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ::flock(lock, LOCK_EX);
  auto newest = fs::last_write_time(executable());
  for (const auto& entry : fs::directory_iterator(fs::path(BRAID_BINARY_DIR) / "lib")) {
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

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace braid::test
