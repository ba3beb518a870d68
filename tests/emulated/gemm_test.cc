#include <cmath>
#include <random>

#include "runtime/cuda_gemm.h"
#include "runtime/emulated/half_types.h"
#include "tests/emulated/support.h"

namespace braid::test {
namespace {

using rt::cuda::Gemm;
using rt::cuda::GemmEpilogue;
using rt::cuda::GemmOperands;
using rt::cuda::GemmProblem;
using rt::cuda::GemmType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A matrix on the device, of any of the types; integers, so that every result is exact.
class Matrix {
 public:
  Matrix(GemmType type, std::vector<float> values) : type_(type), values_(std::move(values)) {
    EXPECT_EQ(cudaMalloc(&data_, bytes()), cudaSuccess);
    upload(values_);
  }
  ~Matrix() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }
  void* data() const { return data_; }
  const std::vector<float>& values() const { return values_; }
  std::vector<float> download() const {
    std::vector<char> raw(bytes());
    EXPECT_EQ(cudaMemcpy(raw.data(), data_, bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    std::vector<float> result;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (type_ == GemmType::kFloat32) result.push_back(reinterpret_cast<const float*>(raw.data())[i]);
      if (type_ == GemmType::kFloat16) result.push_back(reinterpret_cast<const __half*>(raw.data())[i]);
      if (type_ == GemmType::kBFloat16)
        result.push_back(reinterpret_cast<const __nv_bfloat16*>(raw.data())[i]);
    }
    return result;
  }

 private:
  size_t bytes() const { return values_.size() * (type_ == GemmType::kFloat32 ? 4 : 2); }
  void upload(const std::vector<float>& values) {
    std::vector<char> raw(bytes());
    for (size_t i = 0; i < values.size(); ++i) {
      if (type_ == GemmType::kFloat32) reinterpret_cast<float*>(raw.data())[i] = values[i];
      if (type_ == GemmType::kFloat16) reinterpret_cast<__half*>(raw.data())[i] = __half(values[i]);
      if (type_ == GemmType::kBFloat16)
        reinterpret_cast<__nv_bfloat16*>(raw.data())[i] = __nv_bfloat16(values[i]);
    }
    EXPECT_EQ(cudaMemcpy(data_, raw.data(), bytes(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  GemmType type_;
  std::vector<float> values_;
  void* data_ = nullptr;
};

class GemmTest : public EmulatedTest {
 protected:
  std::vector<float> integers(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(static_cast<int>(random_() % 5) - 2);
    return values;
  }
  // D by three loops, from the definition in the header.
  static std::vector<float> right(GemmProblem p, const std::vector<float>& a, const std::vector<float>& b,
                                  const std::vector<float>& c, const std::vector<float>& bias,
                                  std::vector<float> d) {
    p = with_defaults(p);
    for (int64_t batch = 0; batch < p.batch; ++batch)
      for (int64_t m = 0; m < p.m; ++m)
        for (int64_t n = 0; n < p.n; ++n) {
          float sum = 0;
          for (int64_t k = 0; k < p.k; ++k)
            sum +=
                a[static_cast<size_t>(batch * p.stride_a + (p.transpose_a ? k * p.lda + m : m * p.lda + k))] *
                b[static_cast<size_t>(batch * p.stride_b + (p.transpose_b ? n * p.ldb + k : k * p.ldb + n))];
          sum *= p.alpha;
          if (p.beta != 0) sum += p.beta * c[static_cast<size_t>(batch * p.stride_c + m * p.ldc + n)];
          if (p.has_bias) sum += bias[static_cast<size_t>(n)];
          if (p.epilogue == GemmEpilogue::kRelu) sum = std::max(sum, 0.0f);
          d[static_cast<size_t>(batch * p.stride_d + m * p.ldd + n)] = sum;
        }
    return d;
  }
  std::mt19937 random_{7};
};

TEST_F(GemmTest, EqualsTheDefinitionForAllTypesTransposesAndEpilogues) {
  for (const GemmType type : {GemmType::kFloat32, GemmType::kFloat16, GemmType::kBFloat16}) {
    for (int variant = 0; variant < 32; ++variant) {
      GemmProblem p;
      p.m = 5, p.n = 7, p.k = 6, p.batch = 3;
      p.transpose_a = (variant & 1) != 0;
      p.transpose_b = (variant & 2) != 0;
      p.has_bias = (variant & 4) != 0;
      p.epilogue = (variant & 8) != 0 ? GemmEpilogue::kRelu : GemmEpilogue::kNone;
      p.beta = (variant & 16) != 0 ? 2.0f : 0.0f;
      p.alpha = 1.0f;
      p.input_type = p.output_type = type;
      p.lda = 9, p.ldb = 10, p.ldc = 7, p.ldd = 8;
      p.stride_a = 60, p.stride_b = 0, p.stride_c = 40, p.stride_d = 48;
      Matrix a(type, integers(3 * 60)), b(type, integers(80)), c(type, integers(120)),
          bias(type, integers(7));
      Matrix d(type, integers(3 * 48));
      Gemm gemm;
      ASSERT_EQ(gemm.prepare(p), cudaSuccess) << gemm.error();
      ASSERT_EQ(gemm.run({a.data(), b.data(), c.data(), bias.data(), d.data(), nullptr}, nullptr),
                cudaSuccess);
      EXPECT_EQ(d.download(), right(p, a.values(), b.values(), c.values(), bias.values(), d.values()))
          << variant;
    }
  }
}

// The 12th bit and those below it are lost: 1 + 2^-11 is a tie, which goes up, 1 + 2^-12 goes down.
TEST_F(GemmTest, TensorFloatsHaveElevenBits) {
  const auto product = [](float x, float y) {
    GemmProblem p;
    p.m = p.n = p.k = 1;
    p.input_type = GemmType::kTensorFloat32;
    Matrix a(GemmType::kFloat32, {x}), b(GemmType::kFloat32, {y}), d(GemmType::kFloat32, {0.0f});
    Gemm gemm;
    EXPECT_EQ(gemm.prepare(p), cudaSuccess) << gemm.error();
    EXPECT_EQ(gemm.run({a.data(), b.data(), nullptr, nullptr, d.data(), nullptr}, nullptr), cudaSuccess);
    return d.download()[0];
  };
  EXPECT_EQ(product(1 + 0x1p-10f, 3), 3 + 3 * 0x1p-10f);
  EXPECT_EQ(product(1 + 0x1p-11f, 1), 1 + 0x1p-10f);
  EXPECT_EQ(product(1, -1 - 0x1p-11f), -1 - 0x1p-10f);
  EXPECT_EQ(product(1 + 0x1p-12f, 1), 1);
  EXPECT_EQ(product(0x1.ffcp127f, 1), 0x1.ffcp127f);
  EXPECT_EQ(product(0x1.fffp127f, 1), INFINITY) << "rounds beyond the largest number";
  EXPECT_EQ(product(-INFINITY, 1), -INFINITY);
  EXPECT_TRUE(std::isnan(product(NAN, 1)));
  GemmProblem halves;
  halves.m = halves.n = halves.k = 1;
  halves.input_type = halves.output_type = GemmType::kTensorFloat32;
  Gemm gemm;
  EXPECT_EQ(gemm.prepare(halves), cudaErrorInvalidValue) << "a type of inputs only";
}

// cuBLASLt gets D as C where nothing of C is read, and refuses that if the two are described differently.
TEST_F(GemmTest, WhatIsPassedAsUnreadCHasTheLayoutOfD) {
  GemmProblem p;
  p.m = 5, p.n = 7, p.k = 6, p.batch = 3;
  p.ldd = 8, p.stride_d = 48;
  p = with_defaults(p);
  EXPECT_EQ(p.ldc, 8);
  EXPECT_EQ(p.stride_c, 48);
  p.ldc = p.stride_c = 0;
  p.beta = 2.0f;
  p = with_defaults(p);
  EXPECT_EQ(p.ldc, 7);
  EXPECT_EQ(p.stride_c, 0) << "the same C for the whole batch";
}

TEST_F(GemmTest, GeluIsTheTanhApproximation) {
  GemmProblem p;
  p.m = p.n = p.k = 1;
  p.epilogue = GemmEpilogue::kGelu;
  Matrix a(GemmType::kFloat32, {1.5f}), b(GemmType::kFloat32, {1.0f}), d(GemmType::kFloat32, {0.0f});
  Gemm gemm;
  ASSERT_EQ(gemm.prepare(p), cudaSuccess);
  ASSERT_EQ(gemm.run({a.data(), b.data(), nullptr, nullptr, d.data(), nullptr}, nullptr), cudaSuccess);
  EXPECT_NEAR(d.download()[0], 0.5 * 1.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (1.5 + 0.044715 * 3.375))),
              1e-6);
}

TEST_F(GemmTest, ReadsItsOperandsOnTheStream) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  cudaStream_t streams[2];
  for (auto& stream : streams)
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  GemmProblem p;
  p.m = p.n = p.k = 4;
  {
    Matrix a(GemmType::kFloat32, integers(16)), b(GemmType::kFloat32, integers(16)),
        d(GemmType::kFloat32, integers(16));
    Gemm gemm;
    ASSERT_EQ(gemm.prepare(p), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(b.data(), 0, 64, streams[0]), cudaSuccess);
    ASSERT_EQ(gemm.run({a.data(), b.data(), nullptr, nullptr, d.data(), nullptr}, streams[1]), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr("nothing orders the read by Gemm on rank 0 stream 1 and the write by "
                                    "memset on rank 0 stream 0")));
}

TEST_F(GemmTest, AnOperandThatIsTooSmallIsFound) {
  GemmProblem p;
  p.m = p.n = p.k = 4;
  Matrix a(GemmType::kFloat32, integers(16)), b(GemmType::kFloat32, integers(12)),
      d(GemmType::kFloat32, integers(16));
  Gemm gemm;
  ASSERT_EQ(gemm.prepare(p), cudaSuccess);
  ASSERT_EQ(gemm.run({a.data(), b.data(), nullptr, nullptr, d.data(), nullptr}, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("out of bounds")));
  emulated::reset_devices();
}

TEST_F(GemmTest, WhatCuBlasLtLacksIsRefusedHereToo) {
  GemmProblem p;
  p.m = p.n = p.k = 4;
  p.output_type = GemmType::kFloat16;
  Gemm gemm;
  EXPECT_EQ(gemm.prepare(p), cudaErrorInvalidValue);
  EXPECT_THAT(gemm.error(), HasSubstr("float32"));
}

TEST_F(GemmTest, AnOperandThatIsLessAlignedThanPromisedIsFound) {
  const auto run = [&](int alignment) {
    Matrix a(GemmType::kFloat16, integers(33)), b(GemmType::kFloat16, integers(32)),
        d(GemmType::kFloat16, std::vector<float>(16));
    Gemm gemm;
    EXPECT_EQ(gemm.prepare({.m = 4,
                            .n = 4,
                            .k = 8,
                            .input_type = GemmType::kFloat16,
                            .output_type = GemmType::kFloat16,
                            .alignment_a = alignment}),
              cudaSuccess);
    GemmOperands o;
    o.a = static_cast<const char*>(a.data()) + 2;
    o.b = b.data();
    o.d = d.data();
    EXPECT_EQ(gemm.run(o, nullptr), cudaSuccess);
    cudaDeviceSynchronize();
    std::vector<std::string> texts = found();
    emulated::reset_devices();
    return texts;
  };
  EXPECT_THAT(run(2), ::testing::IsEmpty());
  EXPECT_THAT(run(16),
              ElementsAre(::testing::AllOf(HasSubstr("Gemm"), HasSubstr("operand A is misaligned"),
                                           HasSubstr("promises 16 bytes"), HasSubstr("2 bytes behind"))));
}

}  // namespace
}  // namespace braid::test
