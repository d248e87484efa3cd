// The program `circuits`, as somebody with a model file of any origin meets it.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>

#include "nn/circuits/circuits.h"
#include "nn/circuits/handmade.h"
#include "nn/model_file.h"
#include "nn/safetensors.h"
#include "tests/helpers.h"

using namespace clearhead;

namespace {

class CircuitsProgram : public InFolder {
 protected:
  struct Result {
    int code;
    std::string text;
    bool says(const std::string& words) const { return text.find(words) != std::string::npos; }
  };
  Result run(const std::string& file) const {
    FILE* pipe = popen((CLEARHEAD_BIN_DIR "/circuits " + path(file) + " --out " + path("out") + " 2>&1").c_str(), "r");
    std::string text;
    std::array<char, 4096> buffer;
    while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), n);
    const int status = pclose(pipe);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
  }
  Transformer untrained(int64_t layers) const {
    Config c;
    c.d_vocab = 40, c.d_model = 32, c.d_head = 8, c.n_layers = layers, c.n_ctx = 30;
    return Transformer(c, 5);
  }
};

TEST_F(CircuitsProgram, OfAnUntrainedModelSaysThatItIsWithinTheNull) {
  for (int64_t layers : {1, 2, 4}) {
    save_model(path("model.safetensors"), untrained(layers));
    const Result r = run("model.safetensors");
    EXPECT_EQ(r.code, 0) << r.text;
    EXPECT_TRUE(r.says("all copying scores are within what random weights give")) << r.text;
    EXPECT_EQ(r.says("all compositions are within what random weights give"), layers > 1) << r.text;
    EXPECT_TRUE(r.says("L" + std::to_string(layers - 1) + "H3")) << r.text;
    EXPECT_TRUE(r.says(std::to_string(layers + 1) + " orders")) << r.text;
  }
}

TEST_F(CircuitsProgram, OfAHandmadeInductionModelSaysWhoReadsWhom) {
  save_model(path("model.safetensors"), model_of(handmade_induction(12, 30)));
  const Result r = run("model.safetensors");
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_TRUE(r.says("L0H0 > L1H0    K")) << r.text;
  EXPECT_FALSE(r.says("all compositions are within")) << r.text;
  EXPECT_FALSE(r.says("all copying scores are within")) << r.text;
}

TEST_F(CircuitsProgram, AModelItCannotReadIsOneLine) {
  const auto complains = [&](const std::string& of) {
    const Result r = run("model.safetensors");
    EXPECT_EQ(r.code, 1) << r.text;
    EXPECT_EQ(std::count(r.text.begin(), r.text.end(), '\n'), 1) << r.text;
    EXPECT_TRUE(r.says(of)) << r.text;
  };
  complains("model.safetensors");  // there is none
  save_model(path("model.safetensors"), untrained(2));
  const TensorFile good = load_tensors(path("model.safetensors"));
  const auto with = [&](const auto& change) {
    TensorFile bad = good;
    change(bad.tensors);
    save_tensors(path("model.safetensors"), bad);
  };
  with([](auto& t) { t.erase("blocks.1.attn.W_V"); });
  complains("blocks.1.attn.W_V");
  with([](auto& t) { t.at("blocks.0.attn.W_O") = Tensor({4, 32, 8}); });  // other axes
  complains("blocks.0.attn.W_O");
  with([](auto& t) { t.at("unembed.W_U").mut()[3] = Real(NAN); });
  complains("unembed.W_U");
}

}  // namespace
