// A compiled folder holds one program. Whatever ends a compilation, whatever else works in the folder, and
// whatever has been done to its files, it runs the old program, the new one, or none.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "tests/cli/braid_process.h"
#include "tests/cli/paths.h"

namespace braid::test {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Programs that differ in nothing but their weights.
std::string times(const std::string& factor) {
  return "graph times\ninput %x: f32[4]\nconstant %c: f32[4] = splat(" + factor +
         ")\n%y: f32[4] = pointwise { %0 = load %x %1 = load %c %2 = mul %0, %1 store %2 }\noutput %y\n";
}

// The host compiler is asked once per program; later it is played by a script that hands out what it made.
class ProgramFolder : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    made_ = std::make_unique<Folder>();
    for (const char* factor : {"2", "3"}) {
      const std::string text = made_->file(std::string(factor) + ".braid", times(factor));
      const fs::path from = compiled(std::string("times_") + factor, {text, "--name", "times"});
      fs::create_directory(*made_ / factor);
      for (const char* file : {"manifest.json", "times.cc", "times.h", "times.so", "weights.bin"})
        fs::copy_file(from / file, made_->path() / factor / file);
      fs::copy_file(from / "times.so", *made_ / ("0x" + id_in(read_text(from / "manifest.json"))));
    }
    compiler_ = made_->file("c++", R"(#!/bin/sh
for word in "$@"; do
  case "$previous" in -o) out="$word";; esac
  case "$word" in *times.cc) source="$word";; esac
  previous="$word"
done
id=$(sed -n 's/.*compilation_id = \(0x[0-9a-f]*\)u.*/\1/p' "$source")
cp ")" + made_->path().string() + R"(/$id" "$out"
)");
    fs::permissions(compiler_, fs::perms::owner_all);
  }
  static void TearDownTestSuite() { made_.reset(); }

  static std::string id_in(const std::string& text) {
    std::smatch found;
    return std::regex_search(text, found, std::regex("compilation_id\\W+(?:0x)?([0-9a-f]{16})"))
               ? found[1].str()
               : "none";
  }
  static std::vector<std::string> playing() { return {"CXX=" + compiler_}; }
  static ProcessResult compile(const std::string& factor, const std::string& dir,
                               std::vector<std::string> environment = playing(),
                               const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"compile", *made_ / (factor + ".braid"), "--name", "times", "-o",
                                          dir};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return braid(arguments, {}, environment);
  }
  // The factor of the program that a folder runs, else what went wrong.
  static std::string runs(const std::string& dir) {
    const Folder out;
    write_floats(out / "x.npy", {4}, {1, 1, 1, 1});
    const ProcessResult result =
        braid({"run", dir, "--input", "x=" + out / "x.npy", "-o", out / "results"}, {}, playing());
    if (result.exit_code != 0) return std::to_string(result.exit_code) + ": " + result.err;
    return std::to_string(static_cast<int>(read_floats(out / "results/y.npy")[0]));
  }
  static std::string copy_of(const std::string& factor, const Folder& folder) {
    const std::string dir = folder / "program";
    fs::remove_all(dir);
    fs::copy(*made_ / factor, dir, fs::copy_options::recursive);
    std::ofstream(dir + "/notes.txt") << "mine";
    return dir;
  }
  // The compilations that the files of a folder say they are of.
  static std::vector<std::string> ids(const std::string& dir) {
    const std::string weights = read_text(dir + "/weights.bin"), library = read_text(dir + "/times.so");
    std::uint64_t in_weights = 0, in_library = 0;
    std::memcpy(&in_weights, weights.data() + 16, 8);
    std::memcpy(&in_library, library.data() + library.size() - 24, 8);
    std::vector<std::string> ids = {id_in(read_text(dir + "/manifest.json")),
                                    id_in(read_text(dir + "/times.cc"))};
    for (std::uint64_t id : {in_weights, in_library}) {
      char text[17];
      std::snprintf(text, sizeof text, "%016lx", static_cast<unsigned long>(id));
      ids.emplace_back(text);
    }
    return ids;
  }
  static void expect_of_one_program(const std::string& dir) {
    const std::vector<std::string> found = ids(dir);
    EXPECT_THAT(found, ElementsAre(found[0], found[0], found[0], found[0]));
  }

  static inline std::unique_ptr<Folder> made_;
  static inline std::string compiler_;
};

