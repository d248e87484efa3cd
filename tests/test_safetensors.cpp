// safetensors: the bytes are those of the published format, every number survives, and a damaged file is refused with
// its name and never crashes the reader. Models and checkpoints on top of that: test_model_files.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "nn/files.h"
#include "nn/safetensors.h"
#include "tests/helpers.h"

using namespace clearhead;
namespace fs = std::filesystem;

namespace {

using Safetensors = InFolder;

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}  // without a sync

// A file by hand: 8 bytes of length, the header padded with spaces, the numbers.
std::string file_of(std::string header, const std::string& data) {
  uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), 8) + header + data;
}
template <class T>
std::string bytes_of(const std::vector<T>& x) {
  return {reinterpret_cast<const char*>(x.data()), x.size() * sizeof(T)};
}
const std::string two_floats = bytes_of(std::vector<float>{1.5f, -2});

TEST_F(Safetensors, ByteForByte) {
  TensorFile file;
  file.tensors["b"] = Tensor::from({2, 1}, {1, -2});
  file.tensors["a"] = Tensor::from({3, 2}, {1, 4, 2, 5, 3, 6}).transpose();  // a view: written row-major
  file.tensors["s"] = Tensor::from({}, {0.5});
  file.metadata = {{"format", "pt"}};
  save_tensors(path("f"), file);
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"data_offsets":[0,24],"dtype":"F32","shape":[2,3]},)"
      R"("b":{"data_offsets":[24,32],"dtype":"F32","shape":[2,1]},"s":{"data_offsets":[32,36],"dtype":"F32","shape":[]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(padded.size() % 8, 0u);
  const std::string expected =
      file_of(padded, std::string("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40\0\0\xc0\x40"
                                  "\0\0\x80\x3f\0\0\0\xc0"
                                  "\0\0\0\x3f",
                                  36));
  EXPECT_EQ(read_file(path("f")), expected);
  const TensorFile back = load_tensors(path("f"));
  EXPECT_EQ(back.metadata, file.metadata);
  ASSERT_EQ(back.tensors.size(), 3u);
  EXPECT_EQ(back.tensors.at("a").at({1, 2}), 6);
  EXPECT_EQ(back.at("s", {}).item(), Real(0.5));
}

TEST_F(Safetensors, EveryBitPatternSurvives) {
  const std::vector<uint32_t> bits{0x7fc12345, 0xffc00001, 0x7f800000, 0xff800000,
                                   0x80000000, 1,          0x7f7fffff};  // NaNs, inf, -0, ..
  put(path("f"), file_of(R"({"x":{"dtype":"F32","shape":[7],"data_offsets":[0,28]}})", bytes_of(bits)));
  save_tensors(path("g"), load_tensors(path("f")));
  EXPECT_TRUE(read_file(path("g")).ends_with(bytes_of(bits)));
}

TEST_F(Safetensors, DoublesAreRead) {
  put(path("f"),
      file_of(R"( {"x":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}} )", bytes_of(std::vector<double>{0.1, -3})));
  EXPECT_EQ(load_tensors(path("f")).at("x", {2}).at({0}), Real(0.1));
}

TEST_F(Safetensors, TruncatedAnywhereIsRefused) {
  TensorFile file;
  file.tensors["x"] = Tensor({2, 2}, 1), file.tensors["y"] = Tensor({3}, 2);
  save_tensors(path("f"), file);
  const std::string whole = read_file(path("f"));
  for (size_t n = 0; n < whole.size(); ++n) {
    put(path("g"), whole.substr(0, n));
    EXPECT_TRUE(error_of([&] { load_tensors(path("g")); }).starts_with(path("g") + ": ")) << n;
  }
  put(path("g"), whole + "x");
  EXPECT_EQ(error_of([&] { load_tensors(path("g")); }), path("g") + ": corrupt: 29 bytes of data, the tensors take 28");
}

// Every byte of the header, replaced: an Error that names the file, or a file that still makes sense. Never anything
// else.
TEST_F(Safetensors, ACorruptedHeaderIsRefusedOrHarmless) {
  TensorFile file;
  file.tensors["x"] = Tensor({2, 2}, 1), file.tensors["y"] = Tensor({3}, 2);
  file.metadata = {{"k", "v"}};
  save_tensors(path("f"), file);
  const std::string whole = read_file(path("f"));
  int refused = 0;
  for (size_t i = 0; i < whole.size() - 28; ++i)
    for (const char c : {'\0', '\xff', '9', '-', '"', '{', ']', ',', 'e'}) {
      std::string damaged = whole;
      damaged[i] = c;
      put(path("g"), damaged);
      const std::string text = error_of([&] { load_tensors(path("g")); });
      if (text == "(no error)") continue;
      ++refused;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      EXPECT_TRUE(text.starts_with(path("g")) || text.starts_with("shape: ")) << text;
    }
  EXPECT_GT(refused, 900);
}

TEST_F(Safetensors, WhatTheHeaderClaimsIsChecked) {
  const auto error = [&](const std::string& header, const std::string& data) {
    put(path("f"), file_of(header, data));
    const std::string text = error_of([&] { load_tensors(path("f")); });
    return text.starts_with(path("f") + ": ") ? text.substr(path("f").size() + 2) : text;
  };
  EXPECT_EQ(error(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", two_floats), "(no error)");
  EXPECT_EQ(error(R"({"x":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})", two_floats),
            "tensor 'x' has dtype BF16; only F32 and F64 can be read");
  EXPECT_EQ(error(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", two_floats),
            "tensor 'x' has shape [3] and 8 bytes of F32");
  EXPECT_EQ(error(R"({"x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", two_floats),
            "tensor 'x' has an impossible shape [0]");
  EXPECT_EQ(error(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", two_floats),
            "tensor 'x' has an impossible shape [-2]");
  EXPECT_EQ(error(R"({"x":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", two_floats),
            "tensor 'x' has an impossible shape [4611686018427387904,4]");
  EXPECT_EQ(error(R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", two_floats),
            "tensor 'x' lies at [0,16], but the file has 8 bytes of data (truncated?)");
  EXPECT_EQ(error(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", two_floats),
            "tensor 'x' lies at [8,0], but the file has 8 bytes of data (truncated?)");
  const std::string x =
      R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":)";
  EXPECT_EQ(error(x + "[0,4]}}", two_floats), "corrupt: the tensors leave a hole or overlap at byte 4 of the data");
  EXPECT_EQ(error(x + "[8,12]}}", two_floats + "1234"),
            "corrupt: the tensors leave a hole or overlap at byte 4 of the data");
  EXPECT_EQ(error(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", two_floats),
            "corrupt: the tensors leave a hole or overlap at byte 0 of the data");
  EXPECT_EQ(error("[1, 2]", ""), "not a safetensors file: the header is no JSON object");
  EXPECT_TRUE(error(R"({"x":3})", "").starts_with("not a safetensors file: the header is broken ("));
  EXPECT_TRUE(error(R"({"x":{"dtype":"F32"}})", "").starts_with("not a safetensors file: the header is broken ("));
  EXPECT_TRUE(error(R"({"__metadata__":{"k":1}})", "").starts_with("not a safetensors file: the header is broken ("));
  put(path("f"), bytes_of(std::vector<uint64_t>{std::numeric_limits<uint64_t>::max(), 0}));
  EXPECT_EQ(
      error_of([&] { load_tensors(path("f")); }),
      path("f") + ": not a safetensors file, or truncated: a header of 18446744073709551615 bytes in a file of 16");
}

}  // namespace
