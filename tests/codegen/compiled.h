// Compiles many programs given as IR text into one library and compares each with the interpreter.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/cpp/emit.h"
#include "ir/interpreter.h"
#include "runtime/program.h"
#include "tests/support/close.h"
#include "tests/support/random_tensors.h"

namespace braid::test {

// "default": the default pass list. Otherwise a pass list that ends with plan_memory.
ir::Schedule schedule_of(const std::string& text, const std::string& passes = "default");

// Random contents for constants of 16 elements and more (texts give them as splat(...)).
void fill_constants(ir::Graph& graph, std::uint64_t seed);

class Compiled {
 public:
  // `flags` of the host compiler, unless BRAID_CXXFLAGS is set.
  explicit Compiled(std::string flags = "-O2 -ftree-vectorize -march=native");
  ~Compiled();  // removes its folder
  // Emits now; the programs of all calls are compiled together by `build`.
  void add(const std::string& name, const std::string& text, const std::string& passes = "default");
  // A planned schedule; what is not legal for the target is made so. checked: the program holds itself to the
  // plan.
  void add_schedule(const std::string& name, ir::Schedule schedule, bool checked = false);
  void build();

  const ir::Schedule& schedule(const std::string& name) const { return entries_.at(name).schedule; }
  const codegen::cpp::EmittedProgram& emitted(const std::string& name) const {
    return entries_.at(name).program;
  }
  const BraidProgram* table(const std::string& name);
  const std::string& folder(const std::string& name) const { return entries_.at(name).dir; }  // of its files
  rt::Program open(const std::string& name, rt::World* world = nullptr);

  // One step of a program for one rank.
  std::vector<ir::Tensor> run(rt::Program& program, const std::vector<ir::Tensor>& inputs);
  // Runs on random inputs and compares with the interpreter. `dims` by name, `tolerance` relative to the
  // larger of the value and 1; 0: bitwise.
  void expect_like_interpreter(const std::string& name, const std::map<std::string, std::int64_t>& dims = {},
                               double tolerance = 1e-5, std::uint64_t seed = 1);
  void expect_like_interpreter_on(const std::string& name, const std::vector<ir::Tensor>& inputs,
                                  double tolerance, const std::string& what = {});

 private:
  struct Entry {
    ir::Schedule schedule;
    codegen::cpp::EmittedProgram program;
    std::string dir;
  };
  std::map<std::string, Entry> entries_;
  std::string dir_, flags_;
  bool built_ = false;
  void* library_ = nullptr;
};

rt::DType runtime_dtype(ir::DType dtype);
rt::TensorView view(ir::Tensor& tensor);

}  // namespace braid::test