TEST_F(ProgramFolder, OneIdIsInManifestSourceWeightsAndLibrary) {
  expect_of_one_program(*made_ / "2");
  expect_of_one_program(*made_ / "3");
  EXPECT_NE(ids(*made_ / "2")[0], ids(*made_ / "3")[0]);
  const Folder folder;
  ASSERT_EQ(compile("2", folder / "again").exit_code, 0);
  EXPECT_EQ(ids(folder / "again"), ids(*made_ / "2"));
}

TEST_F(ProgramFolder, TheNewProgramReplacesTheOldAndNothingElse) {
  const Folder folder;
  const std::string dir = copy_of("2", folder);
  ASSERT_EQ(runs(dir), "2");
  const ProcessResult result = compile("3", dir);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(runs(dir), "3");
  EXPECT_EQ(read_text(dir + "/notes.txt"), "mine");
  EXPECT_THAT(folder.names(),
              ElementsAre("program", "program/manifest.json", "program/notes.txt", "program/times.cc",
                          "program/times.h", "program/times.so", "program/weights.bin"));
}

TEST_F(ProgramFolder, FilesThatOnlyTheOldProgramHadGo) {
  const Folder folder;
  const std::string dir = copy_of("2", folder);
  const std::string plain = folder.file("other.braid",
                                        "graph other\ninput %x: f32[4]\n%y: f32[4] = pointwise { %0 = load "
                                        "%x %1 = add %0, %0 store %1 }\noutput "
                                        "%y\n");
  const ProcessResult result = braid({"compile", plain, "--emit", "source", "-o", dir});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(folder.names(), ElementsAre("other.braid", "program", "program/manifest.json",
                                          "program/notes.txt", "program/other.cc", "program/other.h"));
}

