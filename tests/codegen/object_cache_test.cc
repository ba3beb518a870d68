// The cache of compiled objects, and what is compiled through it.
#include "codegen/object_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <vector>

#include "codegen/build_cached.h"

namespace braid::test {
namespace {

namespace fs = std::filesystem;
using codegen::ObjectCache;

class Cache : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "braid-cache-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(dir_); }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(dir_ / "cache"), fs::directory_iterator()));
  }
  ObjectCache cache(std::uint64_t limit = ObjectCache::kLimit) const {
    std::optional<ObjectCache> opened = ObjectCache::open(dir_ / "cache", limit);
    if (!opened) throw std::runtime_error("no cache in " + dir_.string());
    return std::move(*opened);
  }
  fs::path dir_;
};

TEST_F(Cache, HoldsWhatWasStored) {
  const ObjectCache c = cache();
  EXPECT_EQ(c.find("a"), std::nullopt);
  const std::string contents("\0one\n", 5);
  c.store("a", contents);
  c.store("b", "");
  EXPECT_EQ(c.find("a"), contents);
  EXPECT_EQ(c.find("b"), "");
  c.store("a", "two");
  EXPECT_EQ(cache().find("a"), "two");
}

TEST_F(Cache, IsTheUsersAlone) {
  cache();
  struct stat info = {};
  ASSERT_EQ(::stat((dir_ / "cache").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  for (const auto open_to : {fs::perms::group_read, fs::perms::others_write}) {
    fs::permissions(dir_ / "cache", fs::perms::owner_all | open_to);
    EXPECT_FALSE(ObjectCache::open(dir_ / "cache"));
  }
  fs::create_directory_symlink(dir_ / "cache", dir_ / "link");
  fs::permissions(dir_ / "cache", fs::perms::owner_all);
  EXPECT_FALSE(ObjectCache::open(dir_ / "link"));
  write(dir_ / "file", "");
  EXPECT_FALSE(ObjectCache::open(dir_ / "file"));
  EXPECT_FALSE(ObjectCache::open(dir_ / "file" / "below"));
  if (::geteuid() == 0) {
    fs::create_directory(dir_ / "foreign");
    fs::permissions(dir_ / "foreign", fs::perms::owner_all);
    ASSERT_EQ(::chown((dir_ / "foreign").c_str(), 12345, 12345), 0);
    EXPECT_FALSE(ObjectCache::open(dir_ / "foreign"));
  }
}

TEST_F(Cache, EntriesThatAreNotWhatWasStoredAreRemoved) {
  const ObjectCache c = cache();
  c.store("a", "contents");
  c.store("b", "of another");
  const std::string whole = read(dir_ / "cache/a.o"), other = read(dir_ / "cache/b.o");
  std::vector<std::string> bad = {"", "x", whole + "x", other};
  for (std::size_t k = 0; k < whole.size(); ++k) {
    bad.push_back(whole.substr(0, k));
    bad.push_back(whole);
    bad.back()[k] = static_cast<char>(bad.back()[k] ^ 1);
  }
  for (const std::string& entry : bad) {
    write(dir_ / "cache/a.o", entry);
    EXPECT_EQ(c.find("a"), std::nullopt);
    EXPECT_FALSE(fs::exists(dir_ / "cache/a.o"));
  }
  // A link out of the folder is not followed, a folder is no entry.
  write(dir_ / "outside", whole);
  fs::create_symlink(dir_ / "outside", dir_ / "cache/a.o");
  EXPECT_EQ(c.find("a"), std::nullopt);
  c.store("a", "again");
  EXPECT_EQ(c.find("a"), "again");
  EXPECT_EQ(read(dir_ / "outside"), whole);
  fs::create_directory(dir_ / "cache/c.o");
  EXPECT_EQ(c.find("c"), std::nullopt);
  c.store("c", "x");
  EXPECT_EQ(c.find("c"), std::nullopt);
}

TEST_F(Cache, WhatWasUnusedForTheLongestTimeMakesRoom) {
  const ObjectCache c = cache(900);
  const auto age = [&](const char* name, int hours) {
    fs::last_write_time(dir_ / "cache" / name, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  c.store("a", std::string(300, 'a'));
  c.store("b", std::string(300, 'b'));
  age("a.o", 3);
  age("b.o", 2);
  ASSERT_TRUE(c.find("a"));  // used now: b is the oldest
  c.store("c", std::string(300, 'c'));
  EXPECT_TRUE(c.find("a") && c.find("c") && !c.find("b"));
  c.store("d", std::string(880, 'd'));  // with its seal above the limit
  EXPECT_TRUE(c.find("a") && c.find("c") && !c.find("d"));
  c.store("e", std::string(850, 'e'));
  EXPECT_TRUE(c.find("e") && !c.find("a") && !c.find("c"));
  // Partial files that a killed process has left.
  write(dir_ / "cache/f.1.partial", "x");
  write(dir_ / "cache/g.1.partial", "x");
  age("f.1.partial", 2);
  c.store("h", "h");
  EXPECT_FALSE(fs::exists(dir_ / "cache/f.1.partial"));
  EXPECT_TRUE(fs::exists(dir_ / "cache/g.1.partial"));
}

TEST_F(Cache, ManyStoreAndFindTheSame) {
  cache();
  std::vector<pid_t> children;
  for (int k = 0; k < 8; ++k) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    const ObjectCache c = cache(4000);
    bool good = true;
    for (int round = 0; round < 200; ++round) {
      const std::string key = "key" + std::to_string(round % 3),
                        want(1000, static_cast<char>('0' + round % 3));
      c.store(key, want);
      const auto found = c.find(key);
      good = good && (!found || *found == want);
    }
    ::_exit(good ? 0 : 1);
  }
  for (pid_t child : children) {
    int status = 1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

// A compiler that counts what it compiles, and says what a compiler says of itself.
class CompiledObject : public Cache {
 protected:
  void SetUp() override {
    Cache::SetUp();
    ::setenv("BRAID_CACHE_DIR", (dir_ / "cache").c_str(), 1);
    write(source(), "source");
    write(header(), "// first");
    set_version("12.2");
    write_compiler("c++");
  }
  void TearDown() override {
    ::unsetenv("BRAID_CACHE_DIR");
    Cache::TearDown();
  }
  fs::path source() const { return dir_ / "source/program.cc"; }
  fs::path header() const { return dir_ / "source/header.h"; }
  std::string compiler(const std::string& name = "c++") const { return (dir_ / name).string(); }
  void set_version(const std::string& version) { write(dir_ / "version", version); }
  void write_compiler(const std::string& name) {
    write(compiler(name), "#!/bin/sh\nhere=" + dir_.string() + R"sh(
said() { cat "$here"/version "$here"/source/*; }
for word in "$@"; do
  case "$previous" in -o) out="$word";; esac
  case "$word" in -E) said; exit;; esac
  previous="$word"
done
echo compiled >> "$here/log"
{ printf "object of "; said; } > "$out"
)sh");
    fs::permissions(compiler(name), fs::perms::owner_all);
  }
  // Makes the object; returns whether it was compiled.
  bool compiles(const std::string& flags = "-O3", const std::string& name = "c++") {
    const std::size_t before = read(dir_ / "log").size();
    fs::remove(dir_ / "out.o");
    codegen::compile_object(
        compiler(name) + " " + flags, source(), dir_ / "out.o", false,
        [](const std::string&, const std::string& lines) { throw std::runtime_error(lines); });
    EXPECT_THAT(read(dir_ / "out.o"), ::testing::StartsWith("object of " + read(dir_ / "version")));
    return read(dir_ / "log").size() > before;
  }
};

TEST_F(CompiledObject, IsCompiledOncePerCompilerProcessorFlagsAndHeaders) {
  EXPECT_TRUE(compiles());
  EXPECT_FALSE(compiles());
  EXPECT_TRUE(compiles("-O2"));
  EXPECT_FALSE(compiles("-O2"));
  set_version("12.3");  // or what -march=native means: both are what the compiler says of itself
  EXPECT_TRUE(compiles());
  EXPECT_FALSE(compiles());
  write(header(), "// a header");
  EXPECT_TRUE(compiles());
  EXPECT_FALSE(compiles());
  write(header(), "// another");
  EXPECT_TRUE(compiles());
  write_compiler("clang");
  EXPECT_TRUE(compiles("-O3", "clang"));
  EXPECT_FALSE(compiles("-O3", "clang"));
  write(header(), "// a header");
  EXPECT_FALSE(compiles());  // still there
}

TEST_F(CompiledObject, IsCompiledAgainWhereTheEntryIsDamaged) {
  EXPECT_TRUE(compiles());
  for (const auto& entry : fs::directory_iterator(dir_ / "cache/objects")) {
    std::fstream file(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(3);
    file.put('!');
  }
  EXPECT_TRUE(compiles());
  EXPECT_FALSE(compiles());
}

TEST_F(CompiledObject, IsCompiledWithoutACacheWhereThereIsNone) {
  ::unsetenv("BRAID_CACHE_DIR");
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_TRUE(compiles());
  EXPECT_TRUE(compiles());
  ::setenv("HOME", "/proc/no/home", 1);
  EXPECT_TRUE(compiles());
  EXPECT_TRUE(compiles());
  ::setenv("HOME", (dir_ / "home").c_str(), 1);
  EXPECT_TRUE(compiles());
  EXPECT_FALSE(compiles());
  EXPECT_TRUE(fs::is_directory(dir_ / "home/.cache/braid/objects"));
  ::setenv("XDG_CACHE_HOME", (dir_ / "xdg").c_str(), 1);
  EXPECT_TRUE(compiles());
  EXPECT_TRUE(fs::is_directory(dir_ / "xdg/braid/objects"));
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", home.c_str(), 1);
}

TEST_F(CompiledObject, AFailureIsReported) {
  write(compiler(), "#!/bin/sh\necho no such processor\nexit 1\n");
  EXPECT_THROW(compiles(), std::runtime_error);
  EXPECT_FALSE(fs::exists(dir_ / "out.o"));
}

}  // namespace
}  // namespace braid::test