TEST_F(ProgramFolder, SourcesOfTheNewProgramDoNotStandBesideTheOldLibrary) {
  const Folder folder;
  const std::string dir = copy_of("2", folder);
  ASSERT_EQ(compile("3", dir, playing(), {"--emit", "source"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(dir + "/times.so"));
  EXPECT_EQ(runs(dir), "3");
  EXPECT_TRUE(fs::exists(dir + "/times.so"));
}

TEST_F(ProgramFolder, AFailedHostCompilationLeavesTheOldProgram) {
  const Folder folder;
  const std::string dir = copy_of("2", folder);
  const ProcessResult result = compile("3", dir, {"CXX=false"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("BR0603"));
  EXPECT_EQ(runs(dir), "2");
  expect_of_one_program(dir);
  EXPECT_THAT(folder.names(), Not(Contains(HasSubstr(".braid-"))));
}

TEST_F(ProgramFolder, FilesOfTwoProgramsDoNotRun) {
  const Folder folder;
  for (const char* file : {"manifest.json", "weights.bin", "times.so"}) {
    SCOPED_TRACE(file);
    const std::string dir = copy_of("2", folder);
    fs::copy_file(*made_ / (std::string("3/") + file), dir + "/" + file,
                  fs::copy_options::overwrite_existing);
    EXPECT_THAT(runs(dir), AllOf(StartsWith("3: "), HasSubstr("BR0721")));
  }
  // Everything but the library, and a source alone where the library has not been built.
  std::string dir = copy_of("2", folder);
  for (const char* file : {"manifest.json", "weights.bin", "times.cc", "times.h"})
    fs::copy_file(*made_ / (std::string("3/") + file), dir + "/" + file,
                  fs::copy_options::overwrite_existing);
  EXPECT_THAT(runs(dir), AllOf(StartsWith("3: "), HasSubstr("BR0721"), HasSubstr("another compilation")));
  dir = copy_of("2", folder);
  fs::remove(dir + "/times.so");
  fs::copy_file(*made_ / "3/times.cc", dir + "/times.cc", fs::copy_options::overwrite_existing);
  EXPECT_THAT(runs(dir), AllOf(StartsWith("3: "), HasSubstr("BR0008")));
}

// `ninja clean` removes the files that braid_add_model has declared.
TEST_F(ProgramFolder, WeightsWithoutAManifestAreReplaced) {
  const Folder folder;
  const std::string dir = copy_of("2", folder);
  for (const char* file : {"manifest.json", "times.cc", "times.h", "times.so"}) fs::remove(dir + "/" + file);
  const ProcessResult result = compile("3", dir);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(runs(dir), "3");
}

TEST_F(ProgramFolder, OtherPeoplesFilesAreNotOverwritten) {
  for (const char* name : {"times.h", "weights.bin", "times.so", "manifest.json"}) {
    SCOPED_TRACE(name);
    const Folder folder;
    fs::create_directory(folder / "program");
    folder.file(std::string("program/") + name, "{\"name\": \"mine\"}");
    const ProcessResult result = compile("2", folder / "program");
    EXPECT_EQ(result.exit_code, 5);
    EXPECT_THAT(result.err, AllOf(HasSubstr("BR0015"), HasSubstr(name)));
    EXPECT_THAT(folder.names(), ElementsAre("program", std::string("program/") + name));
    EXPECT_EQ(read_text(folder / ("program/" + std::string(name))), "{\"name\": \"mine\"}");
  }
}

// A manifest cannot make a compilation remove what no compilation makes.
TEST_F(ProgramFolder, AManifestThatNamesOtherFilesIsNotBelieved) {
  for (const std::string file :
       {"../notes.txt", "notes.txt", "/etc/hostname", "", ".", "a/times.cc", "times.cc/"}) {
    SCOPED_TRACE(file);
    const Folder folder;
    folder.file("notes.txt", "mine");
    const std::string dir = copy_of("2", folder);
    nlohmann::json manifest = nlohmann::json::parse(read_text(dir + "/manifest.json"));
    manifest["files"].push_back(file);
    std::ofstream(dir + "/manifest.json") << manifest.dump();
    EXPECT_THAT(runs(dir), HasSubstr("BR0008"));
    EXPECT_THAT(compile("3", dir).err, HasSubstr("BR0015"));
    EXPECT_EQ(read_text(folder / "notes.txt"), "mine");
    EXPECT_EQ(read_text(dir + "/notes.txt"), "mine");
  }
}

TEST_F(ProgramFolder, WhoHasTheOldFilesMappedKeepsThem) {
  const Folder folder;
  const std::string dir = copy_of("2", folder);
  struct Mapped {
    std::string path, before;
    const char* data;
  };
  std::vector<Mapped> all;
  for (const char* file : {"/weights.bin", "/times.so"}) {
    const std::string before = read_text(dir + file);
    const int fd = ::open((dir + file).c_str(), O_RDONLY);
    const void* data = ::mmap(nullptr, before.size(), PROT_READ, MAP_SHARED, fd, 0);
    ::close(fd);
    ASSERT_NE(data, MAP_FAILED);
    all.push_back({dir + file, before, static_cast<const char*>(data)});
  }
  ASSERT_EQ(compile("3", dir).exit_code, 0);
  for (const Mapped& m : all) {
    EXPECT_EQ(std::string(m.data, m.before.size()), m.before) << m.path;
    EXPECT_NE(read_text(m.path), m.before);
    ::munmap(const_cast<char*>(m.data), m.before.size());
  }
}

TEST_F(ProgramFolder, TheSameProgramKeepsItsWeightsFileIfThatIsWhole) {
  const Folder folder;
  const std::string dir = copy_of("2", folder), weights = dir + "/weights.bin";
  const auto inode = [&] {
    struct stat info = {};
    EXPECT_EQ(::lstat(weights.c_str(), &info), 0);
    return S_ISREG(info.st_mode) ? info.st_ino : 0;
  };
  const ino_t first = inode();
  ASSERT_EQ(compile("2", dir).exit_code, 0);
  EXPECT_EQ(inode(), first);
  EXPECT_EQ(runs(dir), "2");
  const std::string whole = read_text(weights);
  for (const std::size_t at : {std::size_t{3}, sizeof(std::uint64_t) * 8 + 1, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    std::ofstream(weights, std::ios::binary) << damaged;
    ASSERT_EQ(compile("2", dir).exit_code, 0) << at;
    EXPECT_EQ(read_text(weights), whole) << at;
    EXPECT_EQ(runs(dir), "2") << at;
  }
  fs::rename(weights, folder.path() / "elsewhere");
  fs::create_symlink(folder.path() / "elsewhere", weights);
  ASSERT_EQ(compile("2", dir).exit_code, 0);
  EXPECT_NE(inode(), 0u);
  EXPECT_EQ(read_text(folder / "elsewhere"), whole);
  ASSERT_EQ(compile("3", dir).exit_code, 0);
  EXPECT_EQ(runs(dir), "3");
}

TEST_F(ProgramFolder, CompilationsAtOnceDoNotMix) {
  const Folder folder;
  const std::string dir = copy_of("2", folder);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> compilers;
    std::vector<ProcessResult> results(4);
    for (std::size_t k = 0; k < results.size(); ++k)
      compilers.emplace_back([&, k] { results[k] = compile(k % 2 == 0 ? "2" : "3", dir); });
    for (std::thread& t : compilers) t.join();
    for (const ProcessResult& r : results) EXPECT_EQ(r.exit_code, 0) << r.err;
    expect_of_one_program(dir);
    EXPECT_THAT(runs(dir), AnyOf("2", "3"));
  }
  EXPECT_THAT(folder.names(), Not(Contains(HasSubstr(".braid-"))));
}

// Killed before the k-th call that changes a file, for every k.
TEST_F(ProgramFolder, AKilledCompilationLeavesOneProgramOrARefusal) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers want to be loaded first";
#endif
  const Folder folder;
  int old_program = 0, refused = 0, new_program = 0;
  for (int k = 1;; ++k) {
    SCOPED_TRACE("killed at call " + std::to_string(k));
    const std::string dir = copy_of("2", folder);
    std::vector<std::string> environment = playing();
    environment.push_back("LD_PRELOAD=" + paths::kill_at_call());
    environment.push_back("BRAID_TEST_KILL_AT=" + std::to_string(k));
    const Folder temporary;  // a killed process leaves its files there
    environment.push_back("TMPDIR=" + temporary.path().string());
    const ProcessResult killed = compile("3", dir, environment);
    if (killed.exit_code == 0) break;
    ASSERT_EQ(killed.exit_code, 128 + SIGKILL) << killed.err;
    const std::string outcome = runs(dir);
    EXPECT_THAT(outcome, AnyOf("2", "3", AllOf(StartsWith("3: "), HasSubstr("BR0016"))));
    if (outcome == "2" || outcome == "3") expect_of_one_program(dir);
    (outcome == "2" ? old_program : outcome == "3" ? new_program : refused) += 1;
    EXPECT_EQ(read_text(dir + "/notes.txt"), "mine");
    if (outcome == "2") continue;  // as good as never begun
    ASSERT_EQ(compile("3", dir).exit_code, 0);
    EXPECT_EQ(runs(dir), "3");
    EXPECT_THAT(folder.names(), Not(Contains(HasSubstr(".braid-"))));
    EXPECT_THAT(folder.names(), Not(Contains(HasSubstr("unfinished"))));
  }
  EXPECT_GT(old_program, 5);
  EXPECT_GT(refused, 4);
  EXPECT_GT(new_program, 0);
}

TEST_F(ProgramFolder, ADamagedLibraryIsNotOpened) {
  const Folder folder;
  const std::string whole = read_text(*made_ / "2/times.so");
  std::vector<std::string> damaged = {"", "no library"};
  for (std::size_t part = 1; part < 16; ++part) damaged.push_back(whole.substr(0, whole.size() * part / 16));
  damaged.push_back(whole.substr(0, whole.size() - 1));
  damaged.push_back(whole.substr(0, whole.size() - 32));
  damaged.push_back(whole + "x");
  for (std::size_t at : {std::size_t{17}, std::size_t{40}, whole.size() / 2, whole.size() - 20}) {
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 1);
  }
  for (const std::string& library : damaged) {
    SCOPED_TRACE(library.size());
    const std::string dir = copy_of("2", folder);
    std::ofstream(dir + "/times.so", std::ios::binary) << library;
    EXPECT_THAT(runs(dir), AllOf(StartsWith("3: "), HasSubstr("BR0721"), HasSubstr("times.so")));
  }
}

TEST_F(ProgramFolder, DamagedWeightsAreRefused) {
  const Folder folder;
  const std::string whole = read_text(*made_ / "2/weights.bin");
  std::vector<std::string> damaged = {"", "no weights", whole + "x"};
  for (std::size_t length = 0; length < whole.size(); length += 8) damaged.push_back(whole.substr(0, length));
  for (std::size_t at = 0; at < whole.size(); at += 4) {
    if (at >= 40 && at < 64) continue;  // reserved
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 0x80);
  }
  for (const std::string& weights : damaged) {
    const std::string dir = copy_of("2", folder);
    std::ofstream(dir + "/weights.bin", std::ios::binary) << weights;
    EXPECT_THAT(runs(dir), AllOf(StartsWith("3: "), HasSubstr("BR0721"), HasSubstr("weights.bin")));
  }
}

// More blocks than are checked for nothing: it is packing that reads them.
TEST_F(ProgramFolder, DamageInAPackedMatrixIsFound) {
  constexpr int kMatrices = 8, kSize = 256;
  std::string text = "graph chain\ninput %x0: f32[1, 256]\n";
  for (int k = 1; k <= kMatrices; ++k)
    text += "constant %w" + std::to_string(k) + ": f32[256, 256] = splat(0.00" + std::to_string(k) + ")\n";
  for (int k = 1; k <= kMatrices; ++k) {
    text += "%x" + std::to_string(k) + ": f32[1, 256] = gemm %x" + std::to_string(k - 1) + ", transpose(%w" +
            std::to_string(k) + ")\n";
  }
  const Folder folder;
  const fs::path made = compiled("packed_chain", {folder.file("chain.braid", text + "output %x8\n")});
  for (const char* file : {"manifest.json", "chain.cc", "chain.h", "chain.so", "weights.bin"})
    fs::copy_file(made / file, folder.path() / file);
  ASSERT_EQ(braid({"run", folder.path().string(), "--random", "1"}).exit_code, 0);
  std::fstream weights(folder / "weights.bin", std::ios::binary | std::ios::in | std::ios::out);
  weights.seekp(kMatrices * kSize * kSize * 4 / 2);
  weights.put('!');
  weights.close();
  const ProcessResult result = braid({"run", folder.path().string(), "--random", "1"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr("BR0721"), HasSubstr("weights.bin is damaged")));
}

TEST_F(ProgramFolder, DamageInTheWeightsOfAConvolutionIsFound) {
  constexpr int kConvolutions = 16, kBytes = 3 * 3 * 64 * 64 * 4;
  std::string text = "graph windows\ninput %x0: f32[1, 8, 8, 64]\n";
  for (int k = 1; k <= kConvolutions; ++k)
    text += fmt::format("constant %w{}: f32[1, 3, 3, 64, 64] = splat(0.0{})\n", k, k);
  for (int k = 1; k <= kConvolutions; ++k)
    text += fmt::format("%x{0}: f32[1, 8, 8, 64] = convolution %x{1}, %w{0} pad [1, 1]\n", k, k - 1);
  const Folder folder;
  const std::string dir = folder / "program";
  text += fmt::format("output %x{}\n", kConvolutions);
  ASSERT_EQ(braid({"compile", folder.file("windows.braid", text), "-o", dir}).exit_code, 0);
  ASSERT_EQ(braid({"run", dir, "--random", "1"}).exit_code, 0);
  std::fstream weights(dir + "/weights.bin", std::ios::binary | std::ios::in | std::ios::out);
  weights.seekp(kConvolutions * kBytes / 2);
  weights.put('!');
  weights.close();
  const ProcessResult result = braid({"run", dir, "--random", "1"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr("BR0721"), HasSubstr("weights.bin is damaged")));
}

// Every field of the manifest: missing, of every wrong type, out of range.
TEST_F(ProgramFolder, HostileManifestsAreTheUsersError) {
  const Folder folder;
  const std::string text = read_text(*made_ / "2/manifest.json");
  const nlohmann::json whole = nlohmann::json::parse(text);
  const auto expect_no_harm = [&](const std::string& manifest) {
    SCOPED_TRACE(manifest.substr(0, 300));
    const std::string dir = copy_of("2", folder);
    std::ofstream(dir + "/manifest.json", std::ios::binary) << manifest;
    EXPECT_THAT(runs(dir), AnyOf("2", AllOf(StartsWith("3: "), HasSubstr("error BR"))));
    const ProcessResult check = braid({"check", dir});
    EXPECT_EQ(check.exit_code, check.err.empty() ? 0 : code_of(check.err)) << check.err;
    EXPECT_THAT(check.err, AnyOf("", HasSubstr("error BR")));
  };
  const std::vector<nlohmann::json> values = {
      nullptr, true, -1, 1e300, "", "../times", {{}}, nlohmann::json::object(), 18446744073709551615u};
  for (const auto& [field, value] : whole.items()) {
    nlohmann::json without = whole;
    without.erase(field);
    expect_no_harm(without.dump());
    for (const nlohmann::json& wrong : values) {
      nlohmann::json changed = whole;
      changed[field] = wrong;
      expect_no_harm(changed.dump());
    }
  }
  for (std::size_t part = 0; part < 8; ++part) expect_no_harm(text.substr(0, text.size() * part / 8));
  expect_no_harm(std::string(100000, '['));
  const std::string dir = copy_of("2", folder);
  for (const char* target : {"42", "null", "[]", "\"tpu\""}) {
    nlohmann::json changed = whole;
    changed["target"] = nlohmann::json::parse(target);
    std::ofstream(dir + "/manifest.json") << changed.dump();
    EXPECT_THAT(runs(dir), AllOf(StartsWith("3: "), HasSubstr("BR0008"), HasSubstr("'target'")));
  }
  fs::remove(dir + "/manifest.json");
  ASSERT_EQ(::mkfifo((dir + "/manifest.json").c_str(), 0600), 0);
  EXPECT_THAT(runs(dir), HasSubstr("BR0008"));  // and does not wait
}

}  // namespace
}  // namespace braid::test
